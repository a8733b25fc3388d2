"""Job for new users: a saved model and their ratings -> recommendations and factors, without a new fit.

extract      the model and the ratings
transform    validate, estimate the users' factors with the items' fixed, rank
load         recommendations, user_factors, rejects, runs
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.jobs import FoldInConfig
from dcrec_spark.jobs.catalogue import Catalogue, note_catalogue, open_catalogue
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
from dcrec_spark.jobs.job import Context, Outputs
from dcrec_spark.jobs.tables import factor_tables, list_tables, reject_table


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
        config, known = context.config, {"user": ratings.select("user_id"), "item": items}
        catalogue = open_catalogue(context.run, config.recommend, config.input, known, context.cache)
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
