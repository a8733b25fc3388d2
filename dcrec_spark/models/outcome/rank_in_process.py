"""Ranking in the driver's process: the same lists as :mod:`dcrec_spark.models.outcome.rank`, for few rows and pairs.

    rows, columns, seen pairs  ->  arrays  ->  top_n on several threads  ->  one table, in the order of rows and ranks

Where there is no cluster, and as many pairs and rows of lists as there is room for. More are never brought here.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dcrec_spark.kernels.csr import group_values
from dcrec_spark.kernels.threads import over_rows
from dcrec_spark.kernels.topn import Cap, Dial, Ranked, concatenate, top_n
from dcrec_spark.models.fitting.factors import arrow_table, matrix_of
from dcrec_spark.models.fitting.layout_settings import LOCAL_ROWS
from dcrec_spark.models.fitting.places import places
from dcrec_spark.models.outcome.rank import Ranking, with_group
from dcrec_spark.spark.compat import of_thread
from dcrec_spark.spark.planning import rows_at_most

# Of scores that are made at a call, before anybody asks for a row; two cores take some seconds for a thousand million.
LOCAL_SCORES = 10**10


def are_few(n_rows: int, n_cols: int, n: int) -> bool:
    """Whether so many rows, columns and lists of n are ranked in this process."""
    return n_rows * (1 + n) + n_cols <= LOCAL_ROWS and n_rows * n_cols <= LOCAL_SCORES


def rank_in_process(what: Ranking, n: int, seen: DataFrame | None, room: int) -> pa.Table | None:
    """Return the n best columns of each row: ``row_id, rank, col_id, score, preference, confounder``, in that order.

    Both frames have a column ``id`` too.
    None where there are more pairs to leave out than there is room for.

    seen : ``row_id, col_id`` of pairs to leave out, in any order and as often as you like, or None.
    room : so many of them.
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
    return _ranked(what, n, rows.sort_by("idx"), cols.sort_by("idx"), *left_out)


def collected(frames: Sequence[DataFrame]) -> list[pa.Table]:
    """Return the rows of small frames, all collected at once: most of what each takes is waiting for Spark."""
    collect = of_thread(frames[0].sparkSession, arrow_table)
    with ThreadPoolExecutor(len(frames), "collect") as threads:
        return list(threads.map(collect, frames))


def _ranked(what: Ranking, n: int, rows: pa.Table, cols: pa.Table, seen: pa.Table | None = None) -> pa.Table:
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
