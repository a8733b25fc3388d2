"""Folding new users or items into a fitted outcome model: exposures first, then ratings, then one table."""

from pyspark.sql import DataFrame

from dcrec_spark.models.families.poisson import NOTHING_SHARED
from dcrec_spark.models.fitting.attach import attach_confounder
from dcrec_spark.models.fitting.factors import select_columns
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.fitted import FittedOutcome
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout, Part
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.propensity import exposure_values, require_ratings, weighted_ratings
from dcrec_spark.models.fitting.stages import fold_in
from dcrec_spark.models.outcome.tables import completed

_IDS = {"id": "id", "idx": "idx"}


def fold_in_rows(fitted: FittedOutcome, dataset: DataFrame, features: DataFrame | None, new_is_user: bool) -> DataFrame:
    """Return the table of the folded-in side: its model columns and its exposure columns, cached."""
    fitted.require_pairs(dataset)
    dataset = fitted.observed(dataset)
    known = fitted.table(not new_is_user)
    with FitResources() as resources:
        layout = _lay_out(fitted, dataset, {"item" if new_is_user else "user": select_columns(known, _IDS)}, resources)
        exposure: Part | None = None
        if fitted.exposure is not None:
            family, table = fitted.exposure, fitted.exposure_table(not new_is_user)
            states = fold_in(layout, new_is_user, table, family, NOTHING_SHARED, resources)
            exposure, term = Part(states[new_is_user], family, NOTHING_SHARED), fitted.family.exposure_term
            layout, _ = attach_confounder(layout, states[True], states[False], term, resources, fitted.facts.form)
        layout = fitted.with_new_features(layout, new_is_user, features, resources)
        layout = fitted.with_features(layout, not new_is_user, resources)
        states = fold_in(layout, new_is_user, known, fitted.family, fitted.facts.shared, resources)
        table = layout.table(new_is_user, states[new_is_user], fitted.family, fitted.facts.shared, exposure)
        return layout.materialise(completed(table.drop("idx")).persist())


def _lay_out(
    fitted: FittedOutcome, dataset: DataFrame, frozen: dict[str, DataFrame], resources: FitResources
) -> Layout:
    require_ratings(dataset, fitted.params, fitted.facts.propensity)
    dataset, values = weighted_ratings(dataset, fitted.params.getOrDefault("ratingCol"), fitted.facts.propensity)
    if fitted.exposure is not None:
        values |= exposure_values(fitted.count_column)
        fitted.require_pairs(dataset, fitted.count_column)
    # Items are solved from their pairs, which their blocks have to hold.
    splits = "item" in frozen and fitted.family.splits
    settings = layout_settings(fitted.params, fitted.row_width, splits)
    return lay_out(dataset, *fitted.id_columns, values, settings, resources, frozen=frozen, new_only=True)
