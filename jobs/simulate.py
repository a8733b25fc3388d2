"""The paper's simulated data set: ratings, potential outcomes, the truth itself.

python jobs/simulate.py --set output.path=simulated --set simulation.n_users=1000

The settings are in studies/paper_simulation.py, and the seed is run.seed.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the studies lie outside the wheel

from dcrec_spark.jobs.cli import job_command
from studies.simulate import Simulate

if __name__ == "__main__":
    job_command("simulate", f"\b\n{__doc__}", Simulate)()
