"""A confounded world with known truth: ratings, potential outcomes of random test pairs, the truth itself.

python jobs/simulate.py --set output.path=output/world
python jobs/simulate.py --set output.path=output/world --set simulation.gamma_reading=rate --set simulation.n_users=1000
"""

from dcrec_spark.jobs.cli import run_job
from dcrec_spark.jobs.simulate import simulate_world

if __name__ == "__main__":
    run_job(simulate_world, __doc__)
