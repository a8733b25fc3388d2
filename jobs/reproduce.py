"""The paper's tables and figures on our solver, each beside the paper's own.

python jobs/reproduce.py --set studies.data=DIR --set output.path=docs/studies/quick       minutes
python jobs/reproduce.py --set studies.data=DIR --set output.path=docs/studies/full --set studies.profile=full

DIR has coat/ (train.ascii, test.ascii), ml-100k/u.data, ml-1m/ratings.dat, and yahoo-r3/ where you have it.
Results are written under studies.work as they come: the same command goes on after an interruption.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the studies lie beside the package, outside the wheel

from dcrec_spark.jobs.cli import job_command
from studies.reproduce import Reproduce

if __name__ == "__main__":
    job_command("reproduce", f"\b\n{__doc__}", Reproduce)()
