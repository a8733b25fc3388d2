"""Histograms and other small summaries of frames that may be large; what comes back is a few dozen rows of pandas."""

from dataclasses import dataclass

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted

# With at most so many different values each of them has a bar of its own.
FEW_VALUES = 20
BINS = 20
_DEVIATIONS = 3.0


@dataclass(frozen=True)
class Histogram:
    """Distribution of a column of numbers.

    bars : low, high, n; in order, empty bins too. mean, deviation, lowest, highest : of all values. n : how many.
    """

    bars: pd.DataFrame
    n: int
    mean: float
    deviation: float
    lowest: float
    highest: float


def histogram(frame: DataFrame, column: str, bins: int = BINS) -> Histogram:
    """Histogram of a column of numbers.

    Parameters
    ----------
    frame : DataFrame
        Has the column, and one row or more.
    column : str
        Name of the column.
    bins : int
        Bins of equal width; a column of at most 20 different values has a bar for each instead.

    Returns
    -------
    Histogram
    """
    value = quoted(column).cast("double")
    moments = F.count(value), F.avg(value), F.stddev_pop(value), F.min(value), F.max(value)
    n, mean, deviation, lowest, highest = frame.agg(*moments).collect()[0]
    few = frame.select(value.alias("low")).groupBy("low").count().limit(FEW_VALUES + 1).toPandas()
    if len(few) <= FEW_VALUES:
        bars = few.sort_values("low", ignore_index=True).rename(columns={"count": "n"})
        bars.insert(1, "high", bars.low)
    else:
        bars = _bars(frame, value, lowest, highest, bins)
    return Histogram(bars, int(n), float(mean), float(deviation), float(lowest), float(highest))


def _bars(frame: DataFrame, value: Column, lowest: float, highest: float, bins: int) -> pd.DataFrame:
    width = (highest - lowest) / bins
    number = _bin(value, lowest, width, bins)
    counts = frame.groupBy(number).count().toPandas().set_index("bin")["count"]
    return pd.DataFrame(
        {
            "low": [lowest + width * b for b in range(bins)],
            "high": [lowest + width * (b + 1) for b in range(bins)],
            "n": counts.reindex(range(bins), fill_value=0).to_numpy(),
        }
    )


def counts_in_powers(frame: DataFrame, column: str) -> pd.DataFrame:
    """Rows by powers of two of a column of whole numbers: 0, 1, 2 to 3, 4 to 7, and so on.

    Parameters
    ----------
    frame : DataFrame
        Has the column.
    column : str
        Name of a column of whole numbers from 0 on.

    Returns
    -------
    pandas.DataFrame
        low, high, n; in order, empty ones between filled ones too.
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


@dataclass(frozen=True)
class Reliability:
    """Ratings by prediction.

    bins : prediction, rating (means), deviation (of the ratings), n; by prediction, without empty ones.
    slope : of the line of ratings over predictions; NaN where predictions are all the same.
    bias : mean of prediction - rating.
    """

    bins: pd.DataFrame
    slope: float
    bias: float


def reliability(predictions: DataFrame, column: str, bins: int = 15) -> Reliability:
    """Means of ratings and predictions where predictions are alike.

    Parameters
    ----------
    predictions : DataFrame
        The column, and ``rating``; one row or more.
    column : str
        Name of the column of predictions.
    bins : int
        Of equal widths, that span three standard deviations on both sides of the mean; what lies beyond is in the
        first and the last.

    Returns
    -------
    Reliability
    """
    value = quoted(column)
    moments = predictions.agg(
        F.avg(value), F.stddev_pop(value), F.min(value), F.max(value), F.covar_pop(value, "rating"), F.avg("rating")
    ).collect()[0]
    mean, deviation, lowest, highest, covariance, rating = map(float, moments)
    low, high = max(lowest, mean - _DEVIATIONS * deviation), min(highest, mean + _DEVIATIONS * deviation)
    number = _bin(value, low, (high - low) / bins, bins)
    table = predictions.groupBy(number).agg(
        F.avg(value).alias("prediction"),
        F.avg("rating").alias("rating"),
        F.stddev_samp("rating").alias("deviation"),
        F.count("*").alias("n"),
    )
    binned = table.toPandas().sort_values("bin", ignore_index=True).drop(columns="bin")
    slope = covariance / deviation**2 if deviation > 0 else float("nan")
    return Reliability(binned, slope, mean - rating)


def _bin(value: Column, low: float, width: float, bins: int) -> Column:
    if width <= 0:
        return F.lit(0).cast("long").alias("bin")
    place = F.floor((value - F.lit(low)) / F.lit(width)).cast("long")
    return F.greatest(F.lit(0), F.least(F.lit(bins - 1), place)).cast("long").alias("bin")
