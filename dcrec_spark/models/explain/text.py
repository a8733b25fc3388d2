"""Titles in place of item ids, and the reasons of a score in one line of text."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from dcrec_spark.errors import DataError

_RECOMMENDATIONS, _REASONS = "recommendations", "reasons"


def look_up(frame: DataFrame, keys: Sequence[str], field: str, names: DataFrame, entries: str = _REASONS) -> DataFrame:
    """Add the columns of ``names`` to each entry of an array of structs, in order. Null where there is no such row.

    frame : has ``entries: array<struct<field, ...>>``. keys : the columns that tell its rows apart. field : of the
    entries, and the column of ``names``, which has one row for each of its values.
    """
    known = frame.selectExpr(f"inline(`{entries}`)").columns
    added = [c for c in names.columns if c != field]
    others = [c for c in frame.columns if c not in (*keys, entries)]
    each = frame.select("*", F.posexplode_outer(entries).alias("__place", "__entry"))
    matched = each.join(
        names.select(F.col(field).alias("__key"), *[F.col(c).alias(f"__{c}") for c in added]),
        F.col(f"__entry.{field}") == F.col("__key"),
        "left",
    )
    entry = F.struct("__place", *[F.col(f"__entry.{c}") for c in known], *[F.col(f"__{c}").alias(c) for c in added])
    listed = F.array_sort(F.collect_list(F.when(F.col("__place").isNotNull(), entry)))
    ordered = F.transform(listed, lambda e: F.struct(*[e[c].alias(c) for c in (*known, *added)]))
    return (
        matched.groupBy(*keys)
        .agg(*[F.first(c).alias(c) for c in others], ordered.alias(entries))
        .select(*frame.columns)
    )


def with_titles(frame: DataFrame, titles: DataFrame, item: str = "item_id") -> DataFrame:
    """Add a ``title`` to each row of a table of items, and to each of its reasons or recommendations, else the id.

    frame : any table with a column of item ids, such as ``recommendationTable`` and ``explain`` return, or the arrays
        of ``recommendForAllUsers``. Where there is a column ``reasons``, its entries get a title too.
    titles : ``item_id`` and ``title``, one row for each item.
    item : the column, or the field of the recommendations, that holds the item id: the model's ``itemCol`` for
        ``transform`` and ``recommendForAllUsers``.

    Raises DataError: ``titles`` lacks one of its columns, ``frame`` has no such item, or has a column ``title``
    already.

    Examples
    --------
    >>> titles = spark.createDataFrame([(10, "Emma"), (11, "Ivanhoe")], "item_id int, title string")
    >>> table = spark.createDataFrame([(1, 1, 11), (1, 2, 12)], "user_id int, rank int, item_id int")
    >>> with_titles(table, titles).orderBy("rank").show()
    +-------+----+-------+-------+
    |user_id|rank|item_id|  title|
    +-------+----+-------+-------+
    |      1|   1|     11|Ivanhoe|
    |      1|   2|     12|     12|
    +-------+----+-------+-------+
    <BLANKLINE>
    """
    missing = [c for c in ("item_id", "title") if c not in titles.columns]
    if missing:
        raise DataError(f"titles: found columns {', '.join(titles.columns)}; expected item_id and title")
    names = titles.select(F.col("item_id").alias(item), "title")
    if item in frame.columns:
        return _with_row_titles(frame, names, item)
    if item in _fields(frame, _RECOMMENDATIONS):
        keys = [c for c in frame.columns if c != _RECOMMENDATIONS]
        return _entries_titled(look_up(frame, keys, item, names, _RECOMMENDATIONS), _RECOMMENDATIONS, item)
    raise DataError(
        f"the table has no column {item!r}: found {', '.join(frame.columns)}; "
        "name the one that holds the item ids with item=..."
    )


def _with_row_titles(frame: DataFrame, names: DataFrame, item: str) -> DataFrame:
    if "title" in frame.columns:
        raise DataError("column 'title' is there already, and with_titles adds one of that name: drop or rename it")
    named = frame
    if item in _fields(frame, _REASONS):
        keys = [c for c in ("user_id", item) if c in frame.columns]
        named = _entries_titled(look_up(frame, keys, item, names), _REASONS, item)
    title = _title(F.col("title"), F.col(f"`{item}`")).alias("title")
    return named.join(names, item, "left").select(*frame.columns, title)


def _entries_titled(frame: DataFrame, entries: str, item: str) -> DataFrame:
    titled = F.transform(entries, lambda e: e.withField("title", _title(e["title"], e[item])))
    return frame.withColumn(entries, titled)


def _fields(frame: DataFrame, column: str) -> list[str]:
    """Return the fields of the structs in a column of arrays. Empty where the frame has no such column."""
    kind: DataType | None = frame.schema[column].dataType if column in frame.columns else None
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        return list(kind.elementType.names)
    return []


def _title(title: Column, item_id: Column) -> Column:
    return F.coalesce(title, item_id.cast("string"))


def order_text() -> Column:
    """Say in one line why an explained place stands where it does, under an exposure weight above 0.

    A column ``order_text``, from ``above`` and ``exposure`` as ``explain`` returns them.

    Examples
    --------
    >>> schema = "item_id int, above double, exposure double"
    >>> explained = spark.createDataFrame([(10, 0.62, 0.12), (11, -0.2, 0.5)], schema)
    >>> explained.select("item_id", order_text()).show(truncate=False)
    +-------+---------------------------------------------------------------------+
    |item_id|order_text                                                           |
    +-------+---------------------------------------------------------------------+
    |10     |0.62 above what the user usually gives, 12 % likely to come across it|
    |11     |0.20 below what the user usually gives, 50 % likely to come across it|
    +-------+---------------------------------------------------------------------+
    <BLANKLINE>
    """
    where = F.when(F.col("above") > 0, F.lit("above")).otherwise(F.lit("below"))
    line = "%.2f %s what the user usually gives, %.0f %% likely to come across it"
    text = F.format_string(line, F.abs("above"), where, 100.0 * F.col("exposure"))
    return text.alias("order_text")


def reasons_text(reasons: str | Column = _REASONS, name: str = "item_id") -> Column:
    """Write the reasons of an explanation as one line of text.

    reasons : ``array<struct<item_id, rating, contribution, ...>>``, as ``explain`` returns it.
    name : the field that says what an item is called. ``"title"`` after :func:`with_titles`.

    Returns a column ``reasons_text``: "because of A (5.0): +0.41, B (4.0): +0.22. Despite C (1.0): -0.10". Empty where
    there are no reasons.

    Examples
    --------
    >>> schema = "item_id int, reasons array<struct<item_id: int, rating: double, contribution: double>>"
    >>> explained = spark.createDataFrame([(10, [(11, 5.0, 0.41), (12, 1.0, -0.1)])], schema)
    >>> explained.select("item_id", reasons_text()).show(truncate=False)
    +-------+---------------------------------------------------+
    |item_id|reasons_text                                       |
    +-------+---------------------------------------------------+
    |10     |because of 11 (5.0): +0.41; despite 12 (1.0): -0.10|
    +-------+---------------------------------------------------+
    <BLANKLINE>
    """
    column = F.col(reasons) if isinstance(reasons, str) else reasons

    def listed(word: str, chosen: Column) -> Column:
        entries = F.transform(
            chosen, lambda r: F.format_string("%s (%s): %+.2f", r[name].cast("string"), r["rating"], r["contribution"])
        )
        return F.when(F.size(entries) > 0, F.concat(F.lit(f"{word} "), F.array_join(entries, ", ")))

    for_it = F.filter(column, lambda r: r["contribution"] > 0)
    against = F.filter(column, lambda r: r["contribution"] < 0)
    return F.concat_ws("; ", listed("because of", for_it), listed("despite", against)).alias("reasons_text")
