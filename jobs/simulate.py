"""A confounded world with known truth: ratings, potential outcomes, the truth itself. See ``--help``.

spark-submit jobs/simulate.py --config mine.yaml --dry-run
dcrec simulate --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.command import run_script

if __name__ == "__main__":
    run_script("simulate")
