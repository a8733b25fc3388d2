"""How a sweep's time per rating grows with the ratings, in one process: 100 million against 10 million, in turn.

    python -m benchmarks.growth [--rank 10] [--sweeps 7]

Both fits run in this process, each in a thread of its own, and one of them at a time: after each sweep it is the
other's turn. So what else the machine does slows both down alike. Adds itself to benchmarks/results/growth.json.
"""

import json
import time
from pathlib import Path
from statistics import median
from threading import Semaphore, Thread

import click
from pyspark.sql import SparkSession

from benchmarks.measure import versions
from benchmarks.sizes import SIZES, Size, ratings_of
from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.spark.session import build_session

RESULTS = Path(__file__).parent / "results" / "growth.json"
SMALL, LARGE = SIZES["10m-10-one-process"], SIZES["100m-10-one-process"]
# Of stage 1, which is not measured here.
ITERATIONS = 2


class Fit(Thread):
    """A fit of both stages that begins, and begins each sweep, when it is its turn; then the other one's comes."""

    def __init__(self, spark: SparkSession, size: Size, rank: int, sweeps: int) -> None:
        super().__init__()
        self.turn, self.other = Semaphore(0), self
        self.seconds: list[float] = []
        self._ratings, self._begun = spark.read.parquet(str(ratings_of(size))), 0.0
        exposure = PoissonFactorization(rank=rank, maxIter=ITERATIONS, tol=0.0, exchange="auto")
        self._estimator = DeconfoundedMF.forCounts(rank=rank, maxIter=sweeps).setParams(exposureModel=exposure, tol=0.0)
        self._estimator.listener = self._hand_over

    def run(self) -> None:
        """Fit, and let the other one end."""
        self.turn.acquire()
        try:
            self._estimator.fit(self._ratings)
        finally:
            self.other.turn.release()

    def _hand_over(self, stage: str, iteration: int, objective: float) -> None:
        if stage != "outcome":
            return
        self.seconds.append(time.perf_counter() - self._begun)
        self.other.turn.release()
        self.turn.acquire()
        self._begun = time.perf_counter()


def measured(rank: int, sweeps: int) -> dict[str, object]:
    """Return nanoseconds per rating of a sweep of either size, and their ratio, by the medians of all but the first."""
    spark = build_session("growth", "local[2]")
    small, large = (Fit(spark, size, rank, sweeps) for size in (SMALL, LARGE))
    small.other, large.other = large, small
    small.start()
    large.start()
    small.turn.release()
    for fit in (small, large):
        fit.join()
    spark.stop()
    of_small, of_large = (
        [seconds / size.ratings * 1e9 for seconds in fit.seconds[1:]] for fit, size in ((small, SMALL), (large, LARGE))
    )
    ratios = sorted(of / to for to, of in zip(of_small, of_large, strict=True))
    return {
        "rank": rank,
        "rounds": len(ratios),
        "ns_per_rating": {"10M": round(median(of_small), 1), "100M": round(median(of_large), 1)},
        "ratio": round(median(ratios), 3),
        "smallest": round(ratios[0], 3),
        "largest": round(ratios[-1], 3),
    }


@click.command(help=__doc__)
@click.option("--rank", default=10, show_default=True, help="Of both stages.")
@click.option("--sweeps", default=7, show_default=True, help="Of each fit; the first is not counted.")
def main(rank: int, sweeps: int) -> None:
    found = {**measured(rank, sweeps), **versions(f"python -m benchmarks.growth --rank {rank}")}
    seen = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**seen, f"rank-{rank}": found}, indent=2) + "\n")
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
