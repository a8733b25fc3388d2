"""Ratings by id -> the blocks of both sides on the cluster, ready for any fit."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from pyspark.ml.param import Params
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.ids import encode, index_ids
from dcrec_spark.engine.blocks import Side
from dcrec_spark.engine.build import block_count, build_side
from dcrec_spark.engine.half_step import State
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.families.base import Family
from dcrec_spark.models.fitting.factors import factor_frame, place_factors
from dcrec_spark.models.fitting.scope import FitScope
from dcrec_spark.spark.lineage import cores, fixed_placement
from dcrec_spark.spark.planning import few_partitions
from dcrec_spark.spark.preflight import require_workers

# Below this many bytes of factors a side's results are held by the driver and broadcast; above they stay placed.
HELD_BYTES = 64 * 2**20
LARGEST_HELD_BYTES = 512 * 2**20
# A block's cell is then some 70 MB. Spark copies a cell about six times on its way to Python, and doubles buffers
# as they grow: with twice as much, a heap of 6 GB and two tasks ran out of memory.
BLOCK_NONZEROS = 2_000_000
# Of a pair with its ids, indices and values in a shuffle.
PAIR_BYTES = 64


@dataclass(frozen=True)
class SparkLayout:
    """Both sides' blocks on the cluster, and the tables ``id, idx`` that lead back to the ids.

    means : of each value over the pairs of the fit. held_out : whether the blocks hold further pairs, to judge by.
    """

    users: Side
    items: Side
    user_ids: DataFrame
    item_ids: DataFrame
    nonzeros: int
    means: dict[str, float]
    held_out: bool = False

    @property
    def n_pairs(self) -> float:
        """U x I."""
        return float(self.users.n_rows) * self.items.n_rows

    @property
    def n_users(self) -> int:
        """Rows of the users' side, U."""
        return self.users.n_rows

    def with_sides(self, users: Side, items: Side) -> Self:
        """Return the same layout with other blocks of the same rows."""
        return replace(self, users=users, items=items)

    def side(self, is_user: bool) -> tuple[Side, DataFrame]:
        """Blocks and ids of one side."""
        return (self.users, self.user_ids) if is_user else (self.items, self.item_ids)

    def fixed_placement(self) -> AbstractContextManager[None]:
        """Return the session's settings that leave blocks where they are."""
        return fixed_placement(self.users.frame.sparkSession)

    def place(self, is_user: bool, table: DataFrame, family: Family) -> State:
        """Rows ``id`` and the family's columns as the state of a side's blocks; an id without a row gets NaN."""
        columns = [column for column in family.columns(is_user) if column.remembered]
        return place_factors(*self.side(is_user), table, columns, partial(family.memory_of, is_user=is_user))

    def table(self, is_user: bool, state: State, family: Family, shared: Any) -> DataFrame:
        """``idx, id`` and the family's columns."""
        side, ids = self.side(is_user)
        table_of = partial(family.table_of, is_user=is_user, shared=shared)
        return factor_frame(side, state, ids, family.columns(is_user), table_of)


@dataclass(frozen=True)
class LayoutSettings:
    """What is wanted of a layout; None leaves a number of blocks to the size of the data."""

    user_blocks: int | None
    item_blocks: int | None
    exchange: str
    precision: str
    width: int

    def bytes_of(self, rows: Mapping[str, int]) -> float:
        """Return about how large the tables of so many rows of each side are: two arrays of each stage."""
        return 4.0 * 8 * self.width * sum(rows.values())

    def holds(self, name: str, n_rows: int) -> bool:
        """Whether the driver holds the results of a side of so many rows.

        Raises
        ------
        ConfigError : broadcast was asked for, and the driver would have to hold too much.
        """
        size = n_rows * self.width * 8
        if self.exchange == "auto":
            return size <= HELD_BYTES
        if self.exchange == "broadcast" and size > LARGEST_HELD_BYTES:
            raise ConfigError(
                f"exchange=broadcast: the factors of {n_rows:,} {name}s take {size / 2**20:,.0f} MB, which would pass "
                f"through the driver at every half-step (at most {LARGEST_HELD_BYTES / 2**20:,.0f}): use auto or blocks"
            )
        return self.exchange == "broadcast"


def layout_settings(estimator: Params, width: int) -> LayoutSettings:
    """Return what an estimator's parameters ask for; ``width`` numbers a row at most."""
    get = estimator.getOrDefault
    return LayoutSettings(get("numUserBlocks"), get("numItemBlocks"), get("exchange"), get("precision"), width)


def lay_out(
    df: DataFrame,
    user_col: str,
    item_col: str,
    values: dict[str, str],
    settings: LayoutSettings,
    scope: FitScope,
    held_out_col: str | None = None,
    frozen: Mapping[str, DataFrame] | None = None,
    distinct: bool = True,
) -> SparkLayout:
    """Index the ids and build the blocks of users and of items.

    Parameters
    ----------
    values : name of a block's array -> expression over ``df`` that makes it.
    scope : owns what is cached and part of the result; until it ends, shuffles have as few partitions as the size of
        these ratings calls for.
    held_out_col : true for the rows that are held out, or None.
    frozen : "user" or "item" -> ``id, idx`` of a side whose rows are given; pairs with other ids of that side are left
        out. By default both sides are what the pairs name.
    distinct : whether to refuse a pair that occurs twice; without it, a pair may be both held out and not.

    Raises
    ------
    DataError : empty input, one user or item, a null id, a value that is null or not finite, a pair given twice.
    ConfigError : the session's Python workers cannot run this package.
    """
    require_workers(df.sparkSession)
    scope.enter(few_partitions(df.sparkSession))
    pairs = df.select(
        F.col(f"`{user_col}`").alias("user_id"),
        F.col(f"`{item_col}`").alias("item_id"),
        *[F.expr(expression).cast("double").alias(name) for name, expression in values.items()],
        *([F.coalesce(f"`{held_out_col}`", F.lit(False)).alias("held_out")] if held_out_col else []),
    )
    with FitScope() as scratch:
        pairs = scratch.cache(pairs)
        columns = {"user_id": user_col, "item_id": item_col, **{n: e.strip("`") for n, e in values.items()}}
        nonzeros, means = _require_usable(pairs, list(values), columns)
        scope.enter(few_partitions(df.sparkSession, PAIR_BYTES * nonzeros))
        ids = dict(frozen or {})
        for name in {"user", "item"} - ids.keys():
            ids[name] = scope.add_cached(index_ids(pairs, f"{name}_id"))
        rows = {name: frame.count() for name, frame in ids.items()}
        if not frozen:
            _require_two(rows)
        scope.enter(few_partitions(df.sparkSession, PAIR_BYTES * nonzeros + settings.bytes_of(rows)))
        indexed = scratch.cache(encode(pairs, ids["user"], ids["item"]))
        with fixed_placement(df.sparkSession):
            sides = _build_sides(indexed, ids, rows, nonzeros, list(values), settings)
            for side in sides.values():
                scope.add(side)
            held_out = held_out_col is not None
            layout = SparkLayout(sides["user"], sides["item"], ids["user"], ids["item"], nonzeros, means, held_out)
            if distinct:
                _require_distinct_pairs(layout)
            if frozen:
                _require_some(layout, next(iter(frozen)))
    return layout


def _require_two(rows: dict[str, int]) -> None:
    for name, count in rows.items():
        if count < 2:
            raise DataError(f"all ratings are of one {name}: a factor model needs at least two users and two items")


def _build_sides(
    indexed: DataFrame,
    ids: dict[str, DataFrame],
    rows: dict[str, int],
    nonzeros: int,
    values: list[str],
    settings: LayoutSettings,
) -> dict[str, Side]:
    parallel = cores(indexed.sparkSession)
    wanted = {"user": settings.user_blocks, "item": settings.item_blocks}
    blocks = {n: block_count(rows[n], nonzeros, parallel, wanted[n], BLOCK_NONZEROS) for n in rows}
    sides = {}
    for name, other in (("user", "item"), ("item", "user")):
        flags = [c for c in indexed.columns if c == "held_out"]
        entries = indexed.select(F.col(f"{name}_idx").alias("row"), F.col(f"{other}_idx").alias("col"), *values, *flags)
        source = rows[other], blocks[other]
        side = build_side(name, entries, ids[name], rows[name], blocks[name], source, values, settings.precision)
        sides[name] = replace(side, held=settings.holds(name, rows[name]))
    return sides


def _require_usable(pairs: DataFrame, values: list[str], columns: dict[str, str]) -> tuple[int, dict[str, float]]:
    """Refuse pairs that can't be used; return the number of pairs to fit and the mean of each value.

    columns : what each column of ``pairs`` is called in the input.
    """
    bad = {f"{columns[c]} is null": F.col(c).isNull() for c in ("user_id", "item_id", *values)}
    bad |= {f"{columns[c]} is NaN or infinite": F.isnan(c) | (F.abs(c) == float("inf")) for c in values}
    bad |= {f"{columns[c]} is negative": F.col(c) < 0 for c in values}
    fitted = ~F.col("held_out") if "held_out" in pairs.columns else F.lit(True)
    means = [F.avg(F.when(fitted, F.col(c))).alias(f"mean {c}") for c in values]
    counts = [F.count_if(condition).alias(reason) for reason, condition in bad.items()]
    row = pairs.agg(F.count("*").alias("rows"), F.count_if(fitted).alias("fitted"), *counts, *means).collect()[0]
    rows = int(row["rows"])
    if rows == 0:
        raise DataError("the input has no rows: at least a few ratings of two users and two items are needed")
    for reason in bad:
        if row[reason]:
            raise DataError(f"{row[reason]} of {rows} rows cannot be used: {reason}; drop or mend them first")
    if row["fitted"] in (0, rows) and "held_out" in pairs.columns:
        which = "held out" if row["fitted"] == 0 else "for training"
        raise DataError(
            f"all {rows} rows are {which}: validationIndicatorCol has to be true for some rows, not for all"
        )
    return int(row["fitted"]), {c: float(row[f"mean {c}"]) for c in values}


def _require_distinct_pairs(layout: SparkLayout) -> None:
    """Refuse a pair that is given twice, which the fit would count twice. This also computes the blocks."""
    sides = (
        (layout.users, "duplicate_row", "duplicate_col"),
        (layout.items, "duplicate_col", "duplicate_row"),
    )
    for side, user_column, item_column in sides:
        row = side.frame.agg(F.max(F.struct(F.col(user_column), F.col(item_column))).alias("pair")).first()
        pair = row["pair"] if row else None
        if pair is not None and pair[0] is not None:
            user, item = _id_at(layout.user_ids, pair[0]), _id_at(layout.item_ids, pair[1])
            raise DataError(
                f"user {user!r} has more than one rating of item {item!r}: every (user, item) pair may occur once; "
                "keep one (the last, the mean, the sum) before the fit"
            )


def _require_some(layout: SparkLayout, frozen: str) -> None:
    """Refuse ratings none of which can be used: they point to other ids, not to new ones."""
    nonzeros = layout.users.frame.agg(F.sum("nonzeros")).collect()[0][0]
    if not nonzeros:
        raise DataError(f"none of the {layout.nonzeros} rows has a known {frozen} id: are they those of the training?")


def _id_at(ids: DataFrame, idx: int) -> object:
    row = ids.where(F.col("idx") == idx).first()
    return row["id"] if row else None
