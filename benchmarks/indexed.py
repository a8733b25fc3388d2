"""Rankings of large catalogues by an index, against the exact ones: seconds, and what is missing from the lists.

Whole rankings by Spark are timed by the clock, in turn; kernels by the seconds that a core works for them, which other
programs beside them hardly change.

Items are drawn around those of a model of MovieLens 1M: each has the factors of one of them, but for half of their
variance, which is its own.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from threadpoolctl import threadpool_limits

from benchmarks import data, speed
from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.kernels.column_index import Axes, ColumnIndex, top_n_indexed
from dcrec_spark.kernels.topn import Ranked, top_n
from dcrec_spark.models.fitting.factors import matrix_of
from dcrec_spark.models.outcome.rank import PIECE_COLS
from dcrec_spark.models.outcome.rank_indexed import INDEX_COLS
from dcrec_spark.models.outcome.vectors import ScoringVectors
from dcrec_spark.spark.session import build_session

N = 10
USERS = 4000
USERS_OF_KERNELS = 500
SHARE, SHARES = 0.1, (0.02, 0.1, 0.3)
# Of the variance of the items' factors: none of another item's.
OWN = 0.5
_AT_ONCE = 50_000

Floats = NDArray[np.float64]


def measure(n_items: int, rank: int, rounds: int) -> dict[str, object]:
    """Rank so many items for some thousand users in turn, exactly and by a search of a tenth."""
    spark = build_session("bench", "local[2]")
    vectors = drawn(spark, n_items, rank)
    one = vectors.users.where("idx = 0").select("id")
    timed = speed.alternate(
        rounds,
        {
            f"share {SHARE}": partial(_seconds, vectors, SHARE),
            "one user, so building": partial(_seconds, vectors, SHARE, one),
        },
        {"exact": partial(_seconds, vectors, None)},
    )
    exact, found = _lists(vectors, None), _lists(vectors, SHARE)
    return {"users": USERS, "items": n_items, "recall@10": round(len(found & exact) / len(exact), 4), **timed}


def of_kernels(n_items: int, rank: int, rounds: int) -> dict[str, object]:
    """Rank so many items on one core, piece by piece as Spark's tasks do; and compare the lists that pieces make."""
    of_users, of_items, _ = _files(build_session("bench", "local[2]"), n_items, rank)
    users, items = _arrays(of_users, rank)[:USERS_OF_KERNELS], _arrays(of_items, rank)
    whole, pieces = _pieces(items, PIECE_COLS), _pieces(items, INDEX_COLS)
    axes, indexes = Axes.of(users), list[ColumnIndex]()
    building = _core_seconds(lambda: indexes.extend(ColumnIndex(piece, axes) for piece in pieces))
    none = np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int64)

    def parts(piece: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        return (users[:, :rank], piece[:, :rank]), (users[:, rank:], piece[:, rank:])

    def exactly() -> list[Ranked]:
        return [top_n(N, *parts(piece), 0.0, *none) for piece in whole]

    def by(share: float) -> list[Ranked]:
        both = zip(indexes, pieces, strict=True)
        return [top_n_indexed(N, share, index, *parts(piece), 0.0, *none) for index, piece in both]

    ways = {f"share {share}": partial(by, share) for share in SHARES} | {"exact": exactly}
    lists = {name: _best(way(), len(users)) for name, way in ways.items()}
    rows = [{name: _core_seconds(way) for name, way in ways.items()} for _ in range(rounds)]
    each = {name: round(1000 * median(row[name] for row in rows) / len(users), 3) for name in ways}
    wanted = lists.pop("exact")
    return {
        "users": len(users),
        "items": n_items,
        "recall@10": {name: round(_shared(found, wanted), 4) for name, found in lists.items()},
        "core_seconds_of_building": round(building, 1),
        "core_milliseconds_for_a_user": each,
        "saves_from_so_many_users": {name: round(1000 * building / (each["exact"] - each[name])) for name in lists},
    }


def _pieces(items: Floats, at_most: int) -> list[Floats]:
    """Cut a catalogue as rankings on a cluster do."""
    n_pieces = -(-len(items) // at_most)
    return [items[first::n_pieces] for first in range(n_pieces)]


def _best(rankings: list[Ranked], n_users: int) -> NDArray[np.int64]:
    """The best of the pieces' best, by their places in the catalogue; (users, 10)."""
    row, score = (np.concatenate([getattr(ranked, name) for ranked in rankings]) for name in ("row", "score"))
    item = np.concatenate([ranked.col * len(rankings) + first for first, ranked in enumerate(rankings)])
    return item[np.lexsort((item, -score, row))].reshape(n_users, -1)[:, :N]


def _shared(found: NDArray[np.int64], wanted: NDArray[np.int64]) -> float:
    return float(np.mean([np.isin(best, ours).mean() for ours, best in zip(found, wanted, strict=True)]))


def _core_seconds(work: Callable[[], object]) -> float:
    """How long one core works for it."""
    with threadpool_limits(limits=1):
        start = time.process_time()
        work()
        return time.process_time() - start


def _arrays(path: Path, rank: int) -> Floats:
    table = pq.read_table(path, columns=["preference", "confounder"])
    return np.hstack([matrix_of(table[part]) for part in table.column_names])


def _seconds(vectors: ScoringVectors, share: float | None, chosen: DataFrame | None = None) -> float:
    return speed.written(lambda: vectors.best(N, None, chosen, searched_share=share))


def _lists(vectors: ScoringVectors, share: float | None) -> set[tuple[int, int]]:
    best = vectors.best(N, searched_share=share).select("user_id", "item_id").toPandas()
    return set(zip(best["user_id"], best["item_id"], strict=True))


def drawn(spark: SparkSession, n_items: int, rank: int) -> ScoringVectors:
    """The vectors of some users of MovieLens 1M, and of so many items around its own, from files."""
    *paths, intercept = _files(spark, n_items, rank)
    frames = [spark.read.parquet(str(path)).repartition(8).persist() for path in paths]
    for frame in frames:
        frame.count()
    return ScoringVectors(*frames, USERS, n_items, intercept)


def _files(spark: SparkSession, n_items: int, rank: int) -> tuple[Path, Path, float]:
    """Where the vectors of users and items are, which are made where they are missing; and the intercept."""
    users, items, intercept = _fitted(spark, rank)
    rng = np.random.default_rng(0)
    path = data.CACHE / f"vectors-{n_items}-{rank}.parquet"
    if not path.exists():
        mean = items.mean(axis=0)
        _, roots, axes = np.linalg.svd(items - mean, full_matrices=False)
        spread = roots[:, None] * axes / np.sqrt(len(items))
        with pq.ParquetWriter(path, _schema()) as file:
            for first in range(0, n_items, _AT_ONCE):
                last = min(first + _AT_ONCE, n_items)
                another = items[rng.integers(0, len(items), last - first)] - mean
                own = rng.standard_normal((last - first, len(spread))) @ spread
                vectors = mean + np.sqrt(1.0 - OWN) * another + np.sqrt(OWN) * own
                file.write_table(_table(vectors, rank, first))
    some = data.CACHE / f"vectors-of-users-{rank}.parquet"
    pq.write_table(_table(users[:USERS], rank, 0), some)
    return some, path, intercept


def _fitted(spark: SparkSession, rank: int) -> tuple[Floats, Floats, float]:
    """Both stages of MovieLens 1M: preference and confounder of each user and item beside each other."""
    path = data.CACHE / f"fitted-ml-1m-{rank}.npz"
    if not path.exists():
        ratings = speed.load(spark, data.movielens_1m())
        exposure = PoissonFactorization(rank=rank, maxIter=30)
        model = DeconfoundedMF(rank=rank, exposureModel=exposure, maxIter=10).fit(ratings)
        found = model.scoringVectors()
        sides = {name: _beside(getattr(found, name)) for name in ("users", "items")}
        np.savez(path, intercept=found.intercept, **sides)
    saved = np.load(path)
    return saved["users"], saved["items"], float(saved["intercept"])


def _beside(side: DataFrame) -> Floats:
    rows = side.orderBy("idx").toPandas()
    return np.hstack([np.stack(rows[part]) for part in ("preference", "confounder")])


def _schema() -> pa.Schema:
    vector = pa.list_(pa.float64())
    return pa.schema({"idx": pa.int64(), "id": pa.int64(), "preference": vector, "confounder": vector})


def _table(vectors: Floats, rank: int, first: int) -> pa.Table:
    idx = np.arange(first, first + len(vectors))
    parts = [list(vectors[:, :rank]), list(vectors[:, rank:])]
    return pa.table([pa.array(idx), pa.array(idx), *map(pa.array, parts)], schema=_schema())
