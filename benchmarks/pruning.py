"""Which scores an exact ranking has to make, where a bound says of the others that they are not among the best.

A score is still to be made where its bound is not below the last score of the user's list. No scan by these bounds
makes fewer, and one that goes by falling bounds, until one is below the last of the best so far, makes as many. What
all scores of a user have in common changes no list, so that items may be taken from their mean, too.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import speed
from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization
from dcrec_spark.spark.session import build_session

# The list, and how many more items may have to be looked at.
N, MORE = 10, 50
ITERATIONS, SWEEPS = 30, 10
LEADING = 24
# Of lengths: by how much a bound may be below its score as both are rounded.
ROUNDING = 1e-12
_USERS_AT_ONCE = 500

Floats = NDArray[np.float64]


class Vectors(NamedTuple):
    """What scores are products of: (users, K) and (items, K), (users, L) and (items, L); L = 0 without a confounder."""

    preference: tuple[Floats, Floats]
    confounder: tuple[Floats, Floats]

    def whole(self) -> tuple[Floats, Floats]:
        """Put both parts beside each other."""
        return np.hstack([part[0] for part in self]), np.hstack([part[1] for part in self])

    def of_users(self, some: slice) -> "Vectors":
        """Choose some users; all items."""
        return Vectors(*((users[some], items) for users, items in self))

    def scores(self) -> Floats:
        users, items = self.whole()
        return users @ items.T


def from_the_mean(vectors: Vectors) -> Vectors:
    """Take items from their mean: a user's scores all change by the same."""
    return Vectors(*((users, items - items.mean(axis=0)) for users, items in vectors))


def turned(vectors: Vectors) -> Vectors:
    """Turn both sides to the singular vectors of the scores, widest first; the scores stay, parts become one."""
    users, items = vectors.whole()
    (of_users, r_users), (of_items, r_items) = np.linalg.qr(users), np.linalg.qr(items)
    left, widths, right = np.linalg.svd(r_users @ r_items.T, full_matrices=False)
    both = of_users @ left * np.sqrt(widths), of_items @ right.T * np.sqrt(widths)
    return Vectors(both, (users[:, :0], items[:, :0]))


# ---- bounds of scores, (users, items)


def by_norms(vectors: Vectors) -> Floats:
    """|[theta, gamma pi]| |[beta, lambda]|."""
    return (1.0 + ROUNDING) * _norms(*vectors.whole())


def by_norms_apart(vectors: Vectors) -> Floats:
    """|theta| |beta| + |gamma pi| |lambda|."""
    return (1.0 + ROUNDING) * (_norms(*vectors.preference) + _norms(*vectors.confounder))


def by_leading(vectors: Vectors, leading: int = LEADING) -> Floats:
    """The products of the leading coordinates, which all have to be made, and the norms of the others."""
    users, items = vectors.whole()
    made = users[:, :leading] @ items[:, :leading].T
    rounding = ROUNDING * _norms(users, items).max()  # that of turning is of the longest
    return made + _norms(users[:, leading:], items[:, leading:]) + rounding


def _norms(users: Floats, items: Floats) -> Floats:
    return np.outer(np.linalg.norm(users, axis=1), np.linalg.norm(items, axis=1))


# ---- what is left


def still_to_make(scores: Floats, bounds: Floats, n: int) -> NDArray[np.int64]:
    """Count the scores that the list of each user's n best items cannot do without, (users,); -inf: left out."""
    last = np.partition(scores, -n, axis=1)[:, -n]
    return np.sum((bounds >= last[:, None]) & (scores > -np.inf), axis=1)


def shares(vectors: Vectors, seen: NDArray[np.int64], n: int = N, more: int = MORE) -> dict[str, dict[str, float]]:
    """By each bound: the share of all scores that lists of ``n + more`` need, and of those unseen that lists of n do.

    seen : user and item of each pair to leave out, (2, pairs).
    """
    ways = {
        "norms": (by_norms, vectors),
        "norms of preference and confounder apart": (by_norms_apart, vectors),
        "norms, from the mean": (by_norms, from_the_mean(vectors)),
        "norms apart, from the mean": (by_norms_apart, from_the_mean(vectors)),
        f"{LEADING} leading directions made, norms of the others": (by_leading, turned(vectors)),
    }
    n_users, n_items = (len(side) for side in vectors.preference)
    left = {way: np.zeros(2, np.int64) for way in ways}
    for first in range(0, n_users, _USERS_AT_ONCE):
        some = slice(first, first + _USERS_AT_ONCE)
        out = seen[:, (seen[0] >= some.start) & (seen[0] < some.stop)]
        for way, (bound, these) in ways.items():
            block = these.of_users(some)
            scores, bounds = block.scores(), bound(block)
            of_all = still_to_make(scores, bounds, n + more).sum()
            scores[out[0] - first, out[1]] = -np.inf
            left[way] += of_all, still_to_make(scores, bounds, n).sum()
    of = n_users * n_items, n_users * n_items - seen.shape[1]
    names = f"{n + more} best", f"{n} best unseen"
    return {way: dict(zip(names, (left[way] / of).round(4).tolist(), strict=True)) for way in ways}


def measure(path: Path, rank: int, rank_of_ratings: int) -> dict[str, dict[str, object]]:
    """Fit three models, not to their ends, and say of each what is left."""
    ratings, table = speed.load(build_session("bench", "local[2]"), path), pq.read_table(path)
    seen = np.array([table[name].to_numpy() for name in ("user", "item")], np.int64)
    exposure = PoissonFactorization(rank=rank, maxIter=ITERATIONS)
    models = {
        f"weighted, rank {rank}": DeconfoundedMF.forCounts(rank=rank, maxIter=SWEEPS).setAdjustment("none"),
        f"weighted, rank {rank}, with the confounder": DeconfoundedMF.forCounts(
            rank=rank, maxIter=SWEEPS
        ).setExposureModel(exposure),
        f"least squares with biases and the confounder, rank {rank_of_ratings}": DeconfoundedMF(
            rank=rank_of_ratings, maxIter=SWEEPS
        ),
    }
    return {name: _of_model(model.fit(ratings), seen) for name, model in models.items()}


def _of_model(model: DeconfoundedMFModel, seen: NDArray[np.int64]) -> dict[str, object]:
    vectors = _vectors(model)
    found = {"coordinates": vectors.whole()[0].shape[1], **shares(vectors, seen)}
    print(found, flush=True)
    return found


def _vectors(model: DeconfoundedMFModel) -> Vectors:
    """In the order of ids, which count from 0 in the benchmarks' ratings."""
    found = model.scoringVectors()
    users, items = (side.orderBy("id").toPandas() for side in (found.users, found.items))
    return Vectors(*((np.stack(users[part]), np.stack(items[part])) for part in Vectors._fields))
