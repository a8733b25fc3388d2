"""What an explanation is made from: known pairs, and their users' ratings in blocks, as a fit has them."""

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import DataError
from dcrec_spark.models.fitting.layout import Layout, lay_out, layout_settings, observed, require_columns
from dcrec_spark.models.fitting.restarts import require_ids_alike
from dcrec_spark.models.outcome.fold_in import row_width, weighted_ratings

if TYPE_CHECKING:
    from dcrec_spark.models.outcome.model import DeconfoundedMFModel

PAIR = ["user_id", "item_id"]
WANTED = "__wanted"


def named(model: "DeconfoundedMFModel", dataset: DataFrame) -> DataFrame:
    """``user_id, item_id`` of a frame of the user's."""
    user, item = model.getOrDefault("userCol"), model.getOrDefault("itemCol")
    require_columns(dataset, [user, item], [])
    require_ids_alike(dataset, (user, item), model.tables())
    return dataset.select(quoted(user).alias("user_id"), quoted(item).alias("item_id"))


def ratings_of(model: "DeconfoundedMFModel", wanted: DataFrame, ratings: DataFrame) -> DataFrame:
    """The ratings of the pairs' users, without those that the fit held out, where the frame says which."""
    named(model, ratings)
    user = model.getOrDefault("userCol")
    ratings = observed(ratings, model.getOrDefault("validationIndicatorCol"))
    return ratings.join(wanted.select(F.col("user_id").alias(user)).distinct(), user, "left_semi")


def require_known(model: "DeconfoundedMFModel", wanted: DataFrame, rated: DataFrame) -> None:
    """Each pair has to be of a user and an item of the model, the user with ratings to explain by.

    Raises
    ------
    DataError : says which is missing, how many pairs, and names one.
    """
    users, items = model.tables()
    known = {
        "the user, {!r}, is not in the model": ("user_id", users.select(F.col("id").alias("user_id"))),
        "the item, {!r}, is not in the model": ("item_id", items.select(F.col("id").alias("item_id"))),
        "the user, {!r}, has no row in ratings": ("user_id", rated.select("user_id").distinct()),
    }
    flagged, outputs = wanted, [F.count("*").alias("pairs")]
    for at, (column, ids) in enumerate(known.values()):
        flagged = flagged.join(ids.withColumn(f"known_{at}", F.lit(True)), column, "left")
        missing = F.col(f"known_{at}").isNull()
        outputs += [F.count_if(missing).alias(f"missing_{at}"), F.min(F.when(missing, F.col(column))).alias(f"id_{at}")]
    found = flagged.agg(*outputs).collect()[0]
    if not found["pairs"]:
        raise DataError("there are no pairs to explain: expected at least one row of a user and an item")
    for at, sentence in enumerate(known):
        if found[f"missing_{at}"]:
            raise DataError(
                f"{found[f'missing_{at}']} of {found['pairs']} pairs cannot be explained: "
                f"{sentence.format(found[f'id_{at}'])} (for example); expected pairs of the model's users and items, "
                "and the ratings that its users were fitted or folded in with"
            )


def laid_out(model: "DeconfoundedMFModel", wanted: DataFrame, own: DataFrame, kept: ExitStack) -> Layout:
    """Blocks of the users' ratings, in which the wanted pairs stand as held-out ones."""
    own, values = weighted_ratings(model, own)
    columns = [expression.strip("`") for expression in values.values()]
    rated = own.select(
        quoted(model.getOrDefault("userCol")).alias("user_id"),
        quoted(model.getOrDefault("itemCol")).alias("item_id"),
        *map(quoted, columns),
        F.lit(False).alias(WANTED),
    )
    _require_distinct(rated)
    asked = wanted.select(*PAIR, *[F.lit(1.0).alias(c) for c in columns], F.lit(True).alias(WANTED))
    settings = replace(layout_settings(model, row_width(model)), precision="float64")
    items = {"item": model.tables()[1].select("id", "idx")}
    pairs = rated.unionByName(asked)
    return lay_out(pairs, "user_id", "item_id", values, settings, kept, WANTED, items, distinct=False)


def _require_distinct(rated: DataFrame) -> None:
    several = rated.groupBy(*PAIR).count().where("count > 1 and item_id is not null").first()
    if several:
        raise DataError(
            f"user {several['user_id']!r} has {several['count']} ratings of item {several['item_id']!r}: every (user, "
            "item) pair may occur once; give the ratings as they were in the fit"
        )
