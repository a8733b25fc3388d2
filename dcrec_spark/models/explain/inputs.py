"""Inputs of explanations and intervals: known pairs, and ratings in blocks, as a fit has them."""

from dataclasses import replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.blocks import index_at
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.kernel_input import KernelInput
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError, cut
from dcrec_spark.models.fitting.checks import observed, require_columns, require_ids_alike
from dcrec_spark.models.fitting.confounder import attach_confounder
from dcrec_spark.models.fitting.covariates import attach_known
from dcrec_spark.models.fitting.facts import FittedExposure, FittedOutcome
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.propensity import exposure_values, require_ratings, weighted_ratings

PAIR = ["user_id", "item_id"]
# How far what the given ratings imply may be from what the model has, relative to |theta| |beta|: the precision of the
# fit, not of the explanation.
AGREEMENT = {"float64": 1e-4, "float32": 1e-2}
WANTED, COUNT = "__wanted", "__count"


def inbox_idx(inputs: KernelInput, size: tuple[int, int]) -> Array:
    """Return the ``idx`` of the rows of an inbox, (m,). size : rows and blocks of the other side."""
    return np.asarray(index_at(*size, inputs.block.need_at))


def pairs_of(fitted: FittedOutcome, dataset: DataFrame) -> DataFrame:
    """``user_id, item_id`` of a user's frame."""
    user, item = fitted.id_columns
    require_columns(dataset, [user, item], [])
    require_ids_alike(dataset, (user, item), (fitted.users, fitted.items))
    return dataset.select(quoted(user).alias("user_id"), quoted(item).alias("item_id"))


def ratings_of(fitted: FittedOutcome, wanted: DataFrame, ratings: DataFrame) -> DataFrame:
    """Return the ratings of the pairs' users, without those that the fit held out, where the frame says which."""
    pairs_of(fitted, ratings)
    user, _ = fitted.id_columns
    ratings = observed(ratings, fitted.params.getOrDefault("validationIndicatorCol"))
    return ratings.join(wanted.select(F.col("user_id").alias(user)).distinct(), user, "left_semi")


def require_known(fitted: FittedOutcome, wanted: DataFrame, rated: DataFrame, verb: str = "explain") -> None:
    """Refuse pairs of users or items that the model does not know, and users without ratings to explain by."""
    known = {
        "the user, {!r}, is not in the model": ("user_id", fitted.users.select(F.col("id").alias("user_id"))),
        "the item, {!r}, is not in the model": ("item_id", fitted.items.select(F.col("id").alias("item_id"))),
        "the user, {!r}, has no row in ratings": ("user_id", rated.select("user_id").distinct()),
    }
    flagged, outputs = wanted, [F.count("*").alias("pairs")]
    for at, (column, ids) in enumerate(known.values()):
        flagged = flagged.join(ids.withColumn(f"known_{at}", F.lit(True)), column, "left")
        missing = F.col(f"known_{at}").isNull()
        outputs += [F.count_if(missing).alias(f"missing_{at}"), F.min(F.when(missing, F.col(column))).alias(f"id_{at}")]
    counts = flagged.agg(*outputs).collect()[0]
    if not counts["pairs"]:
        raise DataError(f"there are no pairs to {verb}: expected at least one row of a user and an item")
    for at, sentence in enumerate(known):
        if counts[f"missing_{at}"]:
            raise DataError(
                f"{counts[f'missing_{at}']} of {counts['pairs']} pairs cannot be {verb}ed: "
                f"{sentence.format(counts[f'id_{at}'])} (for example); expected pairs of the model's users and items, "
                "and the ratings that its users were fitted or folded in with"
            )


def lay_out_pairs(
    fitted: FittedOutcome, wanted: DataFrame, ratings: DataFrame, resources: FitResources, everyone: bool = False
) -> Layout:
    """Lay out ratings in blocks, with the wanted pairs as held-out ones.

    everyone : whether all users of the model have a row, under the model's ``idx``, and exposures stay known, else the
        users are those of the ratings, and exposures are there where the confounder asks for them.
    """
    require_ratings(ratings, fitted.params, fitted.facts.propensity)
    user, item = fitted.id_columns
    weighted, values = weighted_ratings(ratings, fitted.params.getOrDefault("ratingCol"), fitted.facts.propensity)
    if fitted.exposure is not None and (fitted.family.exposure_term.leave_one_out or everyone):
        count = fitted.exposure.count_column
        require_columns(ratings, [user, item], [count] if count else [])
        weighted = weighted.withColumn(COUNT, F.expr(exposure_values(count)["exposure_count"]))
        values["exposure_count"] = f"`{COUNT}`"
    columns = [expression.strip("`") for expression in values.values()]
    rated = weighted.select(
        quoted(user).alias("user_id"), quoted(item).alias("item_id"), *map(quoted, columns), F.lit(False).alias(WANTED)
    )
    several = rated.groupBy(*PAIR).count().where("count > 1 and item_id is not null").first()
    if several:
        raise DataError(
            f"user {cut(several['user_id'])} has {several['count']} ratings of item {cut(several['item_id'])}: every "
            "(user, item) pair may occur once; give the ratings as they were in the fit"
        )
    requested = wanted.select(*PAIR, *[F.lit(1.0).alias(c) for c in columns], F.lit(True).alias(WANTED))
    settings = replace(layout_settings(fitted.params, fitted.row_width), precision="float64")
    given = {"item": fitted.items.select("id", "idx")}
    if everyone:
        given["user"] = fitted.users.select("id", "idx")
    pairs = rated.unionByName(requested)
    return lay_out(pairs, "user_id", "item_id", values, settings, resources, WANTED, given, distinct=False)


def with_exposure_term(fitted: FittedOutcome, layout: Layout, resources: FitResources) -> Layout:
    """Attach the confounder of each pair and the covariates of each row, as the model has them."""
    for is_user in (True, False):
        layout = attach_known(
            layout, is_user, fitted.table(is_user), fitted.facts.covariates, fitted.family.composition, resources
        )
    if fitted.exposure is None:
        return layout
    users, items = exposure_states(fitted, fitted.exposure, layout, resources)
    layout, _ = attach_confounder(layout, users, items, fitted.family.exposure_term, resources, fitted.facts.form)
    return layout


def exposure_states(
    fitted: FittedOutcome, exposure: FittedExposure, layout: Layout, resources: FitResources
) -> tuple[State, State]:
    """Return the exposure factors of the model's users and items as the states of a layout's blocks."""
    with layout.environment():
        states = [
            resources.add(layout.place(is_user, fitted.exposure_table(is_user), exposure.family))
            for is_user in (True, False)
        ]
    return states[0], states[1]
