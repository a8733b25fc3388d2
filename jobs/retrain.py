"""Ratings in, recommendation tables out: validate, fit both stages, rank, audit, publish.

python jobs/retrain.py --config mine.yaml --set outcome.rank=50
spark-submit jobs/retrain.py --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.cli import run_job
from dcrec_spark.jobs.retrain import retrain

if __name__ == "__main__":
    run_job(retrain, __doc__)
