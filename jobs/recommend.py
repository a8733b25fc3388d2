"""A saved model in, recommendation tables out: for all of its users, or for a list of them.

python jobs/recommend.py --set model.path=output/nightly --config mine.yaml --set output.path=output/today
spark-submit jobs/recommend.py --config mine.yaml --dry-run
"""

from dcrec_spark.jobs.cli import run_job
from dcrec_spark.jobs.serving import recommend

if __name__ == "__main__":
    run_job(recommend, __doc__)
