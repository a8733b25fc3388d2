"""Folding new users or items into a fitted outcome model: exposures first, then ratings, then one table."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.families.select import steps_for
from dcrec_spark.models.fitting.fold_in import OTHER, fold_in, fold_in_exposure
from dcrec_spark.models.fitting.layout import Layout, lay_out, layout_settings, observed, require_columns
from dcrec_spark.models.fitting.restarts import require_ids_alike
from dcrec_spark.models.outcome.propensity import WEIGHT_COLUMN, require_propensities
from dcrec_spark.models.outcome.tables import has_own_weights, memory_of, side_table

if TYPE_CHECKING:
    from dcrec_spark.models.outcome.model import DeconfoundedMFModel


def fold_in_rows(model: "DeconfoundedMFModel", dataset: DataFrame, new: str) -> DataFrame:
    """The table of the folded-in side ("user" or "item"): its model columns and its exposure columns, cached."""
    users, items = model.tables()
    known = items if new == "user" else users
    names = model.getOrDefault("userCol"), model.getOrDefault("itemCol")
    require_columns(dataset, names, [])
    require_ids_alike(dataset, names, (users, items))
    dataset = observed(dataset, model.getOrDefault("validationIndicatorCol"))
    with ExitStack() as kept:
        layout = _laid_out(model, dataset, {OTHER[new]: known.select("id", "idx")}, kept)
        exposure = None
        if model.exposureModel is not None:
            posterior = known.select("id", F.col("exposure_shape").alias("shape"), F.col("exposure_rate").alias("rate"))
            layout, exposure = fold_in_exposure(layout, new, posterior, model.exposureModel.steps(), kept)
        is_poisson = model.getOrDefault("outcome") == "poisson"
        with_gamma = new == "item" and has_own_weights(model)
        memory = memory_of(known, model.getOrDefault("rank"), is_poisson, with_gamma)
        steps = steps_for(model, layout.n_pairs)
        states = fold_in(layout, new, memory, steps, model.facts.shared, kept)
        folded = side_table(model, layout, new, states[new], model.facts).drop("idx")
        folded = with_exposure(folded, exposure).persist()
        folded.count()
    return folded


def with_exposure(factors: DataFrame, exposure: DataFrame | None) -> DataFrame:
    """The factors with ``exposure_shape, exposure_rate`` beside them; empty arrays where there is no exposure model."""
    if exposure is None:
        empty = F.expr("cast(array() as array<double>)")
        return factors.withColumns({"exposure_shape": empty, "exposure_rate": empty})
    named = exposure.select("id", F.col("shape").alias("exposure_shape"), F.col("rate").alias("exposure_rate"))
    return factors.join(named, "id").select(*factors.columns, "exposure_shape", "exposure_rate")


def _laid_out(
    model: "DeconfoundedMFModel", dataset: DataFrame, frozen: dict[str, DataFrame], kept: ExitStack
) -> Layout:
    get, exposure = model.getOrDefault, model.exposureModel
    dataset, values = weighted_ratings(model, dataset)
    if exposure is not None:
        values |= exposure.exposure_value()
        counts = [c for c in (exposure.getOrDefault("countCol"),) if c]
        require_columns(dataset, [get("userCol"), get("itemCol")], counts)
    settings = layout_settings(model, row_width(model))
    return lay_out(dataset, get("userCol"), get("itemCol"), values, settings, kept, frozen=frozen)


def weighted_ratings(model: "DeconfoundedMFModel", dataset: DataFrame) -> tuple[DataFrame, dict[str, str]]:
    """The ratings with their weights, where the model has any, and the arrays that its blocks take from them.

    Raises
    ------
    DataError : a column is missing or of the wrong type; a propensity that is none.
    """
    get, propensity = model.getOrDefault, model.facts.propensity
    values, numbers = {"rating": f"`{get('ratingCol')}`"}, [get("ratingCol")]
    if propensity is not None:
        numbers += [c for c in (propensity.settings.column,) if c]
    require_columns(dataset, [get("userCol"), get("itemCol")], numbers)
    if propensity is not None:
        require_propensities(dataset, propensity.settings)
        dataset = dataset.withColumn(WEIGHT_COLUMN, propensity.weight(get("ratingCol")))
        values["weight"] = f"`{WEIGHT_COLUMN}`"
    return dataset, values


def row_width(model: "DeconfoundedMFModel") -> int:
    """How many numbers a row of either stage has at most."""
    rank, exposure = int(model.getOrDefault("rank")), model.exposureModel
    return max(2 * rank + 2, 0 if exposure is None else 2 * exposure.getOrDefault("rank"))
