"""Ranking on the cluster: chunks of rows against pieces of the catalogue, seen pairs left out.

A catalogue of one piece travels with the tasks, and each row has what it has seen beside it::

    rows + seen -> batches of rows -> best of the piece

A larger one stays on the cluster::

    rows + seen -> chunks (cells of a few thousand rows)  \\
                                                           cross -> best of each pair of cells -> best of all
    cols        -> pieces (cells of some ten thousand)    /

Nothing of size rows x cols is ever formed, and no side passes through the driver but a catalogue of one piece.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.kernels.exposure import PLAIN, Form
from dcrec_spark.kernels.topn import Cap, top_n
from dcrec_spark.models.fitting.factors import matrix_of
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.preflight import require_workers

ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

CHUNK_ROWS = 4096
PIECE_COLS = 16384
_RANKED = "row_idx long, rank long, col_idx long, score double, preference double, confounder double, group long"
_OF_NO_GROUP = -1
_COLUMNS = ["row_idx", "rank", "col_idx", "score", "preference", "confounder"]
_FACTORS = ["idx", "preference", "confounder"]


@dataclass(frozen=True)
class Ranking:
    """What is ranked: both frames have ``idx long, preference array<double>, confounder array<double>``.

    A pair's score is the product of the preferences, plus that of the confounders, plus the intercept; form : see
    :func:`dcrec_spark.kernels.topn.top_n`. most : columns of one group in a row's list, at most; ``cols`` have a column
    ``group long`` then, from 0, null where a column is of none.
    """

    rows: DataFrame
    cols: DataFrame
    n_rows: int
    n_cols: int
    intercept: float
    form: Form = PLAIN
    most: int | None = None


def rank(what: Ranking, n: int, seen: DataFrame | None) -> DataFrame:
    """Return the n best columns of each row: ``row_idx, rank, col_idx, score, preference, confounder``.

    seen : ``row_idx, col_idx`` of the pairs to leave out, or None.
    """
    spark = what.rows.sparkSession
    require_workers(spark)
    n_chunks = max(min(cores(spark), what.n_rows), -(-what.n_rows // CHUNK_ROWS))
    n_pieces = -(-what.n_cols // PIECE_COLS)
    cols = what.cols if what.most else what.cols.withColumn("group", F.lit(None))
    if n_pieces == 1:
        return _against_one_piece(what, cols, n, seen, n_chunks)
    if seen is None:
        seen = spark.createDataFrame([], "row_idx long, col_idx long")
    chunks = _chunks(what.rows, seen, n_chunks)
    pieces = _pieces(cols, n_pieces)
    best = chunks.crossJoin(pieces.hint("shuffle_replicate_nl")).mapInArrow(_scorer(n, what), _RANKED)
    return _merge(best, n, what.most).drop("group")


def _against_one_piece(what: Ranking, cols: DataFrame, n: int, seen: DataFrame | None, n_chunks: int) -> DataFrame:
    table = cols.select(*_FACTORS, _group()).toArrow()
    if not table.num_rows:
        return what.rows.sparkSession.createDataFrame([], _RANKED).drop("group")
    piece, rows = _piece(table), what.rows.select(*_FACTORS)
    if seen is not None:
        of_rows = seen.groupBy(F.col("row_idx").alias("idx")).agg(F.collect_list("col_idx").alias("seen"))
        rows = rows.join(of_rows, "idx", "left")
    intercept, form, most = what.intercept, what.form, what.most

    def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _score_cells(_batch(batch), piece, n, intercept, form, most)

    return rows.repartition(n_chunks).mapInArrow(score, _RANKED).drop("group")


def _batch(batch: pa.RecordBatch) -> dict[str, Array]:
    """Return the arrays of a chunk's cell, from rows that have what they have seen beside them."""
    seen = pa.array([[]] * batch.num_rows, pa.list_(pa.int64())) if "seen" not in batch.schema.names else batch["seen"]
    lengths = np.asarray(pc.fill_null(pc.list_value_length(seen), 0))
    seen_row, seen_col = np.repeat(np.arange(batch.num_rows), lengths), np.asarray(seen.flatten())
    return {**_factors(batch, batch["idx"].to_numpy()), "seen_row": seen_row, "seen_col": seen_col}


def _chunks(rows: DataFrame, seen: DataFrame, n_chunks: int) -> DataFrame:
    def in_chunk(idx: str) -> Column:
        return F.pmod(F.col(idx), F.lit(n_chunks)).cast("int").alias("chunk")

    rows = rows.select(in_chunk("idx"), *_FACTORS).repartitionById(n_chunks, "chunk")
    seen = seen.select(in_chunk("row_idx"), "row_idx", "col_idx").repartitionById(n_chunks, "chunk")

    def to_cell(rows: pa.Table, seen: pa.Table) -> pa.Table:
        return pa.table({"chunk_data": pa.array([_chunk_cell(rows, seen)] if rows.num_rows else [], pa.binary())})

    return rows.groupBy("chunk").cogroup(seen.groupBy("chunk")).applyInArrow(to_cell, "chunk_data binary")


def _chunk_cell(rows: pa.Table, seen: pa.Table) -> bytes:
    rows = rows.sort_by("idx")
    idx = rows["idx"].to_numpy()
    at = np.searchsorted(idx, seen["row_idx"].to_numpy())
    at[at == len(idx)] = 0
    known = idx[at] == seen["row_idx"].to_numpy()
    row, col = at[known], seen["col_idx"].to_numpy()[known]
    order = np.lexsort((col, row))
    return pack({**_factors(rows, idx), "seen_row": row[order], "seen_col": col[order]})


def _pieces(cols: DataFrame, n_pieces: int) -> DataFrame:
    placed = cols.select(F.pmod("idx", F.lit(n_pieces)).cast("int").alias("piece"), *_FACTORS, _group())

    def to_cell(cols: pa.Table) -> pa.Table:
        return pa.table({"piece_data": pa.array([pack(_piece(cols))], pa.binary())})

    return placed.repartitionById(n_pieces, "piece").groupBy("piece").applyInArrow(to_cell, "piece_data binary")


def _group() -> Column:
    return F.coalesce(F.col("group").cast("long"), F.lit(_OF_NO_GROUP)).alias("group")


def _piece(cols: pa.Table) -> dict[str, Array]:
    cols = cols.sort_by("idx")
    return {**_factors(cols, cols["idx"].to_numpy()), "group": cols["group"].to_numpy()}


def _factors(table: pa.Table | pa.RecordBatch, idx: Array) -> dict[str, Array]:
    return {
        "idx": idx,
        "preference": matrix_of(table["preference"]),
        "confounder": matrix_of(table["confounder"]),
    }


def _scorer(n: int, what: Ranking) -> ArrowMap:
    intercept, form, most = what.intercept, what.form, what.most

    def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk, piece in zip(batch["chunk_data"], batch["piece_data"], strict=True):
                yield _score_cells(unpack(chunk.as_buffer()), unpack(piece.as_buffer()), n, intercept, form, most)

    return score


def _score_cells(
    rows: dict[str, Array], cols: dict[str, Array], n: int, intercept: float, form: Form, most: int | None
) -> pa.RecordBatch:
    seen_at = np.searchsorted(cols["idx"], rows["seen_col"])
    seen_at[seen_at == len(cols["idx"])] = 0
    here = cols["idx"][seen_at] == rows["seen_col"]
    seen_ptr = np.searchsorted(rows["seen_row"][here], np.arange(len(rows["idx"]) + 1))
    ranked = top_n(
        n,
        (rows["preference"], cols["preference"]),
        (rows["confounder"], cols["confounder"]),
        intercept,
        seen_ptr,
        seen_at[here],
        form,
        None if most is None else Cap(cols["group"], most),
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(rows["idx"][ranked.row]),
            pa.array(ranked.rank),
            pa.array(cols["idx"][ranked.col]),
            pa.array(ranked.score),
            pa.array(ranked.preference),
            pa.array(ranked.confounder),
            pa.array(cols["group"][ranked.col]),
        ],
        names=[*_COLUMNS, "group"],
    )


def _merge(best: DataFrame, n: int, most: int | None) -> DataFrame:
    """Return the best of the pieces' best; the same total order as within a piece.

    A column among the n best of all under the cap is among those of its piece: fewer of its group are better there.
    """
    better = (F.desc("score"), "col_idx")
    if most is not None:
        of_group = F.row_number().over(Window.partitionBy("row_idx", "group").orderBy(*better))
        best = best.withColumn("place", of_group).where((F.col("place") <= most) | (F.col("group") == _OF_NO_GROUP))
    order = Window.partitionBy("row_idx").orderBy(*better)
    ranked = best.withColumn("rank", F.row_number().over(order).cast("long")).where(F.col("rank") <= n)
    return ranked.select(*_COLUMNS, "group")
