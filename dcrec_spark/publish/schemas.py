"""Schemas of all published tables.

Ids are published as they came in, so tables that hold ids take the ids' type, ``string`` or ``long``.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dcrec_spark.errors import DcrecError

_FACTORS = ArrayType(DoubleType(), containsNull=False)
_WHICH_RUN = [
    StructField("model_version", StringType(), nullable=False),
    StructField("run_id", StringType(), nullable=False),
    StructField("run_date", DateType(), nullable=False),
]


# How sure a place is: extrapolates is null without an exposure model, odds_to_change where no other item is left.
_HOW_SURE = [
    StructField("low", DoubleType(), nullable=False),
    StructField("high", DoubleType(), nullable=False),
    StructField("extrapolates", BooleanType(), nullable=True),
    StructField("odds_to_change", DoubleType(), nullable=True),
]


def recommendations(user_type: DataType, item_type: DataType, intervals: bool = False) -> StructType:
    """Recommendations: one row per user and rank (from 1), unique on (run_date, user_id, rank).

    score = preference + confounder + the model's intercept, which stands in run.json. With recommend.intervals=true
    there are low and high, the ends of a 90 % interval; extrapolates; and odds_to_change, from which odds on a hidden
    reason may change who is among the first ``rank``.
    """
    return StructType(
        [
            StructField("user_id", user_type, nullable=False),
            StructField("rank", IntegerType(), nullable=False),
            StructField("item_id", item_type, nullable=False),
            StructField("score", DoubleType(), nullable=False),
            StructField("preference", DoubleType(), nullable=False),
            StructField("confounder", DoubleType(), nullable=False),
            *(_HOW_SURE if intervals else []),
            *_WHICH_RUN,
        ]
    )


def fallback(item_type: DataType) -> StructType:
    """One list for users without ratings: what all users together would like best, not what is seen most.

    Users who have a list are in ``recommendations``; this one is for all others. score = preference + confounder + the
    model's intercept, each a mean over all users.
    """
    return StructType([field for field in recommendations(item_type, item_type) if field.name != "user_id"])


def similar_items(item_type: DataType) -> StructType:
    """Items most alike, by their preference factors: one row per item and rank (from 1), unique on both.

    ``measure`` says what ``similarity`` is: cosine or inner_product.
    """
    return StructType(
        [
            StructField("item_id", item_type, nullable=False),
            StructField("rank", IntegerType(), nullable=False),
            StructField("similar_item_id", item_type, nullable=False),
            StructField("similarity", DoubleType(), nullable=False),
            StructField("measure", StringType(), nullable=False),
            *_WHICH_RUN,
        ]
    )


def overlap(side: str, id_type: DataType) -> StructType:
    """How much of each user, or of each item, the ratings of the fit show: one row for each that has any.

    With p, the probability that a rated pair is seen, by the exposure model without the pair's own vote: ratings are
    worth as much as ``effective_ratings`` equally likely ones; ``mean_rating`` is weighted by 1 / p, and lies between
    ``mean_low`` and ``mean_high`` if the true odds of seeing differ from the model's by a factor of at most ``odds``.
    """
    return StructType(
        [
            StructField(f"{side}_id", id_type, nullable=False),
            StructField("ratings", LongType(), nullable=False),
            StructField("effective_ratings", DoubleType(), nullable=False),
            StructField("smallest_propensity", DoubleType(), nullable=False),
            StructField("mean_rating", DoubleType(), nullable=False),
            StructField("mean_low", DoubleType(), nullable=False),
            StructField("mean_high", DoubleType(), nullable=False),
            StructField("odds", DoubleType(), nullable=False),
            *_WHICH_RUN,
        ]
    )


def changes(user_type: DataType, item_type: DataType) -> StructType:
    """Tell how ``recommendations`` differs from that of the run before: a row for each pair that came, went or moved.

    ``change`` is added, removed or moved. ``since_run_id`` is null where there was no run before, and every row is
    added.
    """
    return StructType(
        [
            StructField("user_id", user_type, nullable=False),
            StructField("item_id", item_type, nullable=False),
            StructField("change", StringType(), nullable=False),
            StructField("rank_before", IntegerType(), nullable=True),
            StructField("rank", IntegerType(), nullable=True),
            StructField("since_run_id", StringType(), nullable=True),
            *_WHICH_RUN,
        ]
    )


def vectors(id_type: DataType) -> StructType:
    """Vectors of users, or of items: one row each.

    The inner product of a user's and an item's is the score of the pair without the model's intercept, which stands in
    run.json, both parts and the biases included; in single precision, as indexes of nearest neighbours take it.
    """
    return StructType(
        [
            StructField("id", id_type, nullable=False),
            StructField("vector", ArrayType(FloatType(), containsNull=False), nullable=False),
            *_WHICH_RUN,
        ]
    )


def user_factors(id_type: DataType) -> StructType:
    """Factors of users, one row each. ``gamma`` weighs the confounder; a classical fit has null for the exposure.

    ``bias`` is null where the model has none.
    """
    gamma = StructField("gamma", DoubleType(), nullable=False)
    return _factors(id_type, [gamma])


def item_factors(id_type: DataType) -> StructType:
    """Factors of items, one row each. Exposure columns are null for a classical fit, ``bias`` without biases."""
    return _factors(id_type, [])


def _factors(id_type: DataType, of_side: list[StructField]) -> StructType:
    return StructType(
        [
            StructField("id", id_type, nullable=False),
            StructField("features", _FACTORS, nullable=False),
            StructField("bias", DoubleType(), nullable=True),
            *of_side,
            StructField("exposure_shape", _FACTORS, nullable=True),
            StructField("exposure_rate", _FACTORS, nullable=True),
            *_WHICH_RUN,
        ]
    )


METRICS = StructType(
    [
        StructField("run_id", StringType(), nullable=False),
        StructField("model", StringType(), nullable=False),
        StructField("split", StringType(), nullable=False),
        StructField("metric", StringType(), nullable=False),
        StructField("value", DoubleType(), nullable=False),
        StructField("ci_low", DoubleType(), nullable=True),
        StructField("ci_high", DoubleType(), nullable=True),
        StructField("n", LongType(), nullable=False),
    ]
)

REJECTS = StructType(
    [
        StructField("raw", StringType(), nullable=True),
        StructField("reasons", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("run_id", StringType(), nullable=False),
    ]
)

# One row for each trial of a search.
TRIALS = StructType(
    [
        StructField("search", StringType(), nullable=False),  # the same for the same data, split and metric
        StructField("key", StringType(), nullable=False),  # of the search and all settings of the trial
        StructField("run_id", StringType(), nullable=False),  # the run that fitted it
        StructField("trial", IntegerType(), nullable=False),
        StructField("parameters", StringType(), nullable=False),  # JSON of what was varied
        StructField("status", StringType(), nullable=False),  # done | failed
        StructField("error", StringType(), nullable=True),
        StructField("metric", StringType(), nullable=False),
        StructField("value", DoubleType(), nullable=True),
        StructField("ci_low", DoubleType(), nullable=True),
        StructField("ci_high", DoubleType(), nullable=True),
        StructField("n", LongType(), nullable=True),
        # The value, then that of each bootstrap resample; trials of one search met the same ones.
        StructField("resampled", ArrayType(DoubleType(), containsNull=False), nullable=False),
        StructField("metrics", MapType(StringType(), DoubleType(), valueContainsNull=False), nullable=False),
        StructField("sweeps", IntegerType(), nullable=True),
        StructField("seconds", DoubleType(), nullable=True),  # of stage 2
    ]
)

RUNS = StructType(
    [
        StructField("run_id", StringType(), nullable=False),
        StructField("run_date", DateType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("status", StringType(), nullable=False),
        StructField("exit_code", IntegerType(), nullable=False),
        StructField("error", StringType(), nullable=True),
        StructField("started_at", TimestampType(), nullable=False),
        StructField("finished_at", TimestampType(), nullable=False),
        StructField("model_version", StringType(), nullable=True),
        StructField("config_hash", StringType(), nullable=False),
        StructField("data_fingerprint", StringType(), nullable=True),
        StructField("configuration", StringType(), nullable=False),
        StructField("counts", MapType(StringType(), LongType(), valueContainsNull=False), nullable=False),
        StructField("timings", MapType(StringType(), DoubleType(), valueContainsNull=False), nullable=False),
        StructField("versions", MapType(StringType(), StringType(), valueContainsNull=False), nullable=False),
        StructField("warnings", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)


def conform(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """Check a frame's columns by name and by type, and put them in the order of the schema.

    Parameters
    ----------
    frame : DataFrame
        Rows of the table.
    schema : StructType
        Of the published table.
    table : str
        Its name, for the error.

    Returns
    -------
    DataFrame
        The columns of ``schema``.

    Raises
    ------
    DcrecError
        A column is missing, is too many, or has another type. Nothing is cast in silence.
    """
    types = {field.name: field.dataType for field in frame.schema}
    missing = [field.name for field in schema if field.name not in types]
    unexpected = [name for name in types if name not in schema.fieldNames()]
    if missing or unexpected:
        raise DcrecError(
            f"table {table}: missing columns {missing}, unexpected columns {unexpected}; expected {schema.fieldNames()}"
        )
    for field in schema:
        if types[field.name].simpleString() != field.dataType.simpleString():
            raise DcrecError(
                f"table {table}, column {field.name}: found {types[field.name].simpleString()}, "
                f"expected {field.dataType.simpleString()}"
            )
    return frame.select(*(F.col(name) for name in schema.fieldNames()))


def metric_table(spark: SparkSession, run_id: str, rows: Iterable[Sequence[object]]) -> DataFrame:
    """Make the published table ``metrics``.

    Parameters
    ----------
    spark : SparkSession
        Session that the table belongs to.
    run_id : str
        Run that measured.
    rows : iterable of (model, split, metric, value, ci_low, ci_high, n)
        As ``Metrics.rows`` gives them.

    Returns
    -------
    DataFrame
        One row for each of ``rows``, with the columns of :data:`METRICS`.
    """
    return spark.createDataFrame([(run_id, *row) for row in rows], METRICS)
