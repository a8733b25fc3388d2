"""Ranking a large catalogue on the cluster by an index: like :mod:`dcrec_spark.models.outcome.rank`, but approximately.

::

    cols        -> pieces (a hundred thousand and more) -> index of the piece  \\
                                                                                best of the piece -> best of all
    rows + seen -> as many times as there are pieces                           /

One task builds the index of a piece, and asks it for all rows. An index is never kept, sent or written: it is made of
its columns and of a sample of all rows. A list does not depend on who else is asked for, nor on how many cores there
are.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array
from dcrec_spark.models.fitting.factors import matrix_of
from dcrec_spark.models.outcome.rank import (
    FACTORS,
    PIECE_COLS,
    RANKED,
    Ranking,
    as_batch,
    cap_of,
    chunk_of,
    group_of,
    merged,
    parts_of,
    piece_of,
    rank,
    rows_and_seen,
    seen_within,
    with_group,
)
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.preflight import require_workers

# Of a piece: with 100 numbers each, 105 MB of doubles and half of it in the index, built in 3 s on one core.
INDEX_COLS = 1 << 17
# That one index is asked for: searching takes twenty times as long as building then. More rows have one of their own.
INDEX_ROWS = 1 << 17
# Where cores would stand idle fewer rows share an index, but so many: building it takes no longer than searching it.
LEAST_ROWS = 1 << 13
# Of rows whose second moment gives the axes.
SAMPLE = 4096
# A catalogue of one piece of an exact ranking is ranked sooner than an index is built.
LEAST_COLS = PIECE_COLS
_TYPES = {"double": pa.float64(), "long": pa.int64()}
_NOTHING = pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, RANKED.split(", "))]).empty_table()


@dataclass(frozen=True)
class Search:
    """How thoroughly an index is searched.

    share : of the columns that are looked at for each row, about; above 0, at most 1. all_rows : those that might be
    asked for, ``idx, preference, confounder``, idx from 0 without gaps. n_rows : how many these are. of_some : whether
    the columns to rank are some of all, nobody knows how many.
    """

    share: float
    all_rows: DataFrame
    n_rows: int
    of_some: bool


def rank_indexed(what: Ranking, n: int, seen: DataFrame | None, search: Search) -> DataFrame:
    """Return what :func:`dcrec_spark.models.outcome.rank.rank` does, of the columns that an index finds.

    Scores, order and ties are exact; a row for whom fewer than n columns of a piece are found is ranked by all of it.
    A small catalogue is ranked exactly: it needs no index.

    Raises
    ------
    MissingExtraError : faiss is not installed.
    """
    # An extra of its own: whoever asks for no index does without.
    from dcrec_spark.kernels.column_index import Axes, ColumnIndex, top_n_indexed

    if what.n_cols <= LEAST_COLS:
        return rank(what, n, seen)
    n_cols = what.cols.count() if search.of_some else what.n_cols
    if n_cols <= LEAST_COLS:
        return rank(what, n, seen)
    require_workers(what.rows.sparkSession)
    n_pieces = -(-n_cols // INDEX_COLS)
    n_groups = _groups_of_rows(what.n_rows, -(-cores(what.rows.sparkSession) // n_pieces))
    share, intercept, most, axes = search.share, what.intercept, what.most, Axes.of(_sample(search))

    def score(cols: pa.Table, rows: pa.Table) -> pa.Table:
        chunk = chunk_of(rows)
        if not (cols.num_rows and len(chunk["idx"])):
            return _NOTHING
        piece = piece_of(cols)
        parts, index = parts_of(chunk, piece), ColumnIndex(_side_by_side(piece), axes)
        best = top_n_indexed(n, share, index, *parts, intercept, *seen_within(chunk, piece), cap_of(piece, most))
        return pa.Table.from_batches([as_batch(chunk, piece, best)])

    # Named anew, for rows and columns may be one frame.
    factors = [F.col(name).alias(name) for name in FACTORS]
    pieces = with_group(what).select(*factors, group_of(), _part("idx", n_pieces).alias("piece"))
    pieces = pieces.withColumn("group_of_rows", F.explode(_all_of(n_groups)))
    rows = rows_and_seen(what.rows, seen).withColumn("group_of_rows", _part("idx", n_groups))
    # A row goes to all pieces, a pair to leave out where its column is.
    where = F.when(F.col("seen").isNull(), _all_of(n_pieces)).otherwise(F.array(_part("seen", n_pieces)))
    rows = rows.withColumn("piece", F.explode(where))
    task, n_tasks = F.col("piece") * n_groups + F.col("group_of_rows"), n_pieces * n_groups
    by_task = [
        table.withColumn("task", task).drop("piece", "group_of_rows").repartitionById(n_tasks, "task").groupBy("task")
        for table in (pieces, rows)
    ]
    return merged(by_task[0].cogroup(by_task[1]).applyInArrow(score, RANKED), n, most).drop("group")


def _groups_of_rows(n_rows: int, wanted: int) -> int:
    """Count the groups of rows that have an index each: as many as wanted where none gets too small or large."""
    return max(-(-n_rows // INDEX_ROWS), min(wanted, n_rows // LEAST_ROWS), 1)


def _part(idx: str, parts: int) -> Column:
    """Return which of so many parts an index belongs to."""
    return F.pmod(F.col(idx), F.lit(parts)).cast("int")


def _all_of(parts: int) -> Column:
    return F.sequence(F.lit(0), F.lit(parts - 1))


def _sample(search: Search) -> Array:
    """Return every so-and-so-many-th row, both parts beside each other, the same whoever is asked for."""
    every = max(1, search.n_rows // SAMPLE)
    table = search.all_rows.where(_part("idx", every) == 0).select(*FACTORS).toArrow().sort_by("idx")
    return _side_by_side({name: matrix_of(table[name]) for name in FACTORS[1:]})


def _side_by_side(arrays: dict[str, Array]) -> Array:
    """Return what scores are the products of, (n, K + L)."""
    return np.hstack([arrays["preference"], arrays["confounder"]])
