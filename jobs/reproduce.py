"""The paper's tables and figures on our solver, each beside the paper's own.

python jobs/reproduce.py --set studies.data=DIR --set output.path=docs/studies/quick       minutes
python jobs/reproduce.py --set studies.data=DIR --set output.path=docs/studies/full --set studies.profile=full

DIR has coat/ (train.ascii, test.ascii), ml-100k/u.data, ml-1m/ratings.dat, and yahoo-r3/ where you have it.
What was done is kept under studies.work: the same command goes on after an interruption.
"""

from dcrec_spark.cli import run_job
from dcrec_spark.reproduce_job import reproduce_studies

if __name__ == "__main__":
    run_job(reproduce_studies, __doc__)
