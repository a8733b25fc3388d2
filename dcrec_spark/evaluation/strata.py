"""Metrics by stratum: users, or items, with few, some and many training ratings.

A mean over all hides which users a model serves. A stratum has the users, or the items, whose numbers of training
ratings lie within its bounds. Equal numbers are never divided, so there may be fewer strata than wanted.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import PLAIN_COLUMNS, USUAL_METRICS, Columns, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate_groups
from dcrec_spark.evaluation.result import Metrics

_COUNT, _STRATUM = "__training_ratings", "__stratum"


class Stratum(NamedTuple):
    """Users or items with similarly many training ratings, and the metrics of their test ratings.

    side : "user" or "item". lowest, highest : training ratings of each. members : how many they are in the test.

    Examples
    --------
    >>> Stratum("item", 5, 17, 120, Metrics(MetricSettings(), {}, {})).numbers
    '5 to 17'
    """

    side: str
    lowest: int
    highest: int
    members: int
    metrics: Metrics

    @property
    def numbers(self) -> str:
        """The training ratings of each member in words: ``5 to 17``, or ``24`` where all have as many."""
        return f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest} to {self.highest}"


def bounds_of(count: Array, members: Array, most: int) -> list[tuple[int, int, int]]:
    """Divide numbers of training ratings into ``most`` strata of about equally many members: lowest, highest, members.

    count, members : (n,) arrays. The distinct numbers, rising, and how many users, or items, have each.
    """
    middle = np.cumsum(members) - members / 2.0
    part = np.floor(middle / members.sum() * most)
    of_parts = [part == p for p in np.unique(part)]
    return [(int(count[of].min()), int(count[of].max()), int(members[of].sum())) for of in of_parts]


def evaluate_strata(
    predictions: DataFrame,
    training: DataFrame,
    models: Mapping[str, str] | str = "prediction",
    columns: Columns = PLAIN_COLUMNS,
    settings: MetricSettings = USUAL_METRICS,
    most: int = 3,
) -> list[Stratum]:
    """Measure predictions by the activity of users, and by the popularity of items.

    predictions : as :func:`dcrec_spark.evaluate` takes them. Read several times, so persist what is dear to compute.
    training : the training ratings, with the same columns of users and items.
    models, columns, settings : as for :func:`dcrec_spark.evaluate`.
    most : strata of each side at most.

    Returns strata of users, then of items, those with the fewest training ratings first.
    Raises ConfigError: ``most`` is below 1. DataError: as by :func:`dcrec_spark.evaluate`.

    Examples
    --------
    >>> training = spark.createDataFrame([(1, 1, 4.0), (2, 1, 3.0), (2, 2, 5.0)], "user int, item int, rating double")
    >>> columns = "user int, item int, rating double, prediction double"
    >>> predictions = spark.createDataFrame([(1, 2, 5.0, 4.0), (2, 3, 2.0, 4.0)], columns)
    >>> [(part.side, part.lowest, part.highest, part.members) for part in evaluate_strata(predictions, training)]
    [('user', 1, 1, 1), ('user', 2, 2, 1), ('item', 0, 0, 1), ('item', 1, 1, 1)]
    """
    if most < 1:
        raise ConfigError(f"most: found {most}, expected a number of strata from 1 on")
    counted, parts = predictions, []
    for side, column in (("user", columns.user), ("item", columns.item)):
        of_side = f"{_COUNT}_{side}"
        counts = training.groupBy(quoted(column)).agg(F.count("*").alias(of_side))
        counted = counted.join(counts, column, "left").fillna(0, [of_side])
        # One row for each distinct number, of which there are few: together they can't exceed the ratings.
        sizes = counted.groupBy(of_side).agg(F.count_distinct(quoted(column))).toPandas().sort_values(of_side)
        numbers, members = sizes.to_numpy().T
        parts += [(side, *stratum) for stratum in bounds_of(numbers, members, most)]
    # Each row is in a stratum of users and in one of items; they are numbered together.
    in_part = [
        F.when(F.col(f"{_COUNT}_{side}").between(lowest, highest), F.lit(number))
        for number, (side, lowest, highest, _) in enumerate(parts)
    ]
    rows = counted.withColumn(_STRATUM, F.explode(F.array_compact(F.array(*in_part))))
    metrics = evaluate_groups(rows, F.col(_STRATUM), models, columns, settings)
    return [Stratum(*part, metrics[number]) for number, part in enumerate(parts)]
