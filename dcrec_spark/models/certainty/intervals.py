"""Intervals for the potential ratings of chosen pairs: what the noise and both sides' systems leave open.

    all ratings, the pairs as held-out ones ─ blocks of both sides ─┬─ exposures ─ p below any rated one?
                                                                    ├─ users' systems ─ score, x' A_u^-1 x ─┐
                                                                    └─ items' systems ─ v' A_i^-1 v ────────┴─ interval

The systems are those that the fit solved, made anew from its ratings and the model's factors. Nothing is fitted.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from scipy.special import ndtri

from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import ConfigError, DataError, cut
from dcrec_spark.kernels.certainty import Noise, noise, odds_of_shift
from dcrec_spark.kernels.csr import rows_of
from dcrec_spark.models.certainty.overlap import ROW, by_exposure, memory_frame, smallest_of_rows
from dcrec_spark.models.families.base import Assessing, Assessor
from dcrec_spark.models.fitting.attach import propensities
from dcrec_spark.models.fitting.checks import require_number
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.fitted import AGREEMENT, PAIR, FittedOutcome, inbox_idx
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.spark.lineage import keep
from dcrec_spark.spark.planning import few_partitions

_PLACES = ["user_idx", "item_idx"]
# Columns of the wanted pairs, by blocks of users and of items.
_OUTSIDE = {"item_idx": "long", "extrapolates": "boolean"}
_OF_USERS = {"item_idx": "long", "prediction": "double", "user_spread": "double"}
_OF_ITEMS = {"user_idx": "long", "item_spread": "double"}


def predict_intervals(fitted: FittedOutcome, pairs: DataFrame, ratings: DataFrame, coverage: float) -> DataFrame:
    """Return what :meth:`DeconfoundedMFModel.predictIntervals` returns, cached."""
    require_intervals(fitted, coverage)
    with few_partitions(pairs.sparkSession), FitResources() as resources:
        # Read several times; uncut, a long plan of the caller's would be repeated each time.
        wanted = resources.add(keep(fitted.pairs_of(pairs).distinct())).frame
        intervals, _ = intervals_of(fitted, wanted, ratings, float(coverage), resources)
        intervals = intervals.persist()
        intervals.count()
    return intervals


def require_intervals(fitted: FittedOutcome, coverage: object) -> None:
    """Refuse a coverage that is none, and families without intervals."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0.0 < coverage < 1.0:
        raise ValueError(
            f"coverage: found {coverage!r}, expected a share of the intervals between 0 and 1, such as 0.9"
        )
    _assessing(fitted)


def _assessing(fitted: FittedOutcome) -> Assessing:
    if not isinstance(fitted.family, Assessing):
        raise ConfigError(
            f"outcome={fitted.params.getOrDefault('outcome')} has no intervals: they are those of "
            "least squares, outcome=weighted or probabilistic"
        )
    return fitted.family


def intervals_of(
    fitted: FittedOutcome, wanted: DataFrame, ratings: DataFrame, coverage: float, resources: FitResources
) -> tuple[DataFrame, Noise]:
    """Return ``user_id, item_id, prediction, low, high, extrapolates`` of the wanted pairs, and the ratings' noise.

    The frame lives as long as the resources, in which ``wanted`` is kept already.
    """
    fitted.require_pairs(ratings)
    rated = resources.add(keep(fitted.observed(ratings))).frame
    known = fitted.pairs_of(rated)
    stranger = known.join(fitted.users.select(F.col("id").alias("user_id")), "user_id", "left_anti").first()
    if stranger:
        raise DataError(
            f"ratings has user {cut(stranger['user_id'])}, who is not in the model: an item's interval depends on all "
            "who rated it; fold in new users and ask the extended model, not one of the new users alone"
        )
    fitted.require_known(wanted, known, "assess")
    layout = fitted.lay_out_pairs(wanted, rated, resources, everyone=True)
    intervals, level = _intervals(fitted, layout, coverage, resources)
    for name, table in (("user", fitted.users), ("item", fitted.items)):
        ids = table.select(F.col("idx").alias(f"{name}_idx"), F.col("id").alias(f"{name}_id"))
        intervals = intervals.join(ids, f"{name}_idx")
    return intervals.select(*PAIR, "prediction", "low", "high", "extrapolates"), level


def _intervals(
    fitted: FittedOutcome, layout: Layout, coverage: float, resources: FitResources
) -> tuple[DataFrame, Noise]:
    """``user_idx, item_idx, prediction, low, high, extrapolates`` of each wanted pair, and the noise of the ratings."""
    outside = None
    if fitted.exposure is not None:
        kernel = partial(beyond, size=(layout.items.n_rows, layout.items.n_blocks))
        outside = by_exposure(fitted, fitted.exposure, layout, kernel, _OUTSIDE, resources)
    layout = fitted.with_exposure_term(layout, resources)
    users, items = _assessed(fitted, layout, resources)
    disagreeing = int(users.sums["disagreeing"])
    if disagreeing:  # items move on after their last turn, and may differ
        raise DataError(
            f"the ratings are not those that the model was fitted with: {disagreeing} of its users would have other "
            "factors by them; give all ratings of the fit, and of the users that were folded in, and no others"
        )
    level = noise(users.sums, items.sums)
    if not (np.isfinite(level.freedom) and level.freedom > 0.0):
        raise ConfigError(
            f"the fit leaves {level.freedom:.3g} degrees of freedom of {float(users.sums['count']):.0f} ratings, and "
            "their noise can't be estimated: raise regParam, or lower the rank, and fit again"
        )
    assessed = memory_frame(layout, True, users, _OF_USERS)
    assessed = assessed.join(memory_frame(layout, False, items, _OF_ITEMS), _PLACES)
    if outside is None:
        assessed = assessed.withColumn("extrapolates", F.lit(None).cast("boolean"))
    else:
        assessed = assessed.join(outside, _PLACES)
    variance = F.lit(level.variance) * (F.lit(1.0 / level.weight) + F.col("user_spread") + F.col("item_spread"))
    width = F.lit(float(ndtri(0.5 + coverage / 2.0))) * F.sqrt(variance)
    low, high = (F.col("prediction") - width).alias("low"), (F.col("prediction") + width).alias("high")
    return assessed.select(*_PLACES, "prediction", low, high, "extrapolates"), level


def _assessed(fitted: FittedOutcome, layout: Layout, resources: FitResources) -> tuple[State, State]:
    family = fitted.family
    steps = family.steps(layout, precision="float64")
    tolerance = AGREEMENT[fitted.params.getOrDefault("precision")]
    with layout.environment():
        users, items = layout.place_both((fitted.users, fitted.items), family, resources)
        from_users = resources.add(layout.users.half_step(steps.start(True), previous=users))
        from_items = resources.add(layout.items.half_step(steps.start(False), previous=items))
        states = []
        for is_user, side, source, memory, other in (
            (True, layout.users, from_items, users, layout.items),
            (False, layout.items, from_users, items, layout.users),
        ):
            assessor = _assessing(fitted).assessor(steps, fitted.facts.shared, is_user)
            size = other.n_rows, other.n_blocks
            kernel = partial(assess, assessor=assessor, size=size, tolerance=tolerance, is_user=is_user)
            states.append(resources.add(side.remember(kernel, source, memory)))
    return states[0], states[1]


def assess(
    inputs: KernelInput, *, assessor: Assessor, size: tuple[int, int], tolerance: float, is_user: bool
) -> Update:
    """Assess the wanted pairs of one block, and count the rows that the tolerance does not allow to be the model's."""
    certainty = assessor(inputs)
    difference = certainty.solved - certainty.fitted
    distance, length = (np.linalg.norm(rows, axis=1) for rows in (difference, certainty.fitted))
    disagreeing = ~(distance <= tolerance * length)
    memory = {
        ROW: rows_of(inputs.block.held_out.row_ptr),
        "item_idx" if is_user else "user_idx": inbox_idx(inputs, size)[inputs.block.held_out.col],
        "user_spread" if is_user else "item_spread": certainty.spread,
    }
    if certainty.prediction is not None:
        memory["prediction"] = certainty.prediction
    sums = {**certainty.sums, "disagreeing": np.array(float(disagreeing.sum()))}
    return Update(np.empty((len(distance), 0)), sums, memory)


def beyond(inputs: KernelInput, *, size: tuple[int, int]) -> Update:
    """Say of each wanted pair of a block of users whether its p lies below that of all that the user has rated."""
    block = inputs.block
    smallest = smallest_of_rows(block.fitted.row_ptr, propensities(inputs, block.fitted, is_fitted=True))
    row = rows_of(block.held_out.row_ptr)
    beyond = propensities(inputs, block.held_out, is_fitted=False) < smallest[row]
    memory = {ROW: row, "item_idx": inbox_idx(inputs, size)[block.held_out.col], "extrapolates": beyond}
    return Update(np.empty((len(smallest), 0)), {}, memory)


_GAP, _ODDS = "__gap", "odds_to_change"
_PLACE, _WITHIN = "__place", "__gap_within_category"


def sure_lists(
    fitted: FittedOutcome,
    best: Callable[[int, int | None], DataFrame],
    n: int,
    ratings: DataFrame,
    coverage: float,
    most: int | None = None,
) -> DataFrame:
    """Return what :meth:`DeconfoundedMFModel.recommendationTable` returns, with intervals, cached.

    the n + 1 best unseen items ─┬─ intervals of the first n, and the noise of the ratings ─┐
                                 └─ the gap to what could take a place ─────────────────────┴─ odds to change

    Under a limit on each category an item outside may take the place of any in the list if its category is not full,
    else that of one of its own category. So one item more of each full category is ranked too. Only exchanges of two
    items matter: the lists that keep to such limits are a matroid, in which one that no exchange betters is the best.

    best : makes the so many best items of each user, with ``most`` of one ``category`` at most.
    """
    require_intervals(fitted, coverage)
    require_number("n", n)
    if most is not None:
        require_number("maxPerCategory", most)
    # Of n items n // most categories may be full.
    ranked = best(n + 1, None) if most is None else best(n + 1 + n // most, most + 1)
    with few_partitions(ranked.sparkSession), FitResources() as resources:
        ranked = _with_gaps(ranked) if most is None else _with_gaps_under_limit(ranked, most)
        if fitted.params.getOrDefault("exposureWeight") > 0:  # places differ by more than their scores
            ranked = ranked.withColumn(_GAP, F.lit(None).cast("double"))
        ranked = resources.add(keep(ranked.where(F.col("rank") <= n))).frame
        intervals, level = intervals_of(fitted, ranked.select(*PAIR), ratings, float(coverage), resources)
        sure = ranked.join(intervals.drop("prediction"), PAIR)
        deviation = float(np.sqrt(level.variance / level.weight))
        columns = [*ranked.columns, "low", "high", "extrapolates"]
        table = _with_odds(sure.select(*columns), deviation).persist()
        table.count()
    return table


def _with_gaps(ranked: DataFrame) -> DataFrame:
    """Add how far each place is above the next. Null where there is none."""
    following = F.lead("score").over(Window.partitionBy("user_id").orderBy("rank"))
    return ranked.withColumn(_GAP, F.col("score") - following)


def _with_gaps_under_limit(ranked: DataFrame, most: int) -> DataFrame:
    """Add the smallest gap of an exchange that changes who is in the list up to each place, under a limit."""
    of_user = Window.partitionBy("user_id").orderBy("rank")
    alike = Window.partitionBy("user_id", "category").orderBy("rank")
    place = F.when(F.col("category").isNotNull(), F.row_number().over(alike))
    within = F.when(place == most, F.col("score") - F.lead("score").over(alike))
    lists = ranked.withColumns({_PLACE: place, _WITHIN: within})
    lists = lists.where(F.col(_PLACE).isNull() | (F.col(_PLACE) <= most))
    lists = _with_gaps(lists.withColumn("rank", F.row_number().over(of_user).cast("long")))
    least = F.min(_WITHIN).over(of_user.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    return lists.withColumn(_GAP, F.least(_GAP, least)).drop("category", _PLACE, _WITHIN)


def _with_odds(gaps: DataFrame, deviation: float) -> DataFrame:
    """Turn the gap to the next place into odds. Null where there is no next place.

    deviation : of the noise of a rating. Two places change where one may fall by as much as the other one rises, half
    of the gap each.
    """

    def odds(gap: pd.Series) -> pd.Series:
        return pd.Series(odds_of_shift(gap.to_numpy(np.float64) / (2.0 * deviation)))

    of_gap = pandas_udf(odds, "double")  # type: ignore[call-overload]
    return gaps.withColumn(_ODDS, of_gap(_GAP)).drop(_GAP)
