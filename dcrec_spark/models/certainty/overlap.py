"""Overlap of each user or item: effective sample sizes and sensitivity, by the propensities of the exposure model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from dcrec_spark.engine.kernel_input import Kernel
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.certainty.half_steps import OVERLAP, memory_frame, overlap
from dcrec_spark.models.explain.inputs import exposure_states
from dcrec_spark.models.fitting.checks import observed, require_columns, require_ids_alike
from dcrec_spark.models.fitting.confounder import LEAVE_ONE_OUT, sent
from dcrec_spark.models.fitting.facts import FittedExposure, FittedOutcome
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.propensity import exposure_values
from dcrec_spark.spark.planning import few_partitions

_COLUMNS = {"ratings": ("ratings", "long"), **{name: (name, "double") for name in OVERLAP}}


def overlaps_of(fitted: FittedOutcome, ratings: DataFrame, odds: float, sides: Sequence[str]) -> list[DataFrame]:
    """Return what :meth:`DeconfoundedMFModel.overlap` returns of each side, cached. The pairs are laid out once."""
    if isinstance(odds, bool) or not isinstance(odds, int | float) or not 1.0 <= odds < float("inf"):
        raise ValueError(f"odds: found {odds!r}, expected a finite number >= 1, 1 for propensities that are right")
    for side in sides:
        if side not in ("user", "item"):
            raise ValueError(f"side: found {side!r}, expected user or item")
    if fitted.exposure is None:
        raise ConfigError(
            "overlap takes propensities from the exposure model, and this model has none: fit with "
            "adjustment=deconfounded"
        )
    with FitResources() as resources:
        resources.enter(few_partitions(ratings.sparkSession))
        layout, kernel = _lay_out(fitted, fitted.exposure, ratings, resources), partial(overlap, odds=float(odds))
        return [
            _name_rows(
                by_exposure(fitted, fitted.exposure, layout, kernel, _COLUMNS, resources, side == "user"),
                layout.user_ids if side == "user" else layout.item_ids,
                fitted.table(side == "user").schema["id"].dataType,
                side,
            )
            for side in sides
        ]


def _name_rows(overlaps: DataFrame, ids: DataFrame, kind: DataType, side: str) -> DataFrame:
    """Rows with ratings by their ids, cached."""
    named = ids.select(F.col("idx").alias(f"{side}_idx"), F.col("id").cast(kind).alias(f"{side}_id"))
    table = named.join(overlaps.where("ratings > 0"), f"{side}_idx").drop(f"{side}_idx").persist()
    table.count()
    return table


def by_exposure(
    fitted: FittedOutcome,
    exposure: FittedExposure,
    layout: Layout,
    kernel: Kernel,
    columns: Mapping[str, tuple[str, str]],
    resources: FitResources,
    is_user: bool = True,
) -> DataFrame:
    """Run a kernel on the blocks of users that meets the items' exposure factors: a table, with ``user_idx``.

    columns : of the table, as :func:`dcrec_spark.models.certainty.half_steps.memory_frame` takes them.
    is_user : else it is the blocks of items that meet the users' factors: a table with ``item_idx``.
    """
    users, items = exposure_states(fitted, exposure, layout, resources)
    with layout.environment():
        here, there = (layout.users, users), (layout.items, items)
        here, there = (here, there) if is_user else (there, here)
        source = resources.add(there[0].half_step(partial(sent, term=LEAVE_ONE_OUT), previous=there[1]))
        state = resources.add(here[0].remember(kernel, source, here[1]))
        # Read before the blocks are given a confounder, which frees these.
        row_idx = "user_idx" if is_user else "item_idx"
        table = resources.cache(memory_frame(layout, is_user, state, row_idx, columns))
        table.count()
    return table


def _lay_out(fitted: FittedOutcome, exposure: FittedExposure, ratings: DataFrame, resources: FitResources) -> Layout:
    """Blocks of the ratings of known users and items, with their exposures."""
    (user, item), rating, count = fitted.id_columns, fitted.params.getOrDefault("ratingCol"), exposure.count_column
    require_columns(ratings, [user, item], [rating, *([count] if count else [])])
    require_ids_alike(ratings, (user, item), (fitted.users, fitted.items))
    known = fitted.users.select(F.col("id").alias(user))
    ratings = observed(ratings, fitted.params.getOrDefault("validationIndicatorCol")).join(known, user, "left_semi")
    values = {"rating": f"`{rating}`", **exposure_values(count)}
    settings = replace(layout_settings(fitted.params, fitted.row_width), precision="float64")
    return lay_out(ratings, user, item, values, settings, resources, frozen={"item": fitted.items.select("id", "idx")})
