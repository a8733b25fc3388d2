"""Whole fits as their user's clock sees them: from the call to the factors, ours and a peer's.

Stage 1 is timed once with plain steps and once with long ones, to the same distance from where the fit ends.
"""

import time
from collections.abc import Callable
from typing import Any

import pandas as pd
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame

from benchmarks.speed import Seconds
from dcrec_spark import DeconfoundedMF, PoissonFactorization

# Relative distance from the converged ELBO that counts as there, and what counts as converged.
NEAR, CONVERGED = 1e-4, 1e-7


class Diary:
    """A listener that notes the objective of each iteration, and when it was known."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.entries: list[tuple[Seconds, float]] = []

    def __call__(self, stage: str, iteration: int, objective: float) -> None:
        self.entries.append((time.perf_counter() - self.start, objective))

    def arrival(self, end: float) -> dict[str, float | int] | None:
        """Iterations and seconds to within NEAR of an ELBO; None where the fit never came so near."""
        there = (n for n, (_, elbo) in enumerate(self.entries, 1) if elbo >= end - NEAR * abs(end))
        first = next(there, None)
        return None if first is None else {"iterations": first, "seconds": round(self.entries[first - 1][0], 2)}


def to_the_end(ratings: DataFrame, rank: int, most: int) -> dict[str, object]:
    """Stage 1 until its ELBO moves by less than CONVERGED, with plain and with long steps, from the same start."""
    diaries = {name: _stage_1(ratings, rank, most, name == "accelerated") for name in ("plain", "accelerated")}
    best = max(diary.entries[-1][1] for diary in diaries.values())
    return {name: _course(diary, best) for name, diary in diaries.items()}


def _course(diary: Diary, best: float) -> dict[str, object]:
    last = diary.entries[-1][1]
    ended = {"elbo": round(last, 1), "iterations": len(diary.entries), "seconds": round(diary.entries[-1][0], 2)}
    return {"end": ended, "near_own_end": diary.arrival(last), "near_best_end": diary.arrival(best)}


def _stage_1(ratings: DataFrame, rank: int, most: int, acceleration: bool) -> Diary:
    estimator = PoissonFactorization(rank=rank, maxIter=most, tol=CONVERGED, acceleration=acceleration)
    estimator.listener = diary = Diary()
    estimator.fit(ratings).release()
    return diary


def by_default(ratings: DataFrame, rank: int) -> Seconds:
    """Stage 1, until it settles by its default tolerance."""
    return _seconds(lambda: PoissonFactorization(rank=rank).fit(ratings))


def hpfrec(ratings: pd.DataFrame, rank: int, threads: int) -> Seconds:
    """hpfrec's hierarchical factorization, until it stops by its default criterion, the likelihood of the counts."""
    from hpfrec import HPF

    counts = pd.DataFrame({"UserId": ratings["user"], "ItemId": ratings["item"], "Count": 1})
    model = HPF(k=rank, ncores=threads, random_seed=0, verbose=False, reindex=False, keep_data=False)
    start = time.perf_counter()
    model.fit(counts)
    return time.perf_counter() - start


def both_stages(ratings: DataFrame, rank: int) -> Seconds:
    """The deconfounded weighted model, both stages until they settle by their default tolerances."""
    exposure = PoissonFactorization(rank=rank)
    return _seconds(lambda: DeconfoundedMF(rank=rank, exposureModel=exposure, maxIter=100).fit(ratings))


def classical(ratings: DataFrame, rank: int, sweeps: int) -> Seconds:
    """The classical weighted model, so many sweeps."""
    return _seconds(lambda: DeconfoundedMF(rank=rank, adjustment="none", maxIter=sweeps, tol=0.0).fit(ratings))


def mllib(ratings: DataFrame, rank: int, iterations: int) -> Seconds:
    """MLlib's implicit ALS, so many iterations; it has no stopping rule."""
    als = ALS(
        userCol="user", itemCol="item", ratingCol="rating", implicitPrefs=True, alpha=40.0, rank=rank,
        maxIter=iterations, numUserBlocks=2, numItemBlocks=2, seed=0, checkpointInterval=-1,
    )  # fmt: skip
    return _seconds(lambda: als.fit(ratings))


def _seconds(fit: Callable[[], Any]) -> Seconds:
    """From the call until the factors of both sides can be read."""
    start = time.perf_counter()
    model = fit()
    model.userFactors.count(), model.itemFactors.count()
    seconds = time.perf_counter() - start
    if hasattr(model, "release"):
        model.release()
    return seconds
