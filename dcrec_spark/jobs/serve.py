"""Jobs that rank with a saved model, without a new fit: for users that it knows, and for new ones.

Recommend. extract      the model, the users to serve, and what they have rated
           transform    validate the ratings, rank the catalogue for each user
           load         recommendations, rejects, runs, and the tables of recommend.extra
Fold-in.   extract      the model and the ratings of new users
           transform    validate, estimate the users' factors with the items' fixed, rank
           load         recommendations, user_factors, rejects, runs
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.jobs import FoldInConfig, RecommendJobConfig
from dcrec_spark.data.listed import read_listed
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.catalogue import note_catalogue, open_catalogue
from dcrec_spark.jobs.features import Features, open_features
from dcrec_spark.jobs.inputs import (
    ServedInputs,
    ServingJob,
    as_trained,
    load_served_model,
    open_ratings,
    require_ids_of,
    validate_input,
)
from dcrec_spark.jobs.job import Catalogue, Context, Outputs
from dcrec_spark.jobs.run_record import fingerprint
from dcrec_spark.jobs.tables import factor_tables, list_tables, reject_table, require_exposure
from dcrec_spark.models.outcome.blend import AnyModel

USERS = "recommend.users"


@dataclass(frozen=True)
class RecommendInputs(ServedInputs):
    """The saved model, pairs to leave out, and whom to serve. users : user_id. None: all."""

    users: DataFrame | None
    catalogue: Catalogue


class Recommend(ServingJob[RecommendJobConfig, RecommendInputs, None]):
    """Recommend with a saved model to all of its users, or to a list of them, without a new fit."""

    config_type = RecommendJobConfig
    last_step = "rank and publish"

    def check(self, config: RecommendJobConfig) -> None:
        super().check(config)
        recommend = config.recommend
        given = config.input
        of_table = given.format in ("table", "jdbc")
        named = given.table is not None or "query" in given.options if of_table else given.path is not None
        if recommend.exclude_seen and not named:
            raise ConfigError(
                "setting recommend.exclude_seen is true, and input.path is null: set input to the ratings that the "
                "users have given, or recommend.exclude_seen=false to recommend items that they have rated too"
            )
        for extra in {"intervals", "overlap"} & set(recommend.extra):
            if not recommend.exclude_seen:
                raise ConfigError(
                    f"setting recommend.extra has {extra}, and recommend.exclude_seen is false: {extra} needs all "
                    "ratings of the fit; set exclude_seen, and input to all of them, or leave it out"
                )

    def extract(self, context: Context[RecommendJobConfig]) -> RecommendInputs:
        config, spark = context.config, context.spark
        with context.reporter.step("load the model"):
            saved = load_served_model(context)
        require_exposure(config.recommend, saved.model.exposureModel is not None, f"the model {saved.source.path}")
        ratings = users = None
        if config.recommend.exclude_seen:
            ratings = open_ratings(context)
            require_ids_of(saved.model, ratings, "input", ("user", "item"))
        if config.recommend.users is not None:
            id_type = saved.model.tables()[0].schema["id"].dataType
            users = read_listed(spark, USERS, config.recommend.users, config.input, {"user": id_type})
            require_ids_of(saved.model, users, USERS, ("user",))
        known = {side: table.select("id") for side, table in zip(("user", "item"), saved.model.tables(), strict=True)}
        catalogue = open_catalogue(context, known)
        return RecommendInputs(saved, ratings, users, catalogue)

    def transform(self, context: Context[RecommendJobConfig], inputs: RecommendInputs) -> Outputs[None]:
        model, run, catalogue, recommend = inputs.saved.model, context.run, inputs.catalogue, context.config.recommend
        note_catalogue(run, catalogue, model)
        valid = None if inputs.ratings is None else validate_input(context, inputs.ratings)
        users = None if inputs.users is None else _known_users(context, model, inputs.users)
        left_out = catalogue.left_out(None if valid is None else valid.ratings)
        needs_ratings = bool({"intervals", "overlap"} & set(recommend.extra))
        ratings = as_trained(model, valid.ratings) if needs_ratings and valid is not None else None
        tables = list_tables(context, model, recommend, catalogue, left_out, ratings, users)
        if valid is not None:
            tables["rejects"] = reject_table(valid, run)
        training = None if valid is None else valid.ratings
        return Outputs(tables, None, {}, left_out, catalogue, recommend.top_n, training)


def _known_users(context: Context[RecommendJobConfig], model: AnyModel, users: DataFrame) -> DataFrame:
    """List the users to serve, each once, and note unknown ones. Raises DataError: the model knows none."""
    run, path = context.run, context.config.recommend.users
    users = context.cache(users.distinct())
    listed = users.count()
    known = users.join(model.tables()[0].select(F.col("id").alias("user_id")), "user_id", "left_semi").count()
    if known == 0:
        raise DataError(
            f"{USERS} {path!r}: the model knows none of its {listed} users; are they those of the training?"
        )
    run.counts |= {"users_asked": listed, "users_known": known}
    run.data_fingerprint = "+".join(filter(None, (run.data_fingerprint, fingerprint(users))))
    if known < listed:
        run.warnings.append(
            f"{listed - known} of the {listed} users in {USERS} are not in the model and get no recommendations; "
            "the job fold-in serves new users who have ratings"
        )
    return users.withColumnRenamed("user_id", model.getOrDefault("userCol"))


@dataclass(frozen=True)
class FoldInInputs(ServedInputs):
    """The model, the ratings of the new users, the catalogue, the users' features."""

    ratings: DataFrame
    catalogue: Catalogue
    features: Features


class FoldIn(ServingJob[FoldInConfig, FoldInInputs, None]):
    """Recommend to users that a saved model does not know, by their ratings."""

    config_type = FoldInConfig
    last_step = "rank and publish"

    def extract(self, context: Context[FoldInConfig]) -> FoldInInputs:
        with context.reporter.step("load the model"):
            saved = load_served_model(context)
        ratings = open_ratings(context)
        require_ids_of(saved.model, ratings, "input", ("user", "item"))
        as_trained(saved.model, ratings)
        items = saved.model.tables()[1].select("id")
        catalogue = open_catalogue(context, {"user": ratings.select("user_id"), "item": items})
        features = open_features(context, ratings, ("user",))
        features.of_model(saved.model, [], ("user",))
        return FoldInInputs(saved, ratings, catalogue, features)

    def transform(self, context: Context[FoldInConfig], inputs: FoldInInputs) -> Outputs[None]:
        model, recommend, run = inputs.saved.model, context.config.recommend, context.run
        valid = validate_input(context, inputs.ratings)
        inputs.features.note(run, valid.ratings)
        items = model.tables()[1].select(F.col("id").alias("item_id"))
        if unknown := valid.ratings.join(items, "item_id", "left_anti").count():
            run.counts["ratings_of_unknown_items"] = unknown
            run.warnings.append(
                f"{unknown} of the {run.counts['ratings']} ratings are of items that the model does not know; they "
                "were left out, and a user with no others is served as one who has rated nothing"
            )
        features = inputs.features.of_model(model, run.warnings, ("user",)).of.get("user")
        new_users = model.foldInUsers(as_trained(model, valid.ratings), features)
        context.resources.callback(new_users.unpersist)
        of_new_users = model.withUsers(new_users)
        context.resources.callback(of_new_users.release)
        run.counts["users"] = of_new_users.numUsers
        note_catalogue(run, inputs.catalogue, model)
        left_out = inputs.catalogue.left_out(valid.ratings if recommend.exclude_seen else None)
        tables = {
            **list_tables(context, of_new_users, recommend, inputs.catalogue, left_out),
            "user_factors": factor_tables(of_new_users, run)["user_factors"],
            "rejects": reject_table(valid, run),
        }
        return Outputs(tables, None, {}, left_out, inputs.catalogue, recommend.top_n)
