"""The nightly job: ratings in, recommendation tables and the model out. See ``python jobs/retrain.py --help``.

spark-submit jobs/retrain.py --config mine.yaml --dry-run
dcrec retrain --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import main

if __name__ == "__main__":
    main("retrain")
