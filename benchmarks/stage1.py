"""Stage 1 against hpfrec and poismf: seconds until the training exposures are as likely.

Ours runs to within ``NEAR`` of where its ELBO ends. A peer fits again with about twice as many iterations, until it
is as likely. Where the last fit is not, the ratio is an upper bound.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame

from benchmarks.measure import alternate, clock, clock_fit
from benchmarks.peers import Means, hpfrec, poismf
from dcrec_spark import PoissonFactorization

# Relative distance from the converged ELBO that counts as near, and relative change that counts as converged.
NEAR, CONVERGED = 1e-4, 1e-7
TRIED = (1, 2, 5, 10, 20, 40, 80)


def against_peers(ratings: DataFrame, rank: int, rounds: int) -> dict[str, Any]:
    """Compare with both, in turn."""
    ours, wanted, pairs = _ours_near_its_end(ratings, rank, most=2000)
    peers = {"hpfrec": partial(hpfrec, pairs, rank), "poismf": partial(poismf, pairs, rank)}
    fits = {name: _until(fit, pairs, wanted, TRIED) for name, fit in peers.items()}
    fit = partial(PoissonFactorization(rank=rank, maxIter=ours["iterations"], tol=0.0).fit, ratings)
    last = {name: int(fits[name][-1]["iterations"]) for name in peers}
    seconds = alternate(
        rounds,
        {"ours": lambda: clock_fit(fit)},
        {name: partial(clock, partial(peers[name], last[name])) for name in peers},
    )
    return {"ours": ours, **fits, **seconds}


def against_hpfrec_once(ratings: DataFrame, rank: int, tried: Sequence[int], most: int) -> dict[str, Any]:
    """One fit of each, where a fit takes minutes. most : iterations of ours, whose last ELBO counts as the end."""
    ours, wanted, pairs = _ours_near_its_end(ratings, rank, most)
    fit = partial(PoissonFactorization(rank=rank, maxIter=ours["iterations"], tol=0.0).fit, ratings)
    seconds = clock_fit(fit)
    fits = _until(partial(hpfrec, pairs, rank), pairs, wanted, tried)
    return {"ours": {**ours, "seconds": round(seconds, 1)}, "hpfrec": fits, "ratio": seconds / fits[-1]["seconds"]}


def _ours_near_its_end(ratings: DataFrame, rank: int, most: int) -> tuple[dict[str, Any], float, pd.DataFrame]:
    whole = PoissonFactorization(rank=rank, maxIter=most, tol=CONVERGED).fit(ratings)
    course, end = whole.elboHistory, whole.elboHistory[-1]
    whole.release()
    enough = next(n for n, elbo in enumerate(course, 1) if elbo >= end - NEAR * abs(end))
    model = PoissonFactorization(rank=rank, maxIter=enough, tol=0.0).fit(ratings)
    pairs = ratings.select("user", "item").toPandas()
    wanted = log_likelihood((_means(model.userFactors), _means(model.itemFactors)), pairs)
    model.release()
    ours = {"iterations": enough, "of": len(course), "elbo_at_the_end": round(end, 1)}
    return {**ours, "log_likelihood": round(wanted, 1)}, wanted, pairs


def log_likelihood(means: Means, pairs: pd.DataFrame) -> float:
    """Of exposures, once each, and of all pairs that are none, by means of factors (U, L) and (I, L)."""
    users, items = means
    rate = np.einsum("nl,nl->n", users[pairs["user"]], items[pairs["item"]])
    return float(np.log(rate).sum() - users.sum(axis=0) @ items.sum(axis=0))


def _means(factors: DataFrame) -> np.ndarray:
    table = factors.toPandas().sort_values("id")
    return np.vstack(table["shape"]) / np.vstack(table["rate"])


def _until(
    fit: Callable[[int], Means], pairs: pd.DataFrame, wanted: float, tried: Sequence[int]
) -> list[dict[str, float]]:
    fits: list[dict[str, float]] = []
    for iterations in tried:
        start = time.perf_counter()
        means = fit(iterations)
        seconds = time.perf_counter() - start
        reached = log_likelihood(means, pairs)
        fits.append({"iterations": iterations, "log_likelihood": round(reached, 1), "seconds": round(seconds, 1)})
        if reached >= wanted:
            break
    return fits
