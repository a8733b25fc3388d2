"""A saved model, its training ratings and held-out ones in; a table of metrics and a report to look at out.

python jobs/evaluate.py --config mine.yaml --set model.path=output/nightly --set evaluation.test_path=test.parquet
spark-submit jobs/evaluate.py --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.cli import run_job
from dcrec_spark.jobs.evaluate.job import evaluate

if __name__ == "__main__":
    run_job(evaluate, __doc__)
