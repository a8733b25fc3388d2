"""The job that ranks with a saved model: model (+ users) (+ ratings to leave out) -> recommendations.

extract      the model, the users to serve, and what they have rated
transform    validate the ratings, rank the catalogue for each user
load         recommendations, rejects, runs; where they are asked for user_overlap, item_overlap, fallback,
             similar_items, user_vectors, item_vectors, changes
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import InputConfig, RecommendJobConfig
from dcrec_spark.data.listed import read_listed
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.inputs import open_ratings
from dcrec_spark.jobs.job import Context, Job, Outputs
from dcrec_spark.jobs.lists import list_tables, ranked_lists, with_changes
from dcrec_spark.jobs.offer import Offer, note_offer, open_offer
from dcrec_spark.jobs.outputs import reject_table
from dcrec_spark.jobs.overlap import overlap_tables, require_exposure
from dcrec_spark.jobs.run_record import fingerprint
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.jobs.served_model import (
    as_trained,
    load_served_model,
    require_ids_of,
    require_model_path,
    validated_to_serve,
)
from dcrec_spark.jobs.summary import input_line, model_line
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

USERS = "recommend.users"


@dataclass(frozen=True)
class Inputs:
    """What is served, and to whom.

    ratings : pairs to leave out, as ``read_ratings`` gives them; None where nothing is. users : user_id; None for all.
    offer : what may be in the lists.
    """

    saved: SavedModel
    ratings: DataFrame | None
    users: DataFrame | None
    offer: Offer


class Recommend(Job[RecommendJobConfig, Inputs, None]):
    """Recommend with a saved model to all of its users, or to a list of them; nothing is fitted."""

    config_type = RecommendJobConfig
    last_step = "rank and publish"

    def check(self, config: RecommendJobConfig) -> None:
        """Refuse a configuration without a model, without the ratings that it wants left out."""
        require_model_path(config)
        if config.recommend.exclude_seen and not _names_ratings(config.input):
            raise ConfigError(
                "setting recommend.exclude_seen is true, and input.path is null: set input to the ratings that the "
                "users have given, or recommend.exclude_seen=false to recommend items that they have rated too"
            )
        found_from_ratings = {
            "intervals": (config.recommend.intervals, "how sure a list is"),
            "overlap": (config.recommend.overlap, "how much of a user was seen"),
        }
        for name, (is_wanted, what) in found_from_ratings.items():
            if is_wanted and not config.recommend.exclude_seen:
                raise ConfigError(
                    f"setting recommend.{name} is true, and recommend.exclude_seen false: {what}, is found from the "
                    f"ratings of the fit; set exclude_seen, and input to all of them, or recommend.{name}=false"
                )

    def extract(self, context: Context[RecommendJobConfig]) -> Inputs:
        """Load the model; open the ratings and the list of users, whose ids have to be of the model's kind."""
        config, spark = context.config, context.spark
        with context.reporter.step("load the model"):
            saved = load_served_model(context)
        require_exposure(config.recommend, saved.model.exposureModel is not None, f"the model {saved.source.path}")
        ratings = users = None
        if config.recommend.exclude_seen:
            ratings = open_ratings(context)
            require_ids_of(saved.model, ratings, "input", ("user", "item"))
        if config.recommend.users is not None:
            id_type = saved.model.userFactors.schema["id"].dataType
            users = read_listed(spark, USERS, config.recommend.users, config.input, {"user": id_type})
            require_ids_of(saved.model, users, USERS, ("user",))
        types = {side: t.schema["id"].dataType for side, t in zip(("user", "item"), saved.model.tables(), strict=True)}
        offer = open_offer(spark, config.recommend, config.input, types, context.resources)
        return Inputs(saved, ratings, users, offer)

    def transform(self, context: Context[RecommendJobConfig], inputs: Inputs) -> Outputs[None]:
        """Rank the catalogue for each user, without what that user has rated."""
        model, run, offer, recommend = inputs.saved.model, context.run, inputs.offer, context.config.recommend
        note_offer(run, offer, model)
        valid = None if inputs.ratings is None else validated_to_serve(context, inputs.ratings)
        users = None if inputs.users is None else _known_users(context, model, inputs.users)
        rated = None if valid is None else valid.ratings
        left_out = offer.left_out(rated)
        judges = recommend.intervals or recommend.overlap
        ratings = as_trained(model, rated) if judges and rated is not None else None
        judged = ratings if recommend.intervals else None
        ranked = ranked_lists(context, model, recommend, offer, left_out, judged, users)
        tables = list_tables(model, recommend, offer, ranked, run)
        if recommend.changes:
            tables = with_changes(context.spark, context.output, tables, run, context.resources)
        if recommend.overlap and ratings is not None:
            tables |= overlap_tables(context, model, recommend, ratings, users)
        if valid is not None:
            tables["rejects"] = reject_table(valid, run)
        return Outputs(tables, None, seen=left_out, offer=offer, length=recommend.top_n)

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
