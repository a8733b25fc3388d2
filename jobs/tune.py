"""Ratings in, the settings that rank held-out ratings best out, every trial recorded. See ``--help``.

spark-submit jobs/tune.py --config mine.yaml --dry-run
dcrec tune --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import main

if __name__ == "__main__":
    main("tune")
