"""Ratings in, the settings that rank held-out ratings best out, every trial recorded. See ``--help``.

spark-submit jobs/tune.py --config mine.yaml --dry-run
dcrec tune --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import run_script

if __name__ == "__main__":
    run_script("tune")
