"""From the columns of a source to the raw frame, the one layout that validation reads.

    user_id          long or string. Null where the source has none or where it cannot be read as id_type says
    item_id          long or string, as user_id
    rating           as stored: text or a number
    count, propensity, timestamp as stored, where the source has them
    raw              the row as read: a line of text, or a struct of the columns used
    read_problems    array<string>: what went wrong before any rule was looked at

A row of a CSV file with a broken id, read with ``id_type = long``::

    user_id item_id rating raw                                         read_problems
    null    7       "4"    {"user": "u-1", "item": "7", "rating": "4"} ["unparsable_user"]
"""

import difflib
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, NumericType, StringType, TimestampNTZType, TimestampType

from dcrec_spark.config.sections import ColumnNames
from dcrec_spark.data.ids import IDS, IdType, can_be_id, read_id
from dcrec_spark.errors import DataError
from dcrec_spark.spark.compat import is_utf8, try_cast

NUMBERS = ("rating", "count", "propensity")
MALFORMED = "malformed_row"
OPEN_QUOTE = "open_quote"
# Characters of a cell that can hold a number: longer ones meet no pattern and no parser.
_LONGEST_NUMBER = 400
# A cast alone would take Java's notations, 5f and 0x1p3, for numbers. Possessive, so that no text is tried twice.
_NUMBER_TEXT = r"(?i)^\s*+[+-]?(?:(?:\d++\.?\d*+|\.\d++)(?:e[+-]?\d++)?|inf|infinity|nan)\s*+$"


class Rule(NamedTuple):
    """A reason to reject a row, and the condition ``broken``, true for a row to reject. Null counts as met."""

    reason: str
    broken: Column


def no_reasons() -> Column:
    """Return an empty list of reasons."""
    return F.array().cast("array<string>")


def names_of_broken(rules: list[Rule]) -> Column:
    """Reasons of the rules that a row breaks, array<string> in the order of ``rules``.

    The list is only built for rows that break one. ``array_compact`` would be shorter, but it is a filter with a
    lambda, for which Spark compiles no code.
    """
    any_broken = reduce(or_, (F.coalesce(rule.broken, F.lit(False)) for rule in rules))
    names = F.array(*(F.when(rule.broken, F.lit(rule.reason)) for rule in rules))
    nulls = F.array(F.lit(None).cast("string"))
    return F.when(any_broken, F.array_except(names, nulls)).otherwise(no_reasons())


def is_blank(cell: Column, stored: DataType) -> Column:
    """Tell whether a cell holds spaces alone. Null for null."""
    return (F.trim(cell) == "") if isinstance(stored, StringType) else F.lit(False)


def number_in(cell: Column, stored: DataType) -> Column:
    """Read a cell as double: null where it holds no number."""
    value = try_cast(cell, "double")
    if not isinstance(stored, StringType):
        return value
    # Nested, so that the pattern never meets a long text.
    return F.when(F.length(cell) <= _LONGEST_NUMBER, F.when(cell.rlike(_NUMBER_TEXT), value))


def column_of(name: str, present: Sequence[str]) -> str | None:
    """Find a column: by its very name, or by the only one that differs from it in case alone. None: there is none."""
    if name in present:
        return name
    alike = [other for other in present if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def pick_columns(
    source: DataFrame,
    names: ColumnNames,
    malformed_line: str | None = None,
    in_quotes: Callable[[Column], Column] | None = None,
) -> DataFrame:
    """Pick the columns that ratings need, and name them by their roles.

    malformed_line : Column that holds the text of a row that could not be split into columns, null elsewhere.
    in_quotes : Whether such a text ends within quotes. None: it does not matter.
    Returns ``user``, ``item``, ``rating`` (``count``, ``propensity``, ``timestamp`` where they are named), ``raw``,
    ``malformed`` (, ``open_quote``). Raises DataError: a column is missing.
    """
    position = {name: number for number, name in reversed(list(enumerate(source.columns)))}
    present = [name for name in source.columns if name != malformed_line]
    mapped = {role: column_of(column, present) or column for role, column in names.mapped().items()}
    _require_columns(mapped, present)
    # By position: a name may hold dots, quotes, or differ from another by case only.
    numbered = source.toDF(*(f"c{number}" for number in range(len(source.columns))))
    cells = {role: F.col(f"c{position[column]}") for role, column in mapped.items()}
    line = F.col(f"c{position[malformed_line]}") if malformed_line else F.lit(None).cast("string")
    raw = F.struct(*(cells[role].alias(column) for role, column in mapped.items()), line.alias("line"))
    marks = [line.isNotNull().alias("malformed")]
    if in_quotes is not None:
        marks.append(in_quotes(line).alias(OPEN_QUOTE))
    return numbered.select(*(cell.alias(role) for role, cell in cells.items()), raw.alias("raw"), *marks)


def _require_columns(mapped: dict[str, str], present: list[str]) -> None:
    for role, column in mapped.items():
        if column in present:
            continue
        if any("\0" in name for name in present):
            raise DataError(
                "the input's column names have a zero after each letter, as text in UTF-16 has: set "
                "input.options.encoding=utf-16, or store the file as UTF-8"
            )
        nearest = difflib.get_close_matches(column.lower(), [name.lower() for name in present], n=1)
        likely = [name for name in present if name.lower() in nearest]
        hint = f", perhaps {likely[0]!r}" if likely else ""
        raise DataError(
            f"the input has no column {column!r}: found {', '.join(map(repr, present)) or 'no columns'}; "
            f"expected the {role} in it. Set input.columns.{role} to the column that holds it{hint}"
        )


def raw_frame(picked: DataFrame, id_type: IdType) -> DataFrame:
    """Bring ids to ``id_type``, and note what cannot be read. picked : As :func:`pick_columns` gives it.

    Returns the raw frame, whose layout is at the top of this module.
    Raises DataError: a column has a type that cannot be an id, a number or a timestamp.
    """
    types = {field.name: field.dataType for field in picked.schema}
    check_types(types)
    problems, ids = [Rule(MALFORMED, F.col("malformed"))], []
    if OPEN_QUOTE in types:
        problems.append(Rule(OPEN_QUOTE, F.col(OPEN_QUOTE)))
    for side in ("user", "item"):
        stored, cell, identity = types[side], F.col(side), read_id(F.col(side), types[side], id_type)
        ids.append(identity.alias(f"{side}_id"))
        if isinstance(stored, StringType) and id_type != "long":
            # Bytes that are no text all look alike, and different ids would become one.
            plain = cell.cast("string")
            no_text = ~is_utf8(plain) | F.contains(plain, F.lit("\ufffd"))
            problems.append(Rule(f"undecodable_{side}", no_text))
        elif not isinstance(stored, IntegralType):
            unparsable = cell.isNotNull() & ~is_blank(cell, stored) & identity.isNull()
            problems += [Rule(f"empty_{side}", is_blank(cell, stored)), Rule(f"unparsable_{side}", unparsable)]
    values = [F.col(name) for name in (*NUMBERS, "timestamp") if name in types]
    return picked.select(*ids, *values, F.col("raw"), names_of_broken(problems).alias("read_problems"))


def check_types(types: dict[str, DataType]) -> None:
    """Refuse columns whose type cannot hold what they are for, by role. Raises DataError: says which types would do."""
    for side in ("user", "item"):
        if not can_be_id(types[side]):
            raise _wrong_type(side, types[side], f"{IDS}; map another column with input.columns.{side}")
    for name in NUMBERS:
        if name in types and not isinstance(types[name], NumericType | StringType):
            raise _wrong_type(name, types[name], "a number, or text that holds one")
    stored, times = types.get("timestamp"), (TimestampType, TimestampNTZType, DateType)
    if stored is not None and not isinstance(stored, (NumericType, StringType, *times)):
        raise _wrong_type("timestamp", stored, "a timestamp, a date, or seconds since 1970")


def _wrong_type(role: str, stored: DataType, expected: str) -> DataError:
    return DataError(
        f"the input's {role} column (input.columns.{role}) is {stored.simpleString()}; expected {expected}"
    )
