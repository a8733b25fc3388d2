"""How much of each user the ratings show, by the propensities of the exposure model."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.half_step import Kernel, half_step
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.certainty.half_steps import OVERLAP, left_by, memory_frame, overlap
from dcrec_spark.models.explain.inputs import exposure_states
from dcrec_spark.models.fitting.checks import observed, require_columns, require_ids_alike
from dcrec_spark.models.fitting.exposure_propensity import WITHOUT_OWN_VOTE
from dcrec_spark.models.fitting.exposure_term import sent
from dcrec_spark.models.fitting.fitted import FittedExposure, FittedOutcome
from dcrec_spark.models.fitting.lay_out import AnyLayout, lay_out
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.scope import FitScope
from dcrec_spark.models.fitting.values import exposure_values
from dcrec_spark.spark.planning import few_partitions

_COLUMNS = {"ratings": ("ratings", "long"), **{name: (name, "double") for name in OVERLAP}}


def require_certainty(fitted: FittedOutcome) -> None:
    """Refuse families that do not say how sure they are.

    Raises
    ------
    ConfigError : names the outcome.
    """
    if not fitted.family.has_certainty:
        raise ConfigError(
            f"outcome={fitted.params.getOrDefault('outcome')} does not say how sure a score is: intervals and overlap "
            "are those of least squares, outcome=weighted or probabilistic"
        )


def overlap_of(fitted: FittedOutcome, ratings: DataFrame, odds: float) -> DataFrame:
    """Return what :meth:`DeconfoundedMFModel.overlap` returns, cached.

    Raises
    ------
    DataError, ConfigError, ValueError : see there.
    """
    if isinstance(odds, bool) or not isinstance(odds, int | float) or not 1.0 <= odds < float("inf"):
        raise ValueError(f"odds: found {odds!r}, expected a finite number >= 1, 1 for propensities that are right")
    require_certainty(fitted)
    if fitted.exposure is None:
        raise ConfigError(
            "overlap takes propensities from the exposure model, and this model has none: fit with "
            "adjustment=deconfounded, or with propensitySource=exposure"
        )
    with FitScope() as scope:
        scope.enter(few_partitions(ratings.sparkSession))
        layout = _lay_out(fitted, fitted.exposure, ratings, scope)
        found = by_exposure(fitted, fitted.exposure, layout, partial(overlap, odds=float(odds)), _COLUMNS, scope)
        user_id = F.col("id").cast(fitted.users.schema["id"].dataType).alias("user_id")
        ids = layout.user_ids.select(F.col("idx").alias("user_idx"), user_id)
        table = ids.join(found, "user_idx").drop("user_idx").persist()
        table.count()
    return table


def by_exposure(
    fitted: FittedOutcome,
    exposure: FittedExposure,
    layout: AnyLayout,
    kernel: Kernel,
    columns: Mapping[str, tuple[str, str]],
    scope: FitScope,
) -> DataFrame:
    """Run a kernel on the blocks of users that meets the items' exposure factors: a table, with ``user_idx``.

    columns : of the table, as :func:`dcrec_spark.models.certainty.half_steps.memory_frame` takes them.
    """
    users, items = exposure_states(fitted, exposure, layout, scope)
    with layout.fixed_placement():
        source = scope.add(half_step(layout.items, partial(sent, term=WITHOUT_OWN_VOTE), previous=items))
        side, state = left_by(layout.users, kernel, source, users, scope)
        # Read before the blocks are given a confounder, which frees these.
        found = scope.cache(memory_frame(fitted.users.sparkSession, side, state, "user_idx", columns))
        found.count()
    return found


def _lay_out(fitted: FittedOutcome, exposure: FittedExposure, ratings: DataFrame, scope: FitScope) -> AnyLayout:
    """Blocks of the ratings of known users and items, with their exposures."""
    (user, item), rating, count = fitted.id_columns, fitted.params.getOrDefault("ratingCol"), exposure.count_column
    require_columns(ratings, [user, item], [rating, *([count] if count else [])])
    require_ids_alike(ratings, (user, item), (fitted.users, fitted.items))
    known = fitted.users.select(F.col("id").alias(user))
    ratings = observed(ratings, fitted.params.getOrDefault("validationIndicatorCol")).join(known, user, "left_semi")
    values = {"rating": f"`{rating}`", **exposure_values(count)}
    settings = replace(layout_settings(fitted.params, fitted.row_width), precision="float64")
    return lay_out(ratings, user, item, values, settings, scope, frozen={"item": fitted.items.select("id", "idx")})
