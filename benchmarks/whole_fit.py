"""Whole fits as their user's clock sees them: from the call to the factors, ours and a peer's.

Stage 1 is timed once with plain steps and once with long ones, to the same distance from where the fit ends; and
against hpfrec and poismf, until either fits the training exposures as well.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from pyspark.ml.recommendation import ALS
from pyspark.sql import DataFrame
from threadpoolctl import threadpool_limits

from benchmarks.speed import EXTENDED, Seconds, alternate, hpfrec_model
from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.engine import ascent, process
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.models.families.poisson_steps import GammaPoissonSteps
from dcrec_spark.models.fitting.process_layout import ProcessLayout
from dcrec_spark.models.outcome import estimator as outcome_estimator

# Relative distance from the converged ELBO that counts as there, and what counts as converged.
NEAR, CONVERGED = 1e-4, 1e-7


class Diary:
    """A listener that notes the objective of each iteration, and when it was known."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.entries: list[tuple[Seconds, float]] = []
        self.stages: list[tuple[str, int]] = []

    def __call__(self, stage: str, iteration: int, objective: float) -> None:
        self.entries.append((time.perf_counter() - self.start, objective))
        self.stages.append((stage, iteration))

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


def scales(ratings: DataFrame, rank: int, marks: Sequence[int] = (25, 50, 100, 200)) -> dict[str, dict[int, float]]:
    """Compute the ELBO of stage 1 after so many sweeps, with the best scale of each factor and with that of ascent."""
    balanced = _elbos(ratings, rank, marks)
    with patch.object(GammaPoissonSteps, "balanced", lambda steps, users, items: steps):
        left_to_ascent = _elbos(ratings, rank, marks)
    return {"left to ascent": left_to_ascent, "balanced": balanced}


def _elbos(ratings: DataFrame, rank: int, marks: Sequence[int]) -> dict[int, float]:
    estimator = PoissonFactorization(rank=rank, maxIter=max(marks), tol=0.0)
    estimator.listener = diary = Diary()
    estimator.fit(ratings).release()
    return {mark: round(diary.entries[mark - 1][1]) for mark in marks}


# What poismf adds to its loss for each squared factor. Its default is 1000, by which the exposures of MovieLens 100K,
# rank 50, come to a log-likelihood of -277,485 and no further.
POISMF_L2 = 1.0

Means = tuple[np.ndarray, np.ndarray]


def stage_1_against_peers(ratings: DataFrame, rank: int, rounds: int, threads: int) -> dict[str, object]:
    """Ours to within NEAR of where it ends, and each peer until the training exposures are as likely by its means.

    A peer's fits begin anew with some twice as many iterations, until one is there or has taken 80; that fit is timed.
    Where it is not there the ratio is an upper bound.
    """
    course = _stage_1(ratings, rank, 2000, acceleration=True).entries
    end = course[-1][1]
    enough = next(n for n, (_, elbo) in enumerate(course, 1) if _is_near(elbo, end))
    model = PoissonFactorization(rank=rank, maxIter=enough, tol=0.0).fit(ratings)
    pairs = ratings.select("user", "item").toPandas()
    wanted = log_likelihood(*(_means(model, side) for side in ("user", "item")), pairs)
    model.release()
    peers: dict[str, Callable[[int], Means]] = {
        "hpfrec": partial(_hpfrec, pairs, rank, threads),
        "poismf": partial(_poismf, pairs, rank, threads),
    }
    fits = {name: _until(peers[name], pairs, wanted) for name in peers}
    seconds = alternate(
        rounds,
        {"ours": lambda: _seconds(lambda: PoissonFactorization(rank=rank, maxIter=enough, tol=0.0).fit(ratings))},
        {name: partial(_clocked, peers[name], int(fits[name][-1]["iterations"])) for name in peers},
    )
    ours = {"iterations": enough, "elbo_at_the_end": round(end, 1), "log_likelihood": round(wanted, 1)}
    return {"ours": ours, **fits, **seconds}


def stage_1_against_hpfrec_once(
    ratings: DataFrame, rank: int, threads: int, tried: Sequence[int], most: int
) -> dict[str, object]:
    """Do the same where a fit takes minutes: one fit of ours, and one of hpfrec for each number of iterations.

    most : iterations of ours, whose last ELBO counts as the end. Where hpfrec's last fit is not as likely as ours, the
    ratio is an upper bound.
    """
    course = _stage_1(ratings, rank, most, acceleration=True).entries
    end = course[-1][1]
    enough = next(n for n, (_, elbo) in enumerate(course, 1) if _is_near(elbo, end))
    start = time.perf_counter()
    model = PoissonFactorization(rank=rank, maxIter=enough, tol=0.0).fit(ratings)
    wanted_by = time.perf_counter() - start
    pairs = ratings.select("user", "item").toPandas()
    wanted = log_likelihood(*(_means(model, side) for side in ("user", "item")), pairs)
    model.release()
    fits: list[dict[str, float]] = []
    for iterations in tried:
        start = time.perf_counter()
        means = _hpfrec(pairs, rank, threads, iterations)
        seconds = time.perf_counter() - start
        reached = log_likelihood(*means, pairs)
        fits.append({"iterations": iterations, "log_likelihood": round(reached, 1), "seconds": round(seconds, 1)})
        if reached >= wanted:
            break
    ours = {"iterations": enough, "of": len(course), "elbo_at_the_end": round(end, 1), "seconds": round(wanted_by, 1)}
    return {"ours": ours | {"log_likelihood": round(wanted, 1)}, "hpfrec": fits, "ratio": wanted_by / seconds}


def _is_near(elbo: float, end: float) -> bool:
    return elbo >= end - NEAR * abs(end)


def log_likelihood(users: np.ndarray, items: np.ndarray, pairs: pd.DataFrame) -> float:
    """Of exposures, once each, and of all pairs that are none, by means of factors (U, L) and (I, L)."""
    rate = np.einsum("nl,nl->n", users[pairs["user"]], items[pairs["item"]])
    return float(np.log(rate).sum() - users.sum(axis=0) @ items.sum(axis=0))


def _means(model: Any, side: str) -> np.ndarray:
    table = getattr(model, f"{side}Factors").toPandas().sort_values("id")
    return np.vstack(table["shape"]) / np.vstack(table["rate"])


def _until(fit: Callable[[int], Means], pairs: pd.DataFrame, wanted: float) -> list[dict[str, float]]:
    fits: list[dict[str, float]] = []
    for iterations in (1, 2, 5, 10, 20, 40, 80):
        reached = log_likelihood(*fit(iterations), pairs)
        fits.append({"iterations": iterations, "log_likelihood": round(reached, 1)})
        if reached >= wanted:
            break
    return fits


def _clocked(fit: Callable[[int], Means], iterations: int) -> Seconds:
    start = time.perf_counter()
    fit(iterations)
    return time.perf_counter() - start


def _hpfrec(pairs: pd.DataFrame, rank: int, threads: int, iterations: int) -> Means:
    model = hpfrec_model(rank, iterations, threads)
    model.fit(pd.DataFrame({"UserId": pairs["user"], "ItemId": pairs["item"], "Count": 1}))
    return model.Theta.astype(np.float64), model.Beta.astype(np.float64)


def _poismf(pairs: pd.DataFrame, rank: int, threads: int, iterations: int) -> Means:
    """poismf's factors of largest posterior density, float64, by its truncated Newton method, which it recommends."""
    from poismf import PoisMF
    from scipy.sparse import coo_array

    model = PoisMF(
        k=rank, method="tncg", l2_reg=POISMF_L2, niter=iterations, reuse_prev=True, use_float=False, random_state=0,
        nthreads=threads,
    )  # fmt: skip
    with threadpool_limits(1, "blas"):  # its threads are its own
        model.fit(coo_array((np.ones(len(pairs)), (pairs["user"], pairs["item"]))))
    return model.A, model.B


def both_stages(ratings: DataFrame, rank: int, precision: str = "float64") -> tuple[Seconds, dict[str, int]]:
    """The deconfounded weighted model, with long steps, both stages until they settle; and the iterations of each."""
    diary = Diary()
    exposure = PoissonFactorization(rank=rank, precision=precision)
    outcome = DeconfoundedMF(rank=rank, exposureModel=exposure, maxIter=100, acceleration=True, precision=precision)
    exposure.listener = outcome.listener = diary
    seconds = _seconds(lambda: outcome.fit(ratings))
    stages = [stage for stage, _ in diary.stages]
    return seconds, {f"iterations of {stage}": stages.count(stage) for stage in ("exposure", "outcome")}


# Models whose sweeps are counted with plain and with long steps.
SWEPT: dict[str, dict[str, Any]] = {
    "weighted, rank 50": {"rank": 50},
    "probabilistic, rank 20": {"rank": 20, "outcome": "probabilistic"},
    "extended, rank 20": {"rank": 20, "outcome": "probabilistic", "unobservedWeight": 0.0, **EXTENDED},
}


def sweeps(ratings: DataFrame, most: int) -> dict[str, object]:
    """Count the sweeps with long steps to the objective that plain ones have after so many."""
    exposure = PoissonFactorization(rank=20).fit(ratings)
    counted = {name: _sweeps(ratings, most, exposureModel=exposure, **of) for name, of in SWEPT.items()}
    exposure.release()
    return counted


def _sweeps(ratings: DataFrame, most: int, **settings: Any) -> dict[str, int]:
    objectives = []
    for acceleration in (False, True):
        model = DeconfoundedMF(maxIter=most, tol=0.0, acceleration=acceleration, **settings).fit(ratings)
        objectives.append(np.array(model.objectiveHistory))
        model.release()
    plain, long_steps = objectives

    def as_far_as(plain_sweeps: int) -> int:
        return next(n for n, objective in enumerate(long_steps, 1) if objective <= plain[plain_sweeps - 1])

    return {f"{n} plain ones": as_far_as(n) for n in (10, 20, 40, most)}


def classical(ratings: DataFrame, rank: int, sweeps: int, precision: str = "float64") -> Seconds:
    """The classical weighted model, so many sweeps."""
    model = DeconfoundedMF(rank=rank, adjustment="none", maxIter=sweeps, tol=0.0, precision=precision)
    return _seconds(lambda: model.fit(ratings))


def mllib(ratings: DataFrame, rank: int, iterations: int) -> Seconds:
    """MLlib's implicit ALS, so many iterations; it has no stopping rule."""
    als = ALS(
        userCol="user", itemCol="item", ratingCol="rating", implicitPrefs=True, alpha=40.0, rank=rank,
        maxIter=iterations, numUserBlocks=2, numItemBlocks=2, seed=0, checkpointInterval=-1,
    )  # fmt: skip
    return _seconds(lambda: als.fit(ratings))


def explicit(rank: int, sweeps: int) -> DeconfoundedMF:
    """The loss of MLlib's explicit ALS: no intercept, regularisers by count."""
    return DeconfoundedMF(
        outcome="probabilistic", adjustment="none", rank=rank, maxIter=sweeps, tol=0.0, regByCount=True,
        userReg=0.1, itemReg=0.1, fitIntercept=False,
    )  # fmt: skip


def explicit_mllib(rank: int, iterations: int) -> ALS:
    """MLlib's explicit ALS."""
    return ALS(
        userCol="user", itemCol="item", ratingCol="rating", regParam=0.1, rank=rank, maxIter=iterations,
        numUserBlocks=2, numItemBlocks=2, seed=0, checkpointInterval=-1,
    )  # fmt: skip


def clocked(estimator: Any, ratings: DataFrame) -> Seconds:
    """Fit, from the call to the factors."""
    return _seconds(lambda: estimator.fit(ratings))


def root_mean_square(estimator: Any, training: DataFrame, held_out: DataFrame) -> float:
    """Compute the error on pairs that were kept out, where both ids are known."""
    predicted = estimator.fit(training).transform(held_out).select("rating", "prediction").toPandas().dropna()
    return round(float(np.sqrt(np.mean(np.square(predicted["rating"] - predicted["prediction"])))), 4)


def implicit(ratings: pd.DataFrame, rank: int, iterations: int, threads: int) -> Seconds:
    """implicit's C++ ALS by Cholesky's method, float32, from arrays to factors, so many iterations."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    model = AlternatingLeastSquares(
        factors=rank, regularization=1.0, alpha=40.0, iterations=iterations, num_threads=threads, use_cg=False,
        random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    counts = csr_matrix((ratings["rating"].to_numpy(np.float32), (ratings["user"], ratings["item"])))
    with threadpool_limits(1, "blas"):  # as implicit asks for: its threads are its own
        model.fit(counts, show_progress=False)
    return time.perf_counter() - start


def cmfrec(ratings: pd.DataFrame, rank: int, iterations: int, threads: int, use_cg: bool) -> Seconds:
    """cmfrec's ALS (C, OpenMP), float32, by Cholesky's method or three conjugate gradients, so many iterations."""
    from cmfrec import CMF_implicit
    from scipy.sparse import coo_array

    model = CMF_implicit(
        k=rank, lambda_=1.0, alpha=40.0, niter=iterations, use_cg=use_cg, finalize_chol=False, use_float=True,
        precompute_for_predictions=False, nthreads=threads, random_state=0, verbose=False,
    )  # fmt: skip
    start = time.perf_counter()
    counts = coo_array((ratings["rating"].to_numpy(np.float32), (ratings["user"], ratings["item"])))
    with threadpool_limits(1, "blas"):  # its threads are its own
        model.fit(counts)
    return time.perf_counter() - start


def kernel_share(fit: Callable[[], Seconds]) -> float:
    """Of the seconds of a fit in one process, the part that its kernels take: the update of rows, without Spark."""
    in_kernels = 0.0

    def timed(kernel: Kernel, inputs: KernelInput) -> Update:
        nonlocal in_kernels
        start = time.perf_counter()
        update = kernel(inputs)
        in_kernels += time.perf_counter() - start
        return update

    in_runs = process.update_in_runs
    with patch.object(
        process, "update_in_runs", lambda kernel, inputs, pairs: in_runs(partial(timed, kernel), inputs, pairs)
    ):
        seconds = fit()
    if not in_kernels:
        raise RuntimeError(
            "no kernel was seen at work: the fit was not in this process, or half-steps call it elsewhere"
        )
    return round(in_kernels / seconds, 3)


# Calls of a fit that are no sweeps: what they are for, who has them, and their name there.
NOT_SWEEPS: dict[str, tuple[Any, str]] = {
    "users settle": (ascent, "_settle"),
    "a_hat attached": (outcome_estimator, "attach_confounder"),
    "tables made": (ProcessLayout, "_table"),
}


@contextmanager
def _noting_calls() -> Iterator[list[tuple[str, float, float]]]:
    """Note of each call of ``NOT_SWEEPS`` what it was for, when it began, and its seconds."""
    calls: list[tuple[str, float, float]] = []

    def noted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                calls.append((what, start, time.perf_counter() - start))

        return noting

    with ExitStack() as stack:
        for what, (owner, name) in NOT_SWEEPS.items():
            stack.enter_context(patch.object(owner, name, noted(what, getattr(owner, name))))
        yield calls


def course(ratings: DataFrame, rank: int) -> dict[str, float]:
    """Where the seconds of a fit of both stages go, by what the listeners see, and by the calls that are no sweeps."""
    seen: list[tuple[str, float]] = []

    def note(stage: str, iteration: int, objective: float) -> None:
        seen.append((stage, time.perf_counter()))

    exposure = PoissonFactorization(rank=rank, maxIter=10, tol=0.0)
    outcome = DeconfoundedMF(rank=rank, exposureModel=exposure, maxIter=5, tol=0.0)
    exposure.listener = outcome.listener = note
    start = time.perf_counter()
    with _noting_calls() as calls:
        model = outcome.fit(ratings)
    fitted = time.perf_counter()
    _count(model)
    end = time.perf_counter()
    model.release()
    one, two = ([at for stage, at in seen if stage == name] for name in ("exposure", "outcome"))

    def taken(what: str, begins: float, ends: float) -> float:
        times = [seconds for name, at, seconds in calls if name == what and begins <= at < ends]
        if not times:
            raise RuntimeError(f"{what}: no such call was seen; a fit in this process makes them elsewhere now")
        return sum(times)

    parts = {
        "to the end of the first iteration": one[0] - start,
        "an iteration of stage 1": (one[-1] - one[0]) / (len(one) - 1),
        "from the last iteration to the end of the first sweep": two[0] - one[-1],
        "of that: users settle": taken("users settle", one[-1], two[0]),
        "of that: tables of stage 1": taken("tables made", one[-1], two[0]),
        "of that: a_hat attached": taken("a_hat attached", one[-1], two[0]),
        "a sweep of stage 2": (two[-1] - two[0]) / (len(two) - 1),
        "after the last sweep": end - two[-1],
        "of these: users settle": taken("users settle", two[-1], fitted),
        "of these: tables": taken("tables made", two[-1], fitted),
        "of these: Spark counts the rows of both tables": end - fitted,
    }
    return {name: round(seconds, 3) for name, seconds in parts.items()}


def courses(ratings: DataFrame, rank: int, rounds: int) -> dict[str, float]:
    """The medians of several, after one that only warms up."""
    seen = [course(ratings, rank) for _ in range(rounds + 1)][1:]
    return {name: median(one[name] for one in seen) for name in seen[0]}


def _seconds(fit: Callable[[], Any]) -> Seconds:
    """From the call until the factors of both sides can be read."""
    start = time.perf_counter()
    model = fit()
    _count(model)
    seconds = time.perf_counter() - start
    if hasattr(model, "release"):
        model.release()
    return seconds


def _count(model: Any) -> None:
    """Have Spark read all rows of both sides' factors."""
    model.userFactors.count(), model.itemFactors.count()
