"""How sure recommended lists are: each place with its interval, and with what it would take to change who is in.

the n + 1 best unseen items ─┬─ intervals of the first n, and the noise of the ratings ─┐
                             └─ score minus that of the next place ─────────────────────┴─ odds to change
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dcrec_spark.kernels.sensitivity import odds_of_shift
from dcrec_spark.models.certainty.intervals import intervals_of, require_intervals
from dcrec_spark.models.explain.inputs import PAIR
from dcrec_spark.models.fitting.checks import require_places
from dcrec_spark.models.fitting.fitted import FittedOutcome
from dcrec_spark.models.fitting.scope import FitScope
from dcrec_spark.spark.lineage import keep
from dcrec_spark.spark.planning import few_partitions

_GAP, _ODDS = "__gap", "odds_to_change"


def sure_lists(
    fitted: FittedOutcome, best: Callable[[int], DataFrame], n: int, ratings: DataFrame, coverage: float
) -> DataFrame:
    """Return what :meth:`DeconfoundedMFModel.recommendationTable` returns, with how sure it is, cached.

    best : the so many best items of each user, as that method returns them.

    Raises
    ------
    DataError, ConfigError, ValueError : see :meth:`DeconfoundedMFModel.sureRecommendations`.
    """
    require_intervals(fitted, coverage)
    require_places(n)
    ranked = best(n + 1)
    with FitScope() as scope:
        scope.enter(few_partitions(ranked.sparkSession))
        following = F.lead("score").over(Window.partitionBy("user_id").orderBy("rank"))
        ranked = ranked.withColumn(_GAP, F.col("score") - following).where(F.col("rank") <= n)
        ranked = scope.add(keep(ranked)).frame
        found, level = intervals_of(fitted, ranked.select(*PAIR), ratings, float(coverage), scope)
        sure = ranked.join(found.drop("prediction"), PAIR)
        deviation = float(np.sqrt(level.variance / level.weight))
        columns = [*ranked.columns, "low", "high", "extrapolates"]
        table = _with_odds(sure.select(*columns), deviation).persist()
        table.count()
    return table


def _with_odds(gaps: DataFrame, deviation: float) -> DataFrame:
    """Turn the gap to the next place into odds; null where there is no next place.

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
