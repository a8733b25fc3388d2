"""The job for new users: a saved model + their ratings -> their recommendations and factors; nothing is fitted again.

extract      the model and the ratings
transform    validate, estimate the users' factors with the items' held fixed, rank
load         recommendations, user_factors, rejects, runs
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import FoldInConfig
from dcrec_spark.jobs.inputs import open_ratings
from dcrec_spark.jobs.job import Context, Job, Outputs
from dcrec_spark.jobs.lists import ranked_lists
from dcrec_spark.jobs.offer import Offer, note_offer, open_offer
from dcrec_spark.jobs.outputs import factor_tables, recommendation_table, reject_table
from dcrec_spark.jobs.run_record import Run
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


@dataclass(frozen=True)
class Inputs:
    """The model, the ratings of the new users as ``read_ratings`` gives them, and what is on offer."""

    saved: SavedModel
    ratings: DataFrame
    offer: Offer


class FoldIn(Job[FoldInConfig, Inputs, None]):
    """Recommend to users whom a saved model does not know, by their ratings."""

    config_type = FoldInConfig
    last_step = "rank and publish"

    def check(self, config: FoldInConfig) -> None:
        """Refuse a configuration that names no model."""
        require_model_path(config)

    def extract(self, context: Context[FoldInConfig]) -> Inputs:
        """Load the model; open the ratings, which need its kind of ids and its columns."""
        with context.reporter.step("load the model"):
            saved = load_served_model(context)
        ratings = open_ratings(context)
        require_ids_of(saved.model, ratings, "input", ("user", "item"))
        as_trained(saved.model, ratings)
        config, types = context.config, {side: ratings.schema[f"{side}_id"].dataType for side in ("user", "item")}
        offer = open_offer(context.spark, config.recommend, config.input, types, context.resources)
        return Inputs(saved, ratings, offer)

    def transform(self, context: Context[FoldInConfig], inputs: Inputs) -> Outputs[None]:
        """Estimate the factors of the new users, and rank the catalogue for them."""
        model, config, run = inputs.saved.model, context.config, context.run
        valid = validated_to_serve(context, inputs.ratings)
        _note_unknown_items(run, model, valid.ratings)
        ratings = as_trained(model, valid.ratings)
        new_users = model.foldInUsers(ratings)
        context.resources.callback(new_users.unpersist)
        of_new_users = model.withUsers(new_users)
        context.resources.callback(of_new_users.release)
        run.counts["users"] = of_new_users.numUsers
        offer = inputs.offer
        note_offer(run, offer, model)
        left_out = offer.left_out(valid.ratings if config.recommend.exclude_seen else None)
        ranked = ranked_lists(context, of_new_users, config.recommend, offer, left_out)
        tables = {
            "recommendations": recommendation_table(ranked, run),
            "user_factors": factor_tables(of_new_users, run)["user_factors"],
            "rejects": reject_table(valid, run),
        }
        return Outputs(tables, None, seen=left_out, offer=offer, length=config.recommend.top_n)

    def plan(self, context: Context[FoldInConfig], inputs: Inputs) -> list[str]:
        """Name the ratings and the model."""
        return [input_line(context.config, inputs.ratings), model_line(inputs.saved)]


def _note_unknown_items(run: Run, model: DeconfoundedMFModel, ratings: DataFrame) -> None:
    items = model.itemFactors.select(F.col("id").alias("item_id"))
    unknown = ratings.join(items, "item_id", "left_anti").count()
    if unknown:
        run.counts["ratings_of_unknown_items"] = unknown
        run.warnings.append(
            f"{unknown} of the {run.counts['ratings']} ratings are of items that the model does not know; they were "
            "left out, and a user with no others is served as one who has rated nothing"
        )
