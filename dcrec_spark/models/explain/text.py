"""The reasons of explanations: what their items are called, and all of them in a line of text."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.errors import DataError


def look_up(explained: DataFrame, keys: Sequence[str], field: str, names: DataFrame) -> DataFrame:
    """``explained`` with the further columns of ``names`` in each of its reasons; null where it has none.

    keys : the columns that tell the rows apart. field : of the reasons, and the column of ``names`` to match it with.
    """
    known = explained.selectExpr("inline(reasons)").columns
    added = [c for c in names.columns if c != field]
    others = [c for c in explained.columns if c not in (*keys, "reasons")]
    each = explained.select("*", F.posexplode_outer("reasons").alias("__place", "__reason"))
    matched = each.join(
        names.select(F.col(field).alias("__key"), *[F.col(c).alias(f"__{c}") for c in added]),
        F.col(f"__reason.{field}") == F.col("__key"),
        "left",
    )
    entry = F.struct("__place", *[F.col(f"__reason.{c}") for c in known], *[F.col(f"__{c}").alias(c) for c in added])
    listed = F.array_sort(F.collect_list(F.when(F.col("__place").isNotNull(), entry)))
    reasons = F.transform(listed, lambda r: F.struct(*[r[c].alias(c) for c in (*known, *added)]))
    return (
        matched.groupBy(*keys)
        .agg(*[F.first(c).alias(c) for c in others], reasons.alias("reasons"))
        .select(*explained.columns)
    )


def titled(explained: DataFrame, titles: DataFrame) -> DataFrame:
    """Explanations with a ``title`` in each row and in each of its reasons; an item without one goes by its id.

    titles : ``item_id``, ``title``, one row of each item.

    Raises
    ------
    DataError : ``titles`` lacks one of its columns.
    """
    missing = [c for c in ("item_id", "title") if c not in titles.columns]
    if missing:
        raise DataError(f"titles: found columns {', '.join(titles.columns)}; expected item_id and title")
    names = titles.select("item_id", "title")
    named = look_up(explained, ["user_id", "item_id"], "item_id", names).join(names, "item_id", "left")
    reasons = F.transform("reasons", lambda r: r.withField("title", _title(r["title"], r["item_id"])))
    title = _title(F.col("title"), F.col("item_id")).alias("title")
    return named.withColumn("reasons", reasons).select(*explained.columns, title)


def _title(title: Column, item_id: Column) -> Column:
    return F.coalesce(title, item_id.cast("string"))


def because(reasons: str | Column = "reasons", name: str = "item_id") -> Column:
    """Reasons as text, the column "because": "because of A (5.0): +0.41, B (4.0): +0.22; despite C (1.0): -0.10".

    name : the field that says what an item is called; "title" after :func:`titled`.
    """
    column = F.col(reasons) if isinstance(reasons, str) else reasons

    def told(word: str, chosen: Column) -> Column:
        entries = F.transform(
            chosen,
            lambda r: F.format_string("%s (%s): %+.2f", r[name].cast("string"), r["rating"], r["contribution"]),
        )
        return F.when(F.size(entries) > 0, F.concat(F.lit(f"{word} "), F.array_join(entries, ", ")))

    for_it = F.filter(column, lambda r: r["contribution"] > 0)
    against = F.filter(column, lambda r: r["contribution"] < 0)
    return F.concat_ws("; ", told("because of", for_it), told("despite", against)).alias("because")
