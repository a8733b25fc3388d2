"""The job that ranks with a saved model: model (+ users) (+ ratings to leave out) -> recommendations.

extract      the model, the users to serve, and what they have rated
transform    validate the ratings, rank the catalogue for each user
load         recommendations, rejects, runs
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import InputConfig, RecommendJobConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.users import SETTING as USERS
from dcrec_spark.data.users import read_users
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.job import Context, Job, Outputs
from dcrec_spark.jobs.lists import ranked_lists
from dcrec_spark.jobs.outputs import recommendation_table, reject_table
from dcrec_spark.jobs.run_record import fingerprint
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.jobs.served_model import (
    as_trained,
    id_columns,
    load_served_model,
    require_ids_of,
    require_model_path,
    validated_to_serve,
)
from dcrec_spark.jobs.summary import input_line, model_line
from dcrec_spark.models.outcome.model import DeconfoundedMFModel


@dataclass(frozen=True)
class Inputs:
    """What is served, and to whom.

    ratings : pairs to leave out, as ``read_ratings`` gives them; None where nothing is. users : user_id; None for all.
    """

    saved: SavedModel
    ratings: DataFrame | None
    users: DataFrame | None


class Recommend(Job[RecommendJobConfig, Inputs, None]):
    """Recommend with a saved model to all of its users, or to a list of them; nothing is fitted."""

    config_type = RecommendJobConfig
    last_step = "rank and publish"

    def check(self, config: RecommendJobConfig) -> None:
        """Refuse a configuration without a model, or without the ratings that it wants left out."""
        require_model_path(config)
        if config.recommend.exclude_seen and not _names_ratings(config.input):
            raise ConfigError(
                "setting recommend.exclude_seen is true, and input.path is null: set input to the ratings that the "
                "users have given, or recommend.exclude_seen=false to recommend items that they have rated too"
            )

        if config.recommend.intervals and not config.recommend.exclude_seen:
            raise ConfigError(
                "setting recommend.intervals is true, and recommend.exclude_seen false: how sure a list is, is found "
                "from the ratings of the fit; set exclude_seen, and input to all of them, or recommend.intervals=false"
            )

    def extract(self, context: Context[RecommendJobConfig]) -> Inputs:
        """Load the model; open the ratings and the list of users, whose ids have to be of the model's kind."""
        config, spark = context.config, context.spark
        with context.reporter.step("load the model"):
            saved = load_served_model(context)
        ratings = users = None
        if config.recommend.exclude_seen:
            ratings = read_ratings(spark, config.input)
            require_ids_of(saved.model, ratings, "input", ("user", "item"))
        if config.recommend.users is not None:
            id_type = saved.model.userFactors.schema["id"].dataType
            users = read_users(spark, config.recommend.users, config.input, id_type)
            require_ids_of(saved.model, users, USERS, ("user",))
        return Inputs(saved, ratings, users)

    def transform(self, context: Context[RecommendJobConfig], inputs: Inputs) -> Outputs[None]:
        """Rank the catalogue for each user, without what that user has rated."""
        model, run = inputs.saved.model, context.run
        valid = None if inputs.ratings is None else validated_to_serve(context, inputs.ratings)
        users = None if inputs.users is None else _known_users(context, model, inputs.users)
        seen = None if valid is None else valid.ratings
        leave_out = None if seen is None else seen.select(*id_columns(model))
        ratings = as_trained(model, seen) if seen is not None and context.config.recommend.intervals else None
        ranked = ranked_lists(context, model, context.config.recommend, ratings, leave_out, users)
        tables = {"recommendations": recommendation_table(ranked, run)}
        if valid is not None:
            tables["rejects"] = reject_table(valid, run)
        return Outputs(tables, None, seen=seen)

    def plan(self, context: Context[RecommendJobConfig], inputs: Inputs) -> list[str]:
        """Name the ratings and the model."""
        return [input_line(context.config, inputs.ratings), model_line(inputs.saved)]


def _names_ratings(given: InputConfig) -> bool:
    if given.format in ("table", "jdbc"):
        return given.table is not None or "query" in given.options
    return given.path is not None


def _known_users(context: Context[RecommendJobConfig], model: DeconfoundedMFModel, users: DataFrame) -> DataFrame:
    """List the users to serve, each once, under the model's name of the column; note those that are unknown.

    Raises
    ------
    DataError : the model knows none of them.
    """
    run, path = context.run, context.config.recommend.users
    users = users.distinct().persist()
    context.resources.callback(users.unpersist)
    asked = users.count()
    known = users.join(model.userFactors.select(F.col("id").alias("user_id")), "user_id", "left_semi").count()
    if known == 0:
        raise DataError(f"{USERS} {path!r}: the model knows none of its {asked} users; are they those of the training?")
    run.counts |= {"users_asked": asked, "users_known": known}
    run.data_fingerprint = "+".join(filter(None, (run.data_fingerprint, fingerprint(users))))
    if known < asked:
        run.warnings.append(
            f"{asked - known} of the {asked} users in {USERS} are not in the model and get no recommendations; "
            "the job fold-in serves new users who have ratings"
        )
    return users.withColumnRenamed("user_id", model.getOrDefault("userCol"))
