"""The arrays of a block, as expressions over a user's frame: exposure counts, ratings, weights."""

from pyspark.ml.param import Params
from pyspark.sql import DataFrame

from dcrec_spark.models.fitting.checks import require_columns
from dcrec_spark.models.fitting.propensity import Propensity, require_propensities

WEIGHT_COLUMN = "__weight"


def exposure_values(count_column: str | None) -> dict[str, str]:
    """Return the counts of exposures, without a column each pair counts once."""
    return {"exposure_count": f"`{count_column}`" if count_column else "1.0D"}


def weighted_ratings(
    dataset: DataFrame, rating: str, propensity: Propensity | None
) -> tuple[DataFrame, dict[str, str]]:
    """Return the ratings, weighted by inverse propensities where there are any, and the arrays to make of them."""
    if propensity is None:
        return dataset, {"rating": f"`{rating}`"}
    weighted = dataset.withColumn(WEIGHT_COLUMN, propensity.weight(rating))
    return weighted, {"rating": f"`{rating}`", "weight": f"`{WEIGHT_COLUMN}`"}


def require_ratings(dataset: DataFrame, params: Params, propensity: Propensity | None) -> None:
    """Refuse new ratings that lack what a fitted model takes from them.

    Raises
    ------
    DataError : a column is missing or of the wrong type. A propensity that is none.
    """
    get = params.getOrDefault
    numbers = [get("ratingCol")]
    if propensity is not None and propensity.settings.column:
        numbers.append(propensity.settings.column)
    require_columns(dataset, [get("userCol"), get("itemCol")], numbers)
    if propensity is not None:
        require_propensities(dataset, propensity.settings)
