"""Ranking on the cluster and in this process: rows against the catalogue, seen pairs left out.

A catalogue of one piece travels with the tasks. A larger one stays on the cluster::

    rows + seen -> chunks (partitions) -> best of the piece

    rows + seen -> chunks (cells of a few thousand rows)  \\
                                                           cross -> best of each pair of cells -> best of all
    cols        -> pieces (cells of some ten thousand)    /

Nothing of size rows x cols is ever formed, and no side passes through the driver but a catalogue of one piece.
Where there is no cluster, and as many pairs and rows of lists as there is room for, the driver's process ranks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.kernels.csr import group_values, rows_of
from dcrec_spark.kernels.exposure import PLAIN, Form
from dcrec_spark.kernels.threads import over_rows
from dcrec_spark.kernels.topn import Cap, Dial, Ranked, concatenate, top_n
from dcrec_spark.models.fitting.factors import arrow_table, matrix_of
from dcrec_spark.models.fitting.layout_settings import LOCAL_ROWS
from dcrec_spark.models.fitting.places import places
from dcrec_spark.spark.compat import apply_in_arrow, collect_arrow, group_by_place, of_thread, place
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.planning import rows_at_most
from dcrec_spark.spark.preflight import require_workers

CHUNK_ROWS = 4096
PIECE_COLS = 16384
RANKED = (
    "row_idx long, rank long, col_idx long, score double, preference double, confounder double, value double, "
    "group long"
)
_OF_NO_GROUP = -1
_COLUMNS = ["row_idx", "rank", "col_idx", "score", "preference", "confounder"]


@dataclass(frozen=True)
class Ranking:
    """What is ranked: both frames have ``idx long, preference array<double>, confounder array<double>``.

    A pair's score is the product of the preferences, plus that of the confounders, plus the intercept. form : see
    :func:`dcrec_spark.kernels.topn.top_n`. most : columns of one group in a row's list, at most. ``cols`` have a column
    ``group long`` then, from 0, null where a column is of none. exposure_weight : of :class:`Dial`, which both frames
    have a column ``exposure array<double>`` for, unless it is 0.
    """

    rows: DataFrame
    cols: DataFrame
    n_rows: int
    n_cols: int
    intercept: float
    form: Form = PLAIN
    most: int | None = None
    exposure_weight: float = 0.0

    @property
    def vectors(self) -> list[str]:
        """The columns of both frames that a place's value is made of."""
        return ["preference", "confounder", *(["exposure"] if self.exposure_weight else [])]


def rank(what: Ranking, n: int, seen: DataFrame | None) -> DataFrame:
    """Return the n best columns of each row: ``row_idx, rank, col_idx, score, preference, confounder``.

    seen : ``row_idx, col_idx`` of the pairs to leave out, or None.
    """
    spark = what.rows.sparkSession
    require_workers(spark)
    n_chunks = max(min(cores(spark), what.n_rows), -(-what.n_rows // CHUNK_ROWS))
    n_pieces = -(-what.n_cols // PIECE_COLS)
    cols = with_group(what)
    if n_pieces == 1:
        return _against_one_piece(what, cols, n, seen, n_chunks)
    if seen is None:
        seen = spark.createDataFrame([], "row_idx long, col_idx long")
    chunks = _chunks(what, seen, n_chunks)
    pieces = _pieces(what, cols, n_pieces)
    score_cells = _cell_scorer(n, what)

    def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk, piece in zip(batch["chunk_data"], batch["piece_data"], strict=True):
                yield score_cells(unpack(chunk.as_buffer()), unpack(piece.as_buffer()))

    best = chunks.crossJoin(pieces.hint("shuffle_replicate_nl")).mapInArrow(score, RANKED)
    # The best of the pieces' best, in the same total order. A column among the n best of all under the limit is among
    # those of its piece: fewer of its group are better there.
    better = (F.desc("value"), "col_idx")
    if what.most is not None:
        of_group = F.row_number().over(Window.partitionBy("row_idx", "group").orderBy(*better))
        best = best.withColumn("place", of_group)
        best = best.where((F.col("place") <= what.most) | (F.col("group") == _OF_NO_GROUP))
    order = Window.partitionBy("row_idx").orderBy(*better)
    ranked = best.withColumn("rank", F.row_number().over(order).cast("long")).where(F.col("rank") <= n)
    return ranked.select(_COLUMNS)


def _against_one_piece(what: Ranking, cols: DataFrame, n: int, seen: DataFrame | None, n_chunks: int) -> DataFrame:
    table = collect_arrow(cols.select("idx", *what.vectors, "group"))
    if not table.num_rows:
        return what.rows.sparkSession.createDataFrame([], RANKED).select(_COLUMNS)
    piece, score_cells = piece_of(table), _cell_scorer(n, what)
    # Below the rows, whose ``seen`` is null, the pairs to leave out.
    rows = what.rows.select("idx", *what.vectors, F.lit(None).cast("long").alias("seen"))
    if seen is not None:
        # Not null: Spark's writer of Arrow takes tens of microseconds for a null array, not one for an empty one.
        empty = [F.expr("cast(array() as array<double>)").alias(name) for name in what.vectors]
        rows = rows.unionByName(seen.select(F.col("row_idx").alias("idx"), *empty, F.col("col_idx").alias("seen")))

    def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        contents = list(batches)
        chunk = chunk_of(pa.Table.from_batches(contents)) if contents else None
        if chunk is not None and len(chunk["idx"]):
            yield score_cells(chunk, piece)

    chunk = F.pmod("idx", F.lit(n_chunks)).cast("int")
    placed = place(rows.withColumn("chunk", chunk), n_chunks, "chunk").drop("chunk")
    return placed.mapInArrow(score, RANKED).select(_COLUMNS)


def with_group(what: Ranking) -> DataFrame:
    """Return the columns with a number for their group: the same for all that are of none."""
    none = F.lit(_OF_NO_GROUP).cast("long")
    return what.cols.withColumn("group", F.coalesce(F.col("group").cast("long"), none) if what.most else none)


def chunk_of(table: pa.Table) -> dict[str, Array]:
    """Return the arrays of a chunk, from its rows and from what they have seen, in any order."""
    is_row = pc.is_null(table["seen"])
    seen = table.filter(pc.invert(is_row)).select(["idx", "seen"]).rename_columns(["row_idx", "col_idx"])
    return _with_seen(table.filter(is_row), seen)


def _chunks(what: Ranking, seen: DataFrame, n_chunks: int) -> DataFrame:
    def in_chunk(idx: str) -> Column:
        return F.pmod(F.col(idx), F.lit(n_chunks)).cast("int").alias("chunk")

    rows = place(what.rows.select(in_chunk("idx"), "idx", *what.vectors), n_chunks, "chunk")
    seen = place(seen.select(in_chunk("row_idx"), "row_idx", "col_idx"), n_chunks, "chunk")

    def to_cell(rows: pa.Table, seen: pa.Table) -> pa.Table:
        cells = [pack(_with_seen(rows, seen))] if rows.num_rows else []
        return pa.table({"chunk_data": pa.array(cells, pa.binary())})

    both = group_by_place(rows, "chunk").cogroup(group_by_place(seen, "chunk"))
    return apply_in_arrow(both, to_cell, "chunk_data binary")


def _with_seen(rows: pa.Table, seen: pa.Table) -> dict[str, Array]:
    """Return the arrays of rows in their order, and of the pairs to leave out. Those of other rows are passed over."""
    if not rows.num_rows:
        return {"idx": np.empty(0, np.int64)}
    rows = rows.sort_by("idx")
    idx = rows["idx"].to_numpy()
    at = np.searchsorted(idx, seen["row_idx"].to_numpy())
    at[at == len(idx)] = 0
    known = idx[at] == seen["row_idx"].to_numpy()
    row, col = at[known], seen["col_idx"].to_numpy()[known]
    pointer, col = group_values(row, len(idx), col)
    return {**_factors(rows, idx), "seen_row": rows_of(pointer), "seen_col": col}


def _pieces(what: Ranking, cols: DataFrame, n_pieces: int) -> DataFrame:
    piece = F.pmod("idx", F.lit(n_pieces)).cast("int").alias("piece")
    placed = place(cols.select(piece, "idx", *what.vectors, "group"), n_pieces, "piece")

    def to_cell(cols: pa.Table) -> pa.Table:
        return pa.table({"piece_data": pa.array([pack(piece_of(cols))], pa.binary())})

    return apply_in_arrow(group_by_place(placed, "piece"), to_cell, "piece_data binary")


def piece_of(cols: pa.Table) -> dict[str, Array]:
    """Return the arrays of a piece, from its columns in any order."""
    cols = cols.sort_by("idx")
    return {**_factors(cols, cols["idx"].to_numpy()), "group": cols["group"].to_numpy()}


def _factors(table: pa.Table | pa.RecordBatch, idx: Array) -> dict[str, Array]:
    vectors = [name for name in ("preference", "confounder", "exposure") if name in table.schema.names]
    return {"idx": idx, **{name: matrix_of(table[name]) for name in vectors}}


def _cell_scorer(n: int, what: Ranking) -> Callable[[dict[str, Array], dict[str, Array]], pa.RecordBatch]:
    """Return what ranks a piece for a chunk. It holds no frame, for it goes to the executors."""
    intercept, form, most, weight = what.intercept, what.form, what.most, what.exposure_weight

    def score_cells(rows: dict[str, Array], cols: dict[str, Array]) -> pa.RecordBatch:
        dial = Dial(rows["exposure"], cols["exposure"], weight) if weight else None
        cap = None if most is None else Cap(cols["group"], most)
        preference, confounder = ((rows[name], cols[name]) for name in ("preference", "confounder"))
        # Of the pairs to leave out those with a column of the piece, as CSR by the columns' places.
        at = np.searchsorted(cols["idx"], rows["seen_col"])
        at[at == len(cols["idx"])] = 0
        here = cols["idx"][at] == rows["seen_col"]
        seen = np.searchsorted(rows["seen_row"][here], np.arange(len(rows["idx"]) + 1)), at[here]
        best = top_n(n, preference, confounder, intercept, seen, form, cap, dial)
        parts = best.score, best.preference, best.confounder, best.value
        columns = rows["idx"][best.row], best.rank, cols["idx"][best.col], *parts, cols["group"][best.col]
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), [*_COLUMNS, "value", "group"])

    return score_cells


# Of scores that are made at a call, before anybody asks for a row; two cores take some seconds for a thousand million.
LOCAL_SCORES = 10**10


def are_few(n_rows: int, n_cols: int, n: int) -> bool:
    """Whether so many rows, columns and lists of n are ranked in this process."""
    return n_rows * (1 + n) + n_cols <= LOCAL_ROWS and n_rows * n_cols <= LOCAL_SCORES


def rank_in_process(what: Ranking, n: int, seen: DataFrame | None, room: int) -> pa.Table | None:
    """Return the n best columns of each row: ``row_id, rank, col_id, score, preference, confounder``, in that order.

    seen : ``row_id, col_id`` of pairs to leave out, in any order and as often as you like, or None. None is returned if
    these are more than there is ``room`` for.
    """
    bound = 0 if seen is None else rows_at_most(seen)
    if seen is not None and (bound is None or bound > room):
        # One more than there is room for says that there are too many. All pass through one partition for that.
        seen = seen.limit(room + 1)
    pairs = [] if seen is None else [seen]
    # A frame as it is may have its table in this process.
    cols_frame = with_group(what) if what.most else what.cols
    rows, cols, *left_out = collected([what.rows, cols_frame, *pairs])
    if left_out and left_out[0].num_rows > room:
        return None
    return _rank_rows(what, n, rows.sort_by("idx"), cols.sort_by("idx"), *left_out)


def collected(frames: Sequence[DataFrame]) -> list[pa.Table]:
    """Return the rows of small frames, all collected at once: most of what each takes is waiting for Spark."""
    collect = of_thread(frames[0].sparkSession, arrow_table)
    with ThreadPoolExecutor(len(frames), "collect") as threads:
        return list(threads.map(collect, frames))


def _rank_rows(what: Ranking, n: int, rows: pa.Table, cols: pa.Table, seen: pa.Table | None = None) -> pa.Table:
    if not (rows.num_rows and cols.num_rows):
        return _table(rows, cols, Ranked.none())
    pointer, places_of_seen = np.zeros(rows.num_rows + 1, np.int64), np.empty(0, np.int64)
    if seen is not None:
        row, col = places(seen["row_id"], rows["id"]), places(seen["col_id"], cols["id"])
        known = (row >= 0) & (col >= 0)
        if not known.all():
            row, col = row[known], col[known]
        pointer, places_of_seen = group_values(row, rows.num_rows, col)
    cap = None if what.most is None else Cap(cols["group"].to_numpy(), what.most)
    parts = [tuple(matrix_of(table[name]) for table in (rows, cols)) for name in what.vectors]
    ranked: dict[int, Ranked] = {}

    def rank(first: int, last: int) -> None:
        part = slice(first, last)
        preference, confounder, *exposure = [(of_rows[part], of_cols) for of_rows, of_cols in parts]
        own = pointer[first : last + 1]
        found = top_n(
            n,
            preference,
            confounder,
            what.intercept,
            (own - own[0], places_of_seen[own[0] : own[-1]]),
            what.form,
            cap,
            Dial(*exposure[0], what.exposure_weight) if exposure else None,
        )
        ranked[first] = found._replace(row=found.row + first)

    over_rows(rank, np.arange(rows.num_rows + 1))
    return _table(rows, cols, concatenate([ranked[first] for first in sorted(ranked)]))


def _table(rows: pa.Table, cols: pa.Table, ranked: Ranked) -> pa.Table:
    return pa.table(
        {
            "row_id": rows["id"].combine_chunks().take(pa.array(ranked.row)),
            "rank": ranked.rank,
            "col_id": cols["id"].combine_chunks().take(pa.array(ranked.col)),
            "score": ranked.score,
            "preference": ranked.preference,
            "confounder": ranked.confounder,
        }
    )


def as_lists(ranked: pa.Table, row: str, col: str) -> pa.Table:
    """Return one row for each list, ``row, recommendations: list<struct<col, rating>>``, best first."""
    ids, rank = ranked["row_id"].combine_chunks(), ranked["rank"].to_numpy()
    first = np.flatnonzero(rank == 1)
    rating = ranked["score"].combine_chunks().cast(pa.float32())
    entries = pa.StructArray.from_arrays([ranked["col_id"].combine_chunks(), rating], [col, "rating"])
    ends = pa.array(np.append(first, len(rank)), pa.int32())
    return pa.table({row: ids.take(pa.array(first)), "recommendations": pa.ListArray.from_arrays(ends, entries)})
