"""Ratings in, the settings that rank held-out ratings best out, every trial recorded; run again to go on.

python jobs/tune.py --config conf/tune.yaml --set input.path=ratings.parquet --set output.path=output/search
spark-submit jobs/tune.py --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.cli import run_job
from dcrec_spark.jobs.tune.job import tune

if __name__ == "__main__":
    run_job(tune, __doc__)
