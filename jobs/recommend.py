"""A saved model in, recommendation tables out: for all of its users, or for a list. See ``--help``.

spark-submit jobs/recommend.py --config mine.yaml --dry-run
dcrec recommend --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import main

if __name__ == "__main__":
    main("recommend")
