"""Overlap of each user or item: effective sample sizes and sensitivity, by the propensities of the exposure model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.certainty import sensitivity_bounds
from dcrec_spark.kernels.csr import rows_of
from dcrec_spark.kernels.exposure import SMALLEST
from dcrec_spark.models.families.base import Family
from dcrec_spark.models.fitting.attach import LEAVE_ONE_OUT, propensities, sent
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.fitted import FittedOutcome
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.propensity import exposure_values
from dcrec_spark.spark.planning import few_partitions

# Name of the array of places in the block: of each row, or of the row of each wanted pair.
ROW = "row"
OVERLAP = ("effective_ratings", "smallest_propensity", "mean_rating", "mean_low", "mean_high")
_COLUMNS = {"ratings": "long", **dict.fromkeys(OVERLAP, "double")}


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
    with few_partitions(ratings.sparkSession), FitResources() as resources:
        layout, kernel = _lay_out(fitted, ratings, resources), partial(overlap, odds=float(odds))
        tables = []
        for side in sides:
            is_user = side == "user"
            overlaps = by_exposure(fitted, fitted.exposure, layout, kernel, _COLUMNS, resources, is_user)
            ids, kind = layout.user_ids if is_user else layout.item_ids, fitted.table(is_user).schema["id"].dataType
            named = ids.select(F.col("idx").alias(f"{side}_idx"), F.col("id").cast(kind).alias(f"{side}_id"))
            tables.append(named.join(overlaps.where("ratings > 0"), f"{side}_idx").drop(f"{side}_idx").persist())
            tables[-1].count()
    return tables


def by_exposure(
    fitted: FittedOutcome,
    exposure: Family,
    layout: Layout,
    kernel: Kernel,
    columns: Mapping[str, str],
    resources: FitResources,
    is_user: bool = True,
) -> DataFrame:
    """Run a kernel on blocks of users, or of items, that meet the other side's exposure factors: a memory frame."""
    users, items = fitted.exposure_states(exposure, layout, resources)
    with layout.environment():
        here, there = (layout.users, users), (layout.items, items)
        here, there = (here, there) if is_user else (there, here)
        source = resources.add(there[0].half_step(partial(sent, term=LEAVE_ONE_OUT), previous=there[1]))
        state = resources.add(here[0].remember(kernel, source, here[1]))
        # Read before the blocks are given a confounder, which frees these.
        table = resources.cache(memory_frame(layout, is_user, state, columns))
        table.count()
    return table


def _lay_out(fitted: FittedOutcome, ratings: DataFrame, resources: FitResources) -> Layout:
    (user, item), rating = fitted.id_columns, fitted.params.getOrDefault("ratingCol")
    fitted.require_pairs(ratings, rating, fitted.count_column)
    ratings = fitted.observed(ratings).join(fitted.users.select(F.col("id").alias(user)), user, "left_semi")
    values = {"rating": f"`{rating}`", **exposure_values(fitted.count_column)}
    settings = replace(layout_settings(fitted.params, fitted.row_width), precision="float64")
    return lay_out(ratings, user, item, values, settings, resources, frozen={"item": fitted.items.select("id", "idx")})


def overlap(inputs: KernelInput, *, odds: float) -> Update:
    """Compute what the ratings show of the rows of a block: of each how many ratings, and OVERLAP."""
    rated = inputs.block.fitted
    p, rating = propensities(inputs, rated, is_fitted=True), rated.value("rating").astype(np.float64)
    row_ptr, floored = rated.row_ptr, np.maximum(p, SMALLEST)
    table = np.full((len(row_ptr) - 1, len(OVERLAP)), np.nan)
    table[:, 1] = smallest_of_rows(row_ptr, p)
    for row in np.flatnonzero(np.diff(row_ptr)):
        of_row = slice(row_ptr[row], row_ptr[row + 1])
        weight = 1.0 / floored[of_row]
        # (sum w)^2 / sum w^2: the number of equal weights with as much information.
        table[row, 0] = weight.sum() ** 2 / (weight @ weight)
        table[row, 2:] = sensitivity_bounds(rating[of_row], floored[of_row], odds)
    columns = dict(zip(OVERLAP, np.ascontiguousarray(table.T), strict=True))
    memory = {ROW: np.arange(len(table)), "ratings": np.diff(row_ptr), **columns}
    return Update(np.empty((len(table), 0)), {}, memory)


def smallest_of_rows(row_ptr: Array, p: Array) -> Array:
    """Return each row's smallest p, (n,). Infinite for a row without any."""
    smallest = np.full(len(row_ptr) - 1, np.inf)
    np.minimum.at(smallest, rows_of(row_ptr), p)
    return smallest


def memory_frame(layout: Layout, is_user: bool, state: State, columns: Mapping[str, str]) -> DataFrame:
    """Return the memories of a side's blocks as a table: its ``user_idx`` or ``item_idx``, and ``columns`` of types."""
    n_blocks = (layout.users if is_user else layout.items).n_blocks
    row_idx = "user_idx" if is_user else "item_idx"

    def rows(block: int, memory: Arrays) -> pa.RecordBatch:
        idx = np.asarray(memory[ROW], np.int64) * n_blocks + block
        return pa.RecordBatch.from_pydict(
            {row_idx: pa.array(idx), **{name: pa.array(memory[name]) for name in columns}}
        )

    schema = ", ".join(f"{name} {kind}" for name, kind in {row_idx: "long", **columns}.items())
    return layout.memory_table(is_user, state, rows, schema)
