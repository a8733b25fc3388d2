"""Chunks of a predictive check: users with their pairs, against the factors of all items.

    users + pairs -> chunks (cells of some hundred thousand pairs)  \\
                                                                     cross -> a row for each chunk
    items         -> one cell                                       /

Each chunk draws the items' factors for itself, the same ones by their keys. That takes as many draws as a fit's
iteration has, R times, so that chunks are large. The items' cell has to fit into a worker a few times over. A single
chunk is checked in this process.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.kernels.predictive import CountedPairs, Factors, HeldOut, check_users, squared_deviations
from dcrec_spark.models.fitting.factors import matrix_of
from dcrec_spark.spark.compat import apply_in_arrow, collect_arrow, frame_of_arrow, group_by_place, place
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.preflight import require_workers

# Most pairs of a chunk: replicating it takes some two hundred bytes for each.
CHUNK_PAIRS = 1 << 19
# A chunk with fewer pairs gains less than it costs to draw the items' factors once more for it.
FEWEST_PAIRS = 1 << 14
_DOUBLE, _LONG, _DOUBLES = pa.float64(), pa.int64(), pa.list_(pa.float64())
_OF_USERS = {"p_value": _DOUBLE, "n": _LONG, "log_likelihood": _DOUBLE}
_OF_CHUNKS = {
    "chunk": _LONG,
    "total": _DOUBLES,
    "deviation": _DOUBLES,
    "p_sum": _DOUBLE,
    "users": _LONG,
    "held_out": _LONG,
}
CHECKED = "checked"
_SQL = {_DOUBLE: "double", _LONG: "long", _DOUBLES: "array<double>"}


def check_on_cluster(
    pairs: DataFrame, users: DataFrame, items: DataFrame, rows: int, how: HeldOut, replications: int, seed: int
) -> DataFrame:
    """One row for each chunk, with its sums and an array of its users: ``id, p_value, n, log_likelihood``.

    pairs : ``user_id, item_idx, total, held_out``. users, items : ``id, shape, rate``, the items with ``idx`` too.
    rows : about how many pairs there are.
    """
    if rows <= CHUNK_PAIRS:
        return _check_here(pairs, users, items, how, replications, seed)
    require_workers(pairs.sparkSession)
    n_chunks = max(1, min(cores(pairs.sparkSession), rows // FEWEST_PAIRS), -(-rows // CHUNK_PAIRS))
    id_type = users.schema["id"].dataType.simpleString()
    columns = items.select("idx", _key("id"), "shape", "rate")
    item_cell = apply_in_arrow(columns.groupBy(), _pack_items, "item_cell binary")
    cells = _user_cells(pairs, users, n_chunks, id_type).crossJoin(item_cell.hint("shuffle_replicate_nl"))

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk, ids, user_cell, item_cell in zip(*batch.columns, strict=True):
                yield _check_chunk(chunk, ids.values, user_cell, item_cell, how, replications, seed)

    of_users = ", ".join(f"{name}: {_SQL[kind]}" for name, kind in _OF_USERS.items())
    return cells.mapInArrow(check, f"{_sql(_OF_CHUNKS)}, {CHECKED} array<struct<id: {id_type}, {of_users}>>")


def _check_here(
    pairs: DataFrame, users: DataFrame, items: DataFrame, how: HeldOut, replications: int, seed: int
) -> DataFrame:
    """Make the rows of :func:`check_on_cluster`, of one chunk, in this process: starting workers takes longer."""
    checked = users.join(pairs.select(F.col("user_id").alias("id")).distinct(), "id", "left_semi")
    factors = collect_arrow(checked.select(F.lit(0).alias("chunk"), "id", _key("id"), "shape", "rate"))
    cells = _user_cell(factors, collect_arrow(pairs.select("user_id", "item_idx", "total", "held_out")))
    item_cell = _pack_items(collect_arrow(items.select("idx", _key("id"), "shape", "rate")))["item_cell"][0]
    batches = [
        _check_chunk(chunk, ids.values, user_cell, item_cell, how, replications, seed)
        for chunk, ids, user_cell in zip(*(cells[name] for name in ("chunk", "ids", "user_cell")), strict=True)
    ]
    return frame_of_arrow(pairs.sparkSession, pa.Table.from_batches(batches))


def users_of(checked: DataFrame) -> DataFrame:
    """Return the rows of users: ``id, p_value, n, log_likelihood``."""
    return checked.select(F.inline(CHECKED))


def add_up(checked: DataFrame) -> dict[str, Any]:
    """Return the chunks' sums, added in the order of the chunks. The only numbers that reach the driver.

    total, deviation : (R + 1,) sums over users of log-likelihoods and of squared deviations, the real ones first.
    p_sum, users, held_out : sums of the p-values, of users and of held-out exposures.
    """

    def add(table: pa.Table) -> pa.Table:
        table = table.sort_by("chunk")
        arrays = {name: pa.array([matrix_of(table[name]).sum(axis=0)]) for name in ("total", "deviation")}
        numbers = {name: pa.array([table[name].to_numpy().sum()]) for name in ("p_sum", "users", "held_out")}
        return pa.table({"chunk": pa.array([0]), **arrays, **numbers})

    return apply_in_arrow(checked.select(*_OF_CHUNKS).groupBy(), add, _sql(_OF_CHUNKS)).collect()[0].asDict()


def _sql(types: dict[str, pa.DataType]) -> str:
    return ", ".join(f"{name} {_SQL[kind]}" for name, kind in types.items())


def _key(column: str) -> Column:
    return F.xxhash64(F.col(column).cast("string")).alias("key")


def _user_cells(pairs: DataFrame, users: DataFrame, n_chunks: int, id_type: str) -> DataFrame:

    def chunk_of(column: str) -> Column:
        return F.pmod(_key(column), F.lit(n_chunks)).cast("int").alias("chunk")

    checked = users.join(pairs.select(F.col("user_id").alias("id")).distinct(), "id", "left_semi")
    factors = place(checked.select(chunk_of("id"), "id", _key("id"), "shape", "rate"), n_chunks, "chunk")
    pairs = pairs.select(chunk_of("user_id"), "user_id", "item_idx", "total", "held_out")
    both = group_by_place(factors, "chunk").cogroup(group_by_place(place(pairs, n_chunks, "chunk"), "chunk"))
    schema = f"chunk long, ids array<{id_type}>, user_cell binary"
    return apply_in_arrow(both, _user_cell, schema)


def _user_cell(factors: pa.Table, pairs: pa.Table) -> pa.Table:
    factors = factors.sort_by("id")
    ids = factors["id"].combine_chunks()
    pairs = pairs.append_column("row", pc.index_in(pairs["user_id"], value_set=ids))
    # Users without a training exposure have no factors.
    pairs = pairs.filter(pc.is_valid(pairs["row"])).sort_by([("row", "ascending"), ("item_idx", "ascending")])
    columns = {name: pairs[name].to_numpy() for name in ("row", "item_idx", "total", "held_out")}
    cells = [pack({**_factor_arrays(factors), **columns})] if len(ids) else []
    return pa.table(
        {
            "chunk": factors["chunk"].slice(0, 1).cast(_LONG),
            "ids": pa.ListArray.from_arrays(pa.array([0, len(ids)][: len(cells) + 1], pa.int32()), ids),
            "user_cell": pa.array(cells, pa.binary()),
        }
    )


def _pack_items(table: pa.Table) -> pa.Table:
    """``item_cell``: one row with the factors of all items, in the order of their places."""
    return pa.table({"item_cell": pa.array([pack(_factor_arrays(table.sort_by("idx")))], pa.binary())})


def _factor_arrays(table: pa.Table) -> dict[str, Array]:
    return {"key": table["key"].to_numpy(), "shape": matrix_of(table["shape"]), "rate": matrix_of(table["rate"])}


def _check_chunk(
    chunk: pa.Scalar,
    ids: pa.Array,
    user_cell: pa.Scalar,
    item_cell: pa.Scalar,
    how: HeldOut,
    replications: int,
    seed: int,
) -> pa.RecordBatch:
    users, items = unpack(user_cell.as_buffer()), unpack(item_cell.as_buffer())
    held_out = _pairs(users, users["held_out"])
    training = _pairs(users, users["total"] - users["held_out"])
    factors = [Factors(cell["key"], cell["shape"], cell["rate"]) for cell in (users, items)]
    checked = check_users(training, held_out, factors[0], factors[1], how, replications, seed)
    n = np.bincount(held_out.row, held_out.times, len(ids)).astype(np.int64)
    of_users = pa.StructArray.from_arrays(
        [ids, *map(pa.array, (checked.p_value, n, checked.log_likelihood[0]))], ["id", *_OF_USERS]
    )
    sums = {
        "chunk": chunk.as_py(),
        "total": checked.log_likelihood.sum(axis=1),
        "deviation": squared_deviations(checked.log_likelihood).sum(axis=1),
        "p_sum": checked.p_value.sum(),
        "users": len(ids),
        "held_out": n.sum(),
    }
    columns = {name: pa.array([sums[name]], kind) for name, kind in _OF_CHUNKS.items()}
    each = pa.ListArray.from_arrays(pa.array([0, len(ids)], pa.int32()), of_users)
    return pa.RecordBatch.from_pydict({**columns, CHECKED: each})


def _pairs(cell: dict[str, Array], times: Array) -> CountedPairs:
    some = times > 0
    return CountedPairs(cell["row"][some].astype(np.int64), cell["item_idx"][some], times[some])
