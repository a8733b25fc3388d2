"""Ratings by id -> the blocks of both sides, ready for any fit."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.ml.param import Params
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegralType, NumericType, StringType

from dcrec_spark.data.ids import encode, index_ids
from dcrec_spark.engine.blocks import Side, block_count, build_side
from dcrec_spark.errors import ConfigError, DataError
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


class LaidOut(Protocol):
    """What the steps of a model have to know of the blocks that they work on."""

    @property
    def nonzeros(self) -> int:
        """Pairs of the fit."""

    @property
    def means(self) -> Mapping[str, float]:
        """Of each value over the pairs of the fit."""

    @property
    def held_out(self) -> bool:
        """Whether there are held-out pairs beside them."""

    @property
    def n_pairs(self) -> float:
        """U x I."""


@dataclass(frozen=True)
class Layout:
    """Both sides' blocks, and the tables ``id, idx`` that lead back to the ids.

    means : of each value over the pairs of the fit. held_out : whether there are held-out pairs beside them.
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


@dataclass(frozen=True)
class LayoutSettings:
    """What is wanted of a layout; None leaves a number of blocks to the size of the data."""

    user_blocks: int | None
    item_blocks: int | None
    exchange: str
    precision: str
    width: int

    def bytes_of(self, rows: Mapping[str, int]) -> float:
        """About how large the tables of so many rows of each side are: two arrays of each stage."""
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
    """What an estimator's parameters ask for; ``width`` numbers a row at most."""
    get = estimator.getOrDefault
    return LayoutSettings(get("numUserBlocks"), get("numItemBlocks"), get("exchange"), get("precision"), width)


def require_columns(df: DataFrame, ids: Sequence[str], numbers: Sequence[str], flags: Sequence[str] = ()) -> None:
    """Refuse a frame that lacks a column or has one of the wrong type.

    Raises
    ------
    DataError : names the column, what was found, what was expected.
    """
    types = {field.name: field.dataType for field in df.schema.fields}
    if len(set(ids)) < len(ids):
        raise DataError(f"userCol and itemCol both name column {ids[0]!r}: users and items need a column each")
    missing = [c for c in (*ids, *numbers, *flags) if c not in types]
    if missing:
        raise DataError(
            f"column {missing[0]!r} is missing: the input has {', '.join(types) or 'no columns'}; "
            "map the names with userCol, itemCol, ratingCol or countCol"
        )
    for name in ids:
        if not isinstance(types[name], (IntegralType, StringType)):
            found = types[name].simpleString()
            raise DataError(f"column {name!r} is of type {found}: ids must be integers or strings; cast it")
    for name in numbers:
        if not isinstance(types[name], NumericType):
            found = types[name].simpleString()
            raise DataError(f"column {name!r} is of type {found}, expected numbers; cast it (try_cast)")
    for name in flags:
        if not isinstance(types[name], BooleanType):
            found = types[name].simpleString()
            raise DataError(f"column {name!r} is of type {found}, expected true or false")


def require_new_columns(df: DataFrame, outputs: Mapping[str, str]) -> None:
    """Refuse outputs under names that are taken: two columns of one name can not be told apart afterwards.

    outputs : Param -> the column that it adds.

    Raises
    ------
    DataError : names the column and the Param.
    """
    taken = set(df.columns)
    for param, name in outputs.items():
        if name in taken:
            raise DataError(
                f"column {name!r} is there already, and {param} adds one of that name: set {param} to another name, or "
                "drop the column first"
            )
        taken.add(name)


def observed(df: DataFrame, held_out_col: str | None) -> DataFrame:
    """The rows that are not held out, where the frame says which.

    Raises
    ------
    DataError : what should say so is neither true nor false.
    """
    if held_out_col not in df.columns:
        return df
    require_columns(df, [], [], [held_out_col])
    return df.where(f"not coalesce(`{held_out_col}`, false)")


def lay_out(
    df: DataFrame,
    user_col: str,
    item_col: str,
    values: dict[str, str],
    settings: LayoutSettings,
    kept: ExitStack,
    held_out_col: str | None = None,
    frozen: Mapping[str, DataFrame] | None = None,
    distinct: bool = True,
) -> Layout:
    """Index the ids and build the blocks of users and of items.

    Parameters
    ----------
    values : name of a block's array -> expression over ``df`` that makes it.
    kept : gets a callback for everything that is cached and part of the result; until it is closed, shuffles have as
        few partitions as the size of these ratings calls for.
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
    kept.enter_context(few_partitions(df.sparkSession))
    pairs = df.select(
        F.col(f"`{user_col}`").alias("user_id"),
        F.col(f"`{item_col}`").alias("item_id"),
        *[F.expr(expression).cast("double").alias(name) for name, expression in values.items()],
        *([F.coalesce(f"`{held_out_col}`", F.lit(False)).alias("held_out")] if held_out_col else []),
    )
    with ExitStack() as scratch:
        pairs = _cached(pairs, scratch)
        columns = {"user_id": user_col, "item_id": item_col, **{n: e.strip("`") for n, e in values.items()}}
        nonzeros, means = _require_usable(pairs, list(values), columns)
        kept.enter_context(few_partitions(df.sparkSession, PAIR_BYTES * nonzeros))
        ids = dict(frozen or {})
        for name in {"user", "item"} - ids.keys():
            ids[name] = index_ids(pairs, f"{name}_id")
            kept.callback(ids[name].unpersist)
        rows = {name: frame.count() for name, frame in ids.items()}
        if not frozen:
            _require_two(rows)
        kept.enter_context(few_partitions(df.sparkSession, PAIR_BYTES * nonzeros + settings.bytes_of(rows)))
        indexed = _cached(encode(pairs, ids["user"], ids["item"]), scratch)
        with fixed_placement(df.sparkSession):
            sides = _build_sides(indexed, ids, rows, nonzeros, list(values), settings)
            for side in sides.values():
                kept.callback(side.release)
            held_out = held_out_col is not None
            layout = Layout(sides["user"], sides["item"], ids["user"], ids["item"], nonzeros, means, held_out)
            if distinct:
                _require_distinct_pairs(layout)
            if frozen:
                _require_some(layout, next(iter(frozen)))
    return layout


def _cached(frame: DataFrame, until: ExitStack) -> DataFrame:
    until.callback(frame.unpersist)
    return frame.persist()


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
    """The number of pairs to fit and the mean of each value, when each pair has two ids and finite values.

    columns : what each column of ``pairs`` is called in the input.
    """
    bad = {f"{columns[c]} is null": F.col(c).isNull() for c in ("user_id", "item_id", *values)}
    bad |= {f"{columns[c]} is NaN or infinite": F.isnan(c) | (F.abs(c) == float("inf")) for c in values}
    bad |= {f"{columns[c]} is negative": F.col(c) < 0 for c in values}
    fitted = ~F.col("held_out") if "held_out" in pairs.columns else F.lit(True)
    means = [F.avg(F.when(fitted, F.col(c))).alias(f"mean {c}") for c in values]
    counts = [F.count_if(condition).alias(reason) for reason, condition in bad.items()]
    found = pairs.agg(F.count("*").alias("rows"), F.count_if(fitted).alias("fitted"), *counts, *means).collect()[0]
    rows = int(found["rows"])
    if rows == 0:
        raise DataError("the input has no rows: at least a few ratings of two users and two items are needed")
    for reason in bad:
        if found[reason]:
            raise DataError(f"{found[reason]} of {rows} rows cannot be used: {reason}; drop or mend them first")
    if found["fitted"] in (0, rows) and "held_out" in pairs.columns:
        side = "held out" if found["fitted"] == 0 else "for training"
        raise DataError(f"all {rows} rows are {side}: validationIndicatorCol has to be true for some rows, not for all")
    return int(found["fitted"]), {c: float(found[f"mean {c}"]) for c in values}


def _require_distinct_pairs(layout: Layout) -> None:
    """A pair given twice has two ratings, and the fit would count it twice. This also materialises the blocks."""
    sides = (
        (layout.users, "duplicate_row", "duplicate_col"),
        (layout.items, "duplicate_col", "duplicate_row"),
    )
    for side, user_column, item_column in sides:
        found = side.frame.agg(F.max(F.struct(F.col(user_column), F.col(item_column))).alias("pair")).first()
        pair = found["pair"] if found else None
        if pair is not None and pair[0] is not None:
            user, item = _id_at(layout.user_ids, pair[0]), _id_at(layout.item_ids, pair[1])
            raise DataError(
                f"user {user!r} has more than one rating of item {item!r}: every (user, item) pair may occur once; "
                "keep one (the last, the mean, the sum) before the fit"
            )


def _require_some(layout: Layout, frozen: str) -> None:
    """Ratings none of which can be used point to other ids, not to new ones."""
    found = layout.users.frame.agg(F.sum("nonzeros")).collect()[0][0]
    if not found:
        raise DataError(f"none of the {layout.nonzeros} rows has a known {frozen} id: are they those of the training?")


def _id_at(ids: DataFrame, idx: int) -> object:
    found = ids.where(F.col("idx") == idx).first()
    return found["id"] if found else None
