"""A saved model in, recommendation tables out: for all of its users, or for a list. See ``--help``.

spark-submit jobs/recommend.py --config mine.yaml --dry-run
dcrec recommend --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import run_script

if __name__ == "__main__":
    run_script("recommend")
