"""Histograms of columns of large frames, as a few dozen rows of pandas."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted

# A column with at most so many distinct values has a bar for each; others have so many bins of equal width.
BINS = 20


@dataclass(frozen=True)
class Histogram:
    """Distribution of a column of numbers.

    bars : low, high, n. In order, empty bins too. mean, deviation, lowest, highest : of all values. n : how many.
    """

    bars: pd.DataFrame
    n: int
    mean: float
    deviation: float
    lowest: float
    highest: float


def histogram(frame: DataFrame, column: str) -> Histogram:
    """Count a column of numbers, of one row or more, by value, or in 20 equal bins if it has more than 20 values."""
    value = quoted(column).cast("double")
    moments = F.count(value), F.avg(value), F.stddev_pop(value), F.min(value), F.max(value)
    n, mean, deviation, lowest, highest = frame.agg(*moments).collect()[0]
    few = frame.select(value.alias("low")).groupBy("low").count().limit(BINS + 1).toPandas()
    if len(few) <= BINS:
        bars = few.sort_values("low", ignore_index=True).rename(columns={"count": "n"})
        bars.insert(1, "high", bars.low)
    else:
        width = (highest - lowest) / BINS
        place = F.least(F.lit(BINS - 1), F.floor((value - F.lit(lowest)) / F.lit(width))).cast("long").alias("bin")
        counts = frame.groupBy(place).count().toPandas().set_index("bin")["count"]
        low = lowest + width * np.arange(BINS)
        bars = pd.DataFrame(
            {"low": low, "high": low + width, "n": counts.reindex(range(BINS), fill_value=0).to_numpy()}
        )
    return Histogram(bars, int(n), float(mean), float(deviation), float(lowest), float(highest))


def counts_in_powers(frame: DataFrame, column: str) -> pd.DataFrame:
    """Rows by powers of two of a column of whole numbers: 0, 1, 2 to 3, 4 to 7, and so on.

    Returns low, high, n. In order, empty ones between filled ones too.
    """
    value = quoted(column)
    power = F.when(value > 0, F.floor(F.log2(value)) + 1).otherwise(0).cast("long").alias("power")
    counts = frame.groupBy(power).count().toPandas().set_index("power")["count"]
    if counts.empty:
        return pd.DataFrame({"low": [], "high": [], "n": []}, dtype="int64")
    powers = range(int(counts.index.min()), int(counts.index.max()) + 1)
    return pd.DataFrame(
        {
            "low": [2 ** (p - 1) if p else 0 for p in powers],
            "high": [2**p - 1 for p in powers],
            "n": counts.reindex(powers, fill_value=0).to_numpy(),
        }
    )
