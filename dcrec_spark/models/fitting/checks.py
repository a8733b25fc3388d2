"""Checks of a user's frame before anything is computed: columns, types, ids that match a model's."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, DataType, IntegralType, NumericType, StringType

from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError, DataError


def require_columns(df: DataFrame, ids: Sequence[str], numbers: Sequence[str], flags: Sequence[str] = ()) -> None:
    """Refuse a frame that lacks a column or has one of the wrong type."""
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
            kind = types[name].simpleString()
            raise DataError(f"column {name!r} is of type {kind}: ids must be integers or strings; cast it")
    for name in numbers:
        if not isinstance(types[name], NumericType):
            kind = types[name].simpleString()
            raise DataError(f"column {name!r} is of type {kind}, expected numbers; cast it (try_cast)")
    for name in flags:
        if not isinstance(types[name], BooleanType):
            kind = types[name].simpleString()
            raise DataError(f"column {name!r} is of type {kind}, expected true or false")


def require_new_columns(df: DataFrame, outputs: Mapping[str, str]) -> None:
    """Refuse outputs under names that are taken: two columns of one name can't be distinguished afterwards.

    outputs : Param -> the column that it adds.
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
    """Return the rows that are not held out, where the frame says which.

    Raises DataError: what should say so is neither true nor false.
    """
    if held_out_col not in df.columns:
        return df
    require_columns(df, [], [], [held_out_col])
    return df.where(f"not coalesce(`{held_out_col}`, false)")


def require_same_ids(name: str, ids: DataFrame, factors: DataFrame) -> None:
    """Refuse to match ids of different kinds, which Spark would cast to one another in silence."""
    given, expected = ids.schema["id"].dataType, factors.schema["id"].dataType
    if _is_text(given) != _is_text(expected):
        raise ConfigError(
            f"{name} ids are {given.simpleString()} here and {expected.simpleString()} in the given model: "
            "cast them alike"
        )


def require_ids_alike(dataset: DataFrame, names: tuple[str, str], factors: tuple[DataFrame, DataFrame]) -> None:
    """Refuse a frame whose users or items, in the columns ``names``, are of another kind than those of a model."""
    for side, name, table in zip(("user", "item"), names, factors, strict=True):
        require_same_ids(side, dataset.select(quoted(name).alias("id")), table)


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def require_all_known(ids: DataFrame, factors: DataFrame, name: str, model: str = "fitted exposure model") -> None:
    """Refuse ids without factors in a model."""
    missing = ids.join(factors, "id", "left_anti")
    count = missing.count()
    if count:
        example = missing.orderBy("idx").first()
        raise DataError(
            f"{count} {name} ids, such as {example['id'] if example else None!r}, are not in the {model}: fit it on "
            "the same ratings, or fold them in first"
        )


def require_number(name: str, n: object) -> None:
    """Refuse a length of lists, or a limit within them, that is none.

    Raises ValueError: it is no whole number >= 1.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"{name}: found {n!r}, expected a whole number of recommendations >= 1")
