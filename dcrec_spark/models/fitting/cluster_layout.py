"""Blocks of both sides on the cluster."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.data.ids import encode, index_ids
from dcrec_spark.engine.build import OTHER, BlockPlan, build_cluster_side, columns_of, split_pairs
from dcrec_spark.engine.cells import Arrays, unpack
from dcrec_spark.engine.cluster import ClusterSide
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.engine.sides import State
from dcrec_spark.engine.sizing import Size, block_count, least_blocks, most_heavy, short_of_memory
from dcrec_spark.models.families.base import Remembered, Tabled
from dcrec_spark.models.fitting.checks import Checked, duplicate_pair, require_two, unknown_side
from dcrec_spark.models.fitting.factors import TablePart, factor_rows, factor_schema, place_factors
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout, MemoryRows, Part
from dcrec_spark.models.fitting.layout_settings import LayoutSettings, width_of
from dcrec_spark.models.fitting.places import places
from dcrec_spark.spark.compat import collect_arrow, place
from dcrec_spark.spark.lineage import (
    Broadcasted,
    broadcast,
    broadcast_bytes,
    cores,
    data_share,
    fixed_placement,
    task_memory,
)
from dcrec_spark.spark.planning import few_partitions

_log = logging.getLogger(__name__)

# Of a pair with its ids, indices and values in a shuffle.
PAIR_BYTES = 64


@dataclass(frozen=True)
class ClusterLayout(Layout):
    """Both sides on the cluster.

    known : "user", "item" -> the ids of the side in the order of their indices, where they are few.
    """

    users: ClusterSide
    items: ClusterSide
    user_ids: DataFrame
    item_ids: DataFrame
    nonzeros: int
    means: dict[str, float]
    held_out: bool = False
    known: Broadcasted | None = None

    def side(self, is_user: bool) -> tuple[ClusterSide, DataFrame]:
        """Blocks and ids of one side."""
        return (self.users, self.user_ids) if is_user else (self.items, self.item_ids)

    def lend(self) -> "ClusterLayout":
        return self.with_sides(replace(self.users, lent=True), replace(self.items, lent=True))

    def environment(self) -> AbstractContextManager[None]:
        """Change the session's settings so that blocks stay in their partitions."""
        return fixed_placement(self.users.frame.sparkSession)

    def place(self, is_user: bool, table: DataFrame, family: Remembered) -> State:
        columns = [column for column in family.columns(is_user) if column.remembered]
        return place_factors(*self.side(is_user), table, columns, partial(family.memory_of, is_user=is_user))

    def table(self, is_user: bool, state: State, family: Tabled, shared: Any, exposed: Part | None = None) -> DataFrame:
        side, ids = self.side(is_user)
        stages: dict[str, tuple[State, Tabled, Any]] = {"": (state, family, shared)}
        if exposed is not None:
            stages["exposure_"] = exposed
        parts, memories = list[TablePart](), []
        for prefix, (of_stage, stage, of_pairs) in stages.items():
            table_of = partial(stage.table_of, is_user=is_user, shared=of_pairs)
            memories.append(side.memories(of_stage).withColumn("part", F.lit(len(parts))))
            parts.append(TablePart(prefix, stage.columns(is_user), table_of))
        cells = memories[0] if exposed is None else place(reduce(DataFrame.union, memories), side.n_blocks, "block")
        known, name = self.known, side.name
        ids_of_rows = None if known is None else lambda: known.value[name]
        make = partial(factor_rows, n_blocks=side.n_blocks, parts=parts, ids=ids_of_rows)
        schema = factor_schema(parts, None if known is None else ids.schema["id"].dataType.simpleString())
        factors = cells.mapInArrow(make, schema)
        return factors if known else ids.join(factors, "idx").select("idx", "id", *factors.columns[1:])

    def memory_table(self, is_user: bool, state: State, rows: MemoryRows, schema: str) -> DataFrame:
        def batches_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for block, data in zip(batch["block"].to_pylist(), batch["data"], strict=True):
                    yield rows(block, unpack(data.as_buffer()))

        return self.side(is_user)[0].memories(state).mapInArrow(batches_of, schema)

    def materialise(self, cached: DataFrame) -> DataFrame:
        cached.count()
        return cached


def lay_out_on_cluster(
    pairs: DataFrame,
    values: list[str],
    checked: Checked,
    settings: LayoutSettings,
    resources: FitResources,
    given: Mapping[str, DataFrame],
    distinct: bool,
) -> ClusterLayout:
    """Index the ids and build the blocks of both sides on the cluster, as :func:`lay_out` says.

    pairs : ``user_id, item_id``, the ``values`` and perhaps ``held_out``, checked and cached. given : what it calls
    ``frozen``.

    Raises DataError: a pair is given twice, all are of one user or item, none has an id of the given side. ConfigError:
    exchange=broadcast, and the factors are too large for it.
    """
    spark, nonzeros, ids = pairs.sparkSession, checked.nonzeros, dict(given)
    limits = broadcast_bytes(spark)
    with FitResources() as scratch:
        resources.enter_context(few_partitions(spark, PAIR_BYTES * nonzeros))
        named = {name: pairs.select(F.col(f"{name}_id").alias("id")) for name in OTHER if name not in given}
        found = {**given, **{name: scratch.cache(frame.distinct()) for name, frame in named.items()}}
        counts = [found[name].agg(F.lit(name), F.count("*")) for name in OTHER]
        rows = {name: int(n) for name, n in reduce(DataFrame.union, counts).collect()}  # both sides in one job
        known = _broadcast_ids(found, rows, limits[0])
        for name in named:
            few = None if known is None else _numbered(found[name], name, rows[name], known)
            ids[name] = resources.add_cached(index_ids(found[name], "id") if few is None else few.persist())
        if not given:
            require_two(rows)
        resources.enter_context(few_partitions(spark, PAIR_BYTES * nonzeros + settings.bytes_of(sum(rows.values()))))
        n_blocks, on_disk = _count_blocks(spark, nonzeros, rows, settings)
        indexed = partial(encode, pairs, ids["user"], ids["item"])
        items = _heavy_items(indexed, rows["user"], settings)
        plans, heavies = {}, {"user": (None, items), "item": (items, None)}
        for name, other in OTHER.items():
            source = rows[other], n_blocks[other]
            plan = BlockPlan(n_blocks[name], source, values, settings.precision, *heavies[name])
            plans[name] = plan._replace(held_out="held_out" in pairs.columns, on_disk=on_disk)
        with fixed_placement(spark):
            if known is None:
                cells = split_pairs(indexed(), plans)
            else:
                cells = split_pairs(pairs, plans, partial(_look_up, known=known))
            cells, sides = scratch.cache(cells), {}
            for name, plan in plans.items():
                side = build_cluster_side(name, cells, ids[name], rows[name], plan)
                sides[name] = resources.add(replace(side, broadcasts=settings.broadcasts(name, rows[name], limits)))
            tables = sides["user"], sides["item"], ids["user"], ids["item"]
            layout = ClusterLayout(*tables, nonzeros, checked.means, "held_out" in pairs.columns, known)
            if distinct:
                _require_distinct_pairs(layout)
            if given and not layout.users.frame.agg(F.sum("nonzeros")).collect()[0][0]:
                raise unknown_side(nonzeros, next(iter(given)))
    return layout


def _count_blocks(
    spark: SparkSession, nonzeros: int, rows: Mapping[str, int], settings: LayoutSettings
) -> tuple[dict[str, int], bool]:
    """Return the number of blocks of each side, and whether they stay on disk, for want of memory."""
    number_bytes = np.dtype(settings.precision).itemsize
    memory, n_cores = task_memory(spark), cores(spark)
    sizes = nonzeros, settings.width, *memory, number_bytes, settings.a_hats
    least = {name: least_blocks(rows[name], rows[other], *sizes) for name, other in OTHER.items()}
    size = Size(rows["user"], rows["item"], nonzeros, settings.width // 2 - 1, 0, number_bytes)
    # Disk takes some hundredths more time where memory has room, and less where it has not. With half as many blocks
    # again, fits at rank 50 ended in a heap of 1 GB.
    if short := short_of_memory(size, *memory, n_cores, data_share(spark)):
        _log.warning(short)
        least = {name: least[name] * 3 // 2 for name in least}
    return {name: block_count(rows[name], n_cores, settings.blocks, least[name]) for name in rows}, bool(short)


def _broadcast_ids(ids: Mapping[str, DataFrame], rows: Mapping[str, int], most: int) -> Broadcasted | None:
    """Broadcast the ids of both sides, in the order of ``idx`` where they have one. None if they take more bytes.

    Workers look ids up, and the driver sorts them, several times faster than Spark joins and sorts.
    """
    if sum(rows[name] * width_of(frame.select("id")) for name, frame in ids.items()) > most:
        return None
    known = {}
    for name, frame in ids.items():
        columns = [column for column in ("idx", "id") if column in frame.columns]
        known[name] = collect_arrow(frame.select(*columns)).sort_by(columns[0])["id"].combine_chunks()
    return broadcast(ids["user"].sparkSession, known)


def _numbered(ids: DataFrame, name: str, n_rows: int, known: Broadcasted) -> DataFrame:
    """Return the ids of a side with their positions as ``idx``. Workers have them: the driver's JVM holds none."""

    def number(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([known.value[name].take(batch["id"]), batch["id"]], ["id", "idx"])

    schema = f"id {ids.schema['id'].dataType.simpleString()}, idx long"
    return ids.sparkSession.range(n_rows).mapInArrow(number, schema)


def _look_up(table: pa.Table, known: Broadcasted) -> Arrays:
    """Return the columns of pairs with indices in place of ids. Pairs with other ids are left out."""
    columns = columns_of(table.drop_columns([f"{side}_id" for side in OTHER]))
    columns |= {f"{side}_idx": places(table[f"{side}_id"], ids) for side, ids in known.value.items()}
    is_known = np.logical_and(*(columns[f"{side}_idx"] >= 0 for side in OTHER))
    return columns if is_known.all() else {name: column[is_known] for name, column in columns.items()}


def _heavy_items(indexed: Callable[[], DataFrame], n_users: int, settings: LayoutSettings) -> Heavy | None:
    """Return the items with more pairs than a block should hold, the largest if these are many. None without any."""
    limit, most = settings.heavy_pairs, most_heavy(settings.width)
    if limit is None or n_users <= limit:
        return None
    pairs = indexed()
    fitted = F.count_if(~F.col("held_out")) if "held_out" in pairs.columns else F.count("*")
    counts = pairs.groupBy("item_idx").agg(F.count("*").alias("pairs"), fitted.alias("fitted"))
    heaviest = counts.where(F.col("pairs") > limit).orderBy(F.desc("pairs"), "item_idx")
    items = collect_arrow(heaviest.limit(most + 1))
    if items.num_rows > most:
        _log.warning(
            "more than %d items have more than %d ratings: the largest are spread over the users' blocks, and of the "
            "others a worker holds one with up to %d whole",
            *(most, limit, items["pairs"][most].as_py()),
        )
    items = items[:most].sort_by("item_idx")
    return Heavy(items["item_idx"].to_numpy(), items["fitted"].to_numpy()) if items.num_rows else None


def _require_distinct_pairs(layout: ClusterLayout) -> None:
    """Refuse a pair that is given twice, which the fit would count twice. This also computes the blocks."""
    sides = ((layout.users, "duplicate_row", "duplicate_col"), (layout.items, "duplicate_col", "duplicate_row"))
    for side, user_column, item_column in sides:
        row = side.frame.agg(F.max(F.struct(F.col(user_column), F.col(item_column))).alias("pair")).first()
        pair = row["pair"] if row else None
        if pair is not None and pair[0] is not None:
            user, item = _id_at(layout.user_ids, pair[0]), _id_at(layout.item_ids, pair[1])
            raise duplicate_pair(user, item)


def _id_at(ids: DataFrame, idx: int) -> object:
    row = ids.where(F.col("idx") == idx).first()
    return row["id"] if row else None
