"""Intervals of recommended lists, and the odds of hidden selection that could change them.

the n + 1 best unseen items ─┬─ intervals of the first n, and the noise of the ratings ─┐
                             └─ the gap to what could take a place ─────────────────────┴─ odds to change

Under a limit on each category an item outside may take the place of any in the list if its category is not full. If it
is, it may take that of one of its own category. So one item more of each full category is ranked too. Exchanges of two
items are all that has to be looked at: the lists that keep to such limits are a matroid, in which one that no exchange
betters is the best.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dcrec_spark.kernels.sensitivity import odds_of_shift
from dcrec_spark.models.certainty.intervals import intervals_of, require_intervals
from dcrec_spark.models.fitting.checks import require_number
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.fitted import PAIR, FittedOutcome
from dcrec_spark.spark.lineage import keep
from dcrec_spark.spark.planning import few_partitions

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

    best : makes the so many best items of each user, with ``most`` of one ``category`` at most.
    """
    require_intervals(fitted, coverage)
    require_number("n", n)
    if most is not None:
        require_number("maxPerCategory", most)
    # Of n items n // most categories may be full.
    ranked = best(n + 1, None) if most is None else best(n + 1 + n // most, most + 1)
    with FitResources() as resources:
        resources.enter(few_partitions(ranked.sparkSession))
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
    columns = [field for field in gaps.schema if field.name != _GAP]
    schema = ", ".join([*(f"`{field.name}` {field.dataType.simpleString()}" for field in columns), f"{_ODDS} double"])

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            gap = batch[_GAP].to_numpy(zero_copy_only=False).astype(np.float64)
            odds = pa.array(odds_of_shift(gap / (2.0 * deviation)), from_pandas=True)
            yield batch.drop_columns([_GAP]).append_column(_ODDS, odds)

    return gaps.mapInArrow(add, schema)
