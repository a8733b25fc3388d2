"""What the jobs that begin with a saved model share: the model that is named, and ratings under the names it knows."""

from contextlib import ExitStack

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import RunConfig
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.saved_model import SavedModel, load_model
from dcrec_spark.models.fitting.checks import require_same_ids
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.storage.files import open_files


def model_path(config: RunConfig) -> str:
    """Where the saved model is; ConfigError where that is not said."""
    if config.model.path is None:
        raise ConfigError(
            "setting model.path: found null, expected a saved model, the directory of a run, or an output directory"
        )
    return config.model.path


def load_to_serve(spark: SparkSession, path: str, output: str, kept: ExitStack) -> SavedModel:
    """The model that ``model.path`` names, released with ``kept``.

    Raises
    ------
    ConfigError : the job would publish where the model is published. DataError : as :func:`load_model`.
    """
    saved = load_model(spark, path, "model.path")
    kept.callback(saved.model.release)
    files, root = open_files(output, spark)
    if saved.source.path.startswith(f"{files.uri(root)}/"):
        raise ConfigError(
            f"setting output.path: {output!r} is where the model is published, and a run without a model would take "
            "its place there for all who read the current run; choose another directory"
        )
    return saved


def require_ids_of(model: DeconfoundedMFModel, given: DataFrame, where: str, sides: tuple[str, ...]) -> None:
    """Refuse ids of another kind than the model's, which Spark would cast in silence or match with nothing."""
    for side, table in zip(sides, model.tables(), strict=False):
        try:
            require_same_ids(side, given.select(F.col(f"{side}_id").alias("id")), table)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}; input.id_type does so for the input") from error


def as_trained(model: DeconfoundedMFModel, ratings: DataFrame) -> DataFrame:
    """Ratings under the names that the model's columns had when it was fitted.

    Raises
    ------
    ConfigError : the model needs a column that the input does not have.
    """
    rating = model.getOrDefault("ratingCol")
    count = model.exposureModel.getOrDefault("countCol") if model.exposureModel is not None else None
    propensity = model.facts.propensity.settings.column if model.facts.propensity is not None else None
    more = {role: name for role, name in (("count", count), ("propensity", propensity)) if name not in (None, rating)}
    missing = [role for role in more if role not in ratings.columns]
    if missing:
        raise ConfigError(
            f"setting input.columns.{missing[0]}: found null, expected the column of which the model has learned"
        )
    return ratings.select(*id_columns(model), *[F.col(r).alias(name) for r, name in {"rating": rating, **more}.items()])


def id_columns(model: DeconfoundedMFModel) -> list[Column]:
    """user_id and item_id under the model's names."""
    get = model.getOrDefault
    return [F.col("user_id").alias(get("userCol")), F.col("item_id").alias(get("itemCol"))]
