"""The libraries that ours is compared with, each with two threads."""

from typing import Any

import numpy as np
import pandas as pd
from pyspark.ml.recommendation import ALS, ALSModel
from pyspark.sql import DataFrame
from threadpoolctl import threadpool_limits

from benchmarks.measure import Seconds, clock

THREADS = 2
# What poismf adds to its loss for each squared factor. With its default of 1000 the exposures of MovieLens 100K,
# rank 50, reach a log-likelihood of -277,485 and no more.
POISMF_L2 = 1.0
Means = tuple[np.ndarray, np.ndarray]


def mllib(rank: int, iterations: int, **settings: Any) -> ALS:
    """MLlib's ALS, by default the implicit one; it has no stopping rule."""
    chosen = {"implicitPrefs": True, "alpha": 40.0, "numUserBlocks": 2, "numItemBlocks": 2, **settings}
    columns = {"userCol": "user", "itemCol": "item", "ratingCol": "rating"}
    return ALS(**columns, rank=rank, maxIter=iterations, seed=0, checkpointInterval=-1, **chosen)


def mllib_fitted(ratings: DataFrame, rank: int) -> ALSModel:
    """MLlib's model after two iterations: the work of a ranking does not depend on more."""
    model = mllib(rank, 2).fit(ratings)
    for factors in (model.userFactors, model.itemFactors):
        factors.persist().count()
    return model


def implicit(ratings: pd.DataFrame, rank: int, iterations: int) -> Seconds:
    """implicit's C++ ALS by Cholesky's method, float32, from arrays to factors."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    model = AlternatingLeastSquares(
        factors=rank, regularization=1.0, alpha=40.0, iterations=iterations, num_threads=THREADS, use_cg=False,
        random_state=0,
    )  # fmt: skip

    def fit() -> None:
        counts = csr_matrix((ratings["rating"].to_numpy(np.float32), (ratings["user"], ratings["item"])))
        with threadpool_limits(1, "blas"):  # as implicit asks for: its threads are its own
            model.fit(counts, show_progress=False)

    return clock(fit)


def cmfrec(ratings: pd.DataFrame, rank: int, iterations: int, use_cg: bool) -> Seconds:
    """cmfrec's ALS (C, OpenMP), float32, by Cholesky's method or three conjugate gradients."""
    from cmfrec import CMF_implicit
    from scipy.sparse import coo_array

    model = CMF_implicit(
        k=rank, lambda_=1.0, alpha=40.0, niter=iterations, use_cg=use_cg, finalize_chol=False, use_float=True,
        precompute_for_predictions=False, nthreads=THREADS, random_state=0, verbose=False,
    )  # fmt: skip

    def fit() -> None:
        counts = coo_array((ratings["rating"].to_numpy(np.float32), (ratings["user"], ratings["item"])))
        with threadpool_limits(1, "blas"):  # its threads are its own
            model.fit(counts)

    return clock(fit)


def hpfrec(pairs: pd.DataFrame, rank: int, iterations: int) -> Means:
    """Means of hpfrec's factors by coordinate ascent (Cython, OpenMP), without evaluations of its likelihood."""
    from hpfrec import HPF

    model = HPF(
        k=rank, maxiter=iterations, stop_crit="maxiter", check_every=iterations, ncores=THREADS, random_seed=0,
        verbose=False, reindex=False, keep_data=False,
    )  # fmt: skip
    model.fit(pd.DataFrame({"UserId": pairs["user"], "ItemId": pairs["item"], "Count": 1}))
    return model.Theta.astype(np.float64), model.Beta.astype(np.float64)


def poismf(pairs: pd.DataFrame, rank: int, iterations: int) -> Means:
    """poismf's factors of largest posterior density, float64, by its truncated Newton method, which it recommends."""
    from poismf import PoisMF
    from scipy.sparse import coo_array

    model = PoisMF(
        k=rank, method="tncg", l2_reg=POISMF_L2, niter=iterations, reuse_prev=True, use_float=False, random_state=0,
        nthreads=THREADS,
    )  # fmt: skip
    with threadpool_limits(1, "blas"):  # its threads are its own
        model.fit(coo_array((np.ones(len(pairs)), (pairs["user"], pairs["item"]))))
    return model.A, model.B
