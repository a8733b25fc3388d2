"""Seconds per iteration, ours and a peer's, in turn, in one process; what counts is the ratio."""

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from pyspark.ml.recommendation import ALS, ALSModel
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization
from dcrec_spark.evaluation.metrics import evaluate
from dcrec_spark.evaluation.settings import MetricSettings

Seconds = float
# Weighted factorization of all pairs, with a gamma for each user.
WEIGHTED: dict[str, Any] = {
    "outcome": "weighted",
    "alpha": 40.0,
    "confounderWeight": "user",
    "leaveOneOut": False,
    "fitBiases": False,
    "regParam": 1.0,
    "confounderReg": 1.0,
}


class Clock:
    """A listener that notes when each iteration of a stage ends."""

    def __init__(self) -> None:
        self.ends: dict[str, list[float]] = {}

    def __call__(self, stage: str, iteration: int, objective: float) -> None:
        self.ends.setdefault(stage, []).append(time.perf_counter())

    def per_iteration(self, stage: str) -> Seconds:
        """Median over all iterations but the first, which also builds what the others use again."""
        ends = self.ends[stage]
        return median(b - a for a, b in pairwise(ends))


def ours(ratings: DataFrame, rank: int, exposure_iterations: int, sweeps: int, precision: str) -> Clock:
    """Both stages at ``rank``; a tolerance of 0 keeps them going."""
    clock = Clock()
    exposure = PoissonFactorization(rank=rank, maxIter=exposure_iterations, tol=0.0, precision=precision)
    given = {"exposureModel": exposure, "maxIter": sweeps, "tol": 0.0, "precision": precision}
    outcome = DeconfoundedMF(rank=rank, **WEIGHTED, **given)
    exposure.listener = outcome.listener = clock
    outcome.fit(ratings).release()
    return clock


# All of the extended least-squares model that costs time at a sweep.
EXTENDED: dict[str, Any] = {
    "fitBiases": True,
    "regByCount": True,
    "confounderWeight": "pooled",
    "leaveOneOut": True,
    "regParam": 0.1,
}


def least_squares(ratings: DataFrame, rank: int, sweeps: int, **extension: Any) -> Clock:
    """Stage 2 of the deconfounded least-squares model from the rated pairs, after a short stage 1."""
    clock = Clock()
    outcome = _least_squares(rank, sweeps, **extension)
    outcome.listener = clock
    outcome.fit(ratings).release()
    return clock


def _least_squares(rank: int, sweeps: int, **extension: Any) -> DeconfoundedMF:
    exposure = PoissonFactorization(rank=10, maxIter=10, tol=0.0)
    plain = {"fitBiases": False, "confounderWeight": "user", "leaveOneOut": False, "regParam": 1.0}
    fit = {"rank": rank, "maxIter": sweeps, "tol": 0.0}
    return DeconfoundedMF(exposureModel=exposure, **{**plain, **fit, **extension})


def fitted(ratings: DataFrame, rank: int) -> DeconfoundedMFModel:
    """A model as far as two sweeps take it: the work of a fold-in does not depend on more."""
    exposure = PoissonFactorization(rank=rank, maxIter=10, tol=0.0)
    return DeconfoundedMF(rank=rank, exposureModel=exposure, maxIter=2, tol=0.0, **WEIGHTED).fit(ratings)


def fold_in(model: DeconfoundedMFModel, ratings: DataFrame) -> Seconds:
    """Both stages' factors of all users of ``ratings``, until they can be read."""
    start = time.perf_counter()
    folded = model.foldInUsers(ratings)
    seconds = time.perf_counter() - start
    folded.unpersist()
    return seconds


def mllib_fitted(ratings: DataFrame, rank: int) -> ALSModel:
    """MLlib's model, as far as two iterations take it."""
    als = ALS(
        userCol="user", itemCol="item", ratingCol="rating", implicitPrefs=True, alpha=40.0, rank=rank, maxIter=2,
        seed=0,
    )  # fmt: skip
    model = als.fit(ratings)
    for factors in (model.userFactors, model.itemFactors):
        factors.persist().count()
    return model


def written(make: Callable[[], DataFrame]) -> Seconds:
    """From the call until all rows have been made, and thrown away."""
    start = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def evaluation(predictions: DataFrame) -> Seconds:
    """All metrics at two cuts, with intervals from 200 replications."""
    start = time.perf_counter()
    evaluate(predictions, settings=MetricSettings(ks=(5, 10)), catalogue_size=10**6)
    return time.perf_counter() - start


def mllib(ratings: DataFrame, rank: int, short: int, long: int, blocks: int) -> Seconds:
    """MLlib's implicit ALS: the difference of two fits, so that what it does once does not count."""

    def fit(iterations: int) -> Seconds:
        als = ALS(
            userCol="user", itemCol="item", ratingCol="rating", implicitPrefs=True, alpha=40.0, rank=rank,
            maxIter=iterations, numBlocks=blocks, seed=0, checkpointInterval=-1,
        )  # fmt: skip
        start = time.perf_counter()
        model = als.fit(ratings)
        model.userFactors.count(), model.itemFactors.count()
        return time.perf_counter() - start

    return (fit(long) - fit(short)) / (long - short)


def hpfrec_model(rank: int, iterations: int, threads: int) -> Any:
    """Make a model of hpfrec's that runs so many iterations, and evaluates no likelihood of its own."""
    from hpfrec import HPF

    return HPF(
        k=rank, maxiter=iterations, stop_crit="maxiter", check_every=iterations, ncores=threads,
        random_seed=0, verbose=False, reindex=False, keep_data=False,
    )  # fmt: skip


def hpfrec(ratings: pd.DataFrame, rank: int, short: int, long: int, threads: int) -> Seconds:
    """hpfrec's coordinate ascent (Cython, OpenMP), without evaluations of its likelihood."""
    counts = pd.DataFrame({"UserId": ratings["user"], "ItemId": ratings["item"], "Count": 1})

    def fit(iterations: int) -> Seconds:
        model = hpfrec_model(rank, iterations, threads)
        start = time.perf_counter()
        model.fit(counts)
        return time.perf_counter() - start

    return (fit(long) - fit(short)) / (long - short)


def alternate(
    rounds: int, ours: dict[str, Callable[[], Seconds]], peers: dict[str, Callable[[], Seconds]]
) -> dict[str, object]:
    """All in turn, after a round that only warms up; medians, and each round's ratio of each of ours to each peer."""
    contenders = {**ours, **peers}
    seen: list[dict[str, Seconds]] = []
    for _ in range(rounds + 1):
        seen.append({name: run() for name, run in contenders.items()})
        print({name: round(seconds, 2) for name, seconds in seen[-1].items()}, file=sys.stderr, flush=True)
    seen = seen[1:]
    seconds = {name: round(median(turn[name] for turn in seen), 4) for name in contenders}
    ratios = {f"{a} / {b}": [round(turn[a] / turn[b], 3) for turn in seen] for a in ours for b in peers}
    return {"seconds": seconds, "ratio": {name: median(r) for name, r in ratios.items()}, "ratios": ratios}


def load(spark: SparkSession, path: Path) -> DataFrame:
    """The ratings, cached and spread over the cores, for ours and the peer alike."""
    ratings = spark.read.parquet(str(path)).repartition(spark.sparkContext.defaultParallelism).persist()
    ratings.count()
    return ratings
