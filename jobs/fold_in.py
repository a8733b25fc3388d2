"""A saved model and new users' ratings in, their recommendations and factors out; nothing is fitted again.

python jobs/fold_in.py --set model.path=output/nightly --set input.path=new.parquet --set output.path=output/new
spark-submit jobs/fold_in.py --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.cli import run_job
from dcrec_spark.jobs.serving import fold_in

if __name__ == "__main__":
    run_job(fold_in, __doc__)
