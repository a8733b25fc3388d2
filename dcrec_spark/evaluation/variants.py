"""A model's relatives, as models, so that the same code scores and ranks them all.

They share the cached tables and the exposure model of the one they are made from, which has to outlive them; they are
not to be released themselves.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.models.outcome.model import DeconfoundedMFModel


def preference_alone(model: DeconfoundedMFModel) -> DeconfoundedMFModel:
    """The model without the confounder part of its scores: every gamma is 0."""
    users, items = model.tables()
    return _relative(model, users.withColumn("gamma", F.lit(0.0)), items)


def one_list_for_all(model: DeconfoundedMFModel, scores: DataFrame) -> DeconfoundedMFModel:
    """The model's users and items, ranked by a score of the items alone, plus the model's intercept.

    scores : DataFrame[item_id, score]; an item that is not in it scores 0.
    """
    users, items = model.tables()
    known = items.join(scores.select(F.col("item_id").alias("id"), "score"), "id", "left")
    features = F.array(F.coalesce("score", F.lit(0.0)).cast("double"))
    return _relative(
        model,
        users.withColumns({"features": F.array(F.lit(1.0)), "gamma": F.lit(0.0)}),
        known.withColumn("features", features).select(*items.columns),
    )


def _relative(model: DeconfoundedMFModel, users: DataFrame, items: DataFrame) -> DeconfoundedMFModel:
    relative = DeconfoundedMFModel(users, items, model.facts, model.exposureModel, owned=False)
    relative.numUsers, relative.numItems = model.numUsers, model.numItems
    return model._copyValues(relative)
