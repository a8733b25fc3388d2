"""Schemas of all published tables.

Ids are published as they came in, so tables that hold ids take the ids' type, ``string`` or ``long``.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType, StructField, StructType

from dcrec_spark.errors import DcrecError

_TYPES: dict[str, DataType] = {
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bool": T.BooleanType(),
    "text": T.StringType(),
    "date": T.DateType(),
    "time": T.TimestampType(),
    "floats": T.ArrayType(T.FloatType(), containsNull=False),
    "doubles": T.ArrayType(T.DoubleType(), containsNull=False),
    "texts": T.ArrayType(T.StringType(), containsNull=False),
    "counts": T.MapType(T.StringType(), T.LongType(), valueContainsNull=False),
    "numbers": T.MapType(T.StringType(), T.DoubleType(), valueContainsNull=False),
    "names": T.MapType(T.StringType(), T.StringType(), valueContainsNull=False),
}
_OF_RUN = ", model_version text, run_id text, run_date date"


def _table(columns: str, **ids: DataType) -> StructType:
    """Return a schema: ``"name type"`` for each column, ``type?`` if it may be null. ids : further names of types."""
    types = _TYPES | ids
    fields = [column.split() for column in columns.split(",")]
    return StructType([StructField(name, types[kind.rstrip("?")], kind.endswith("?")) for name, kind in fields])


def recommendations(user_type: DataType, item_type: DataType, intervals: bool = False) -> StructType:
    """Recommendations: one row per user and rank (from 1), unique on (run_date, user_id, rank).

    score = preference + confounder + the model's intercept, which is in run.json. With intervals in recommend.extra
    there are low and high, the ends of a 90 % interval. Extrapolates. And odds_to_change, from which odds on a hidden
    reason may change who is among the first ``rank``.
    """
    # extrapolates is null without an exposure model, odds_to_change if no other item is left.
    certainty = ", low double, high double, extrapolates bool?, odds_to_change double?" if intervals else ""
    columns = "user_id user, rank int, item_id item, score double, preference double, confounder double"
    return _table(columns + certainty + _OF_RUN, user=user_type, item=item_type)


def fallback(item_type: DataType) -> StructType:
    """One list for users without ratings: what all users together would like best, not what they see most.

    Users who have a list are in ``recommendations``. This one is for all others. score = preference + confounder + the
    model's intercept, each a mean over all users.
    """
    return StructType([field for field in recommendations(item_type, item_type) if field.name != "user_id"])


def similar_items(item_type: DataType) -> StructType:
    """Items most alike by preference factors: unique on item and rank (from 1). measure : cosine or inner_product."""
    columns = "item_id item, rank int, similar_item_id item, similarity double, measure text"
    return _table(columns + _OF_RUN, item=item_type)


def overlap(side: str, id_type: DataType) -> StructType:
    """Overlap of each user, or of each item: one row for each with ratings in the fit.

    p is the probability that a rated pair is seen, by the exposure model without the pair's own exposure. Ratings are
    worth as much as ``effective_ratings`` equally likely ones. ``mean_rating`` is weighted by 1 / p. It lies between
    ``mean_low`` and ``mean_high`` if the true odds of seeing differ from the model's by a factor of at most ``odds``.
    """
    columns = (
        f"{side}_id id, ratings long, effective_ratings double, smallest_propensity double, mean_rating double, "
        "mean_low double, mean_high double, odds double"
    )
    return _table(columns + _OF_RUN, id=id_type)


def changes(user_type: DataType, item_type: DataType) -> StructType:
    """List changes of ``recommendations`` since the run before: one row per pair that was added, removed or moved.

    ``change`` is added, removed or moved. ``since_run_id`` is null where there was no run before, and every row is
    added.
    """
    columns = "user_id user, item_id item, change text, rank_before int?, rank int?, since_run_id text?"
    return _table(columns + _OF_RUN, user=user_type, item=item_type)


def vectors(id_type: DataType) -> StructType:
    """Vectors of users, or of items: one row each.

    The inner product of a user's and an item's is the score of the pair without the model's intercept, which is in
    run.json, both parts and the biases included. In single precision, as indexes of nearest neighbours take it.
    """
    return _table("id id, vector floats" + _OF_RUN, id=id_type)


def factors(side: str, id_type: DataType) -> StructType:
    """Factors of users, or of items: one row each.

    ``gamma``, of users alone, weighs the confounder. ``covariates``: composition of the exposure, then given features,
    scaled. ``slopes``: on the other side's covariates. Both are empty where the model has none. Exposure columns are
    null without the confounder, ``bias`` without biases.
    """
    gamma = "gamma double, " if side == "user" else ""
    columns = "id id, features doubles, bias double?, slopes doubles, covariates doubles, "
    return _table(f"{columns}{gamma}exposure_shape doubles?, exposure_rate doubles?{_OF_RUN}", id=id_type)


METRICS = _table(
    "run_id text, model text, split text, metric text, value double, ci_low double?, ci_high double?, n long"
)
REJECTS = _table("raw text?, reasons texts, run_id text")
# search : the same for the same data, split and metric. key : of the search and of all settings of the trial. run_id :
# the run that fitted it. parameters : JSON of what was varied. status : done or failed. resampled : the value, then
# that of each bootstrap resample, which are the same for all trials of a search. seconds : of stage 2.
TRIALS = _table(
    "search text, key text, run_id text, trial int, parameters text, status text, error text?, metric text, "
    "value double?, ci_low double?, ci_high double?, n long?, resampled doubles, metrics numbers, sweeps int?, "
    "seconds double?"
)
# staged_at : when the row was written, just before the run was published. parameters : numbers of the model that all
# pairs share, from which docs/how-to/read-the-tables.md makes scores.
RUNS = _table(
    "run_id text, run_date date, name text, status text, exit_code int, error text?, started_at time, "
    "staged_at time, model_version text?, config_hash text, data_fingerprint text?, configuration text, "
    "counts counts, timings numbers, versions names, warnings texts, parameters numbers"
)


def differing_columns(found: StructType, expected: StructType) -> str | None:
    """Say which columns differ by name or type. None: none does."""
    there, wanted = ({field.name: field.dataType.simpleString() for field in of} for of in (found, expected))
    names = sorted(name for name in there.keys() | wanted if there.get(name) != wanted.get(name))
    one, other = (", ".join(f"{name} {of.get(name, 'is not there')}" for name in names) for of in (there, wanted))
    return f"found {one}; expected {other}" if names else None


def conform(frame: DataFrame, schema: StructType, table: str) -> DataFrame:
    """Put columns in the order of the schema. Raises DcrecError: one is missing, unexpected, or of another type."""
    differing = differing_columns(frame.schema, schema)
    if differing is not None:
        raise DcrecError(f"table {table}: {differing}")
    return frame.select(*(F.col(name) for name in schema.fieldNames()))
