"""What an evaluation compares: models, and the test ratings that none of them has seen."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.baselines import item_statistics
from dcrec_spark.evaluation.variants import preference_alone
from dcrec_spark.jobs.evaluate.inputs import TEST
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.vectors import ScoringVectors

MODEL, COMPARED, PREFERENCE = "this model", "compared model", "preference alone"


@dataclass(frozen=True)
class Comparison:
    """A model, what it is compared with, and what both are measured by.

    Attributes
    ----------
    saved : the model that is evaluated.
    other : the second saved model, if one is named.
    relatives : by name, the vectors of what stands in the tables with it: the second model, or the preference part of
        the model itself; empty where it has no confounder part to leave out.
    training : user_id, item_id, rating, ...
    test : user_id, item_id, rating; each pair is of ids that all models know, and not in training.
    n_test : ratings in ``test``.
    overlap, unknown : test ratings that were left out because the pair is in training, or an id is not in a model.
    """

    saved: SavedModel
    other: SavedModel | None
    relatives: Mapping[str, ScoringVectors]
    training: DataFrame
    test: DataFrame
    n_test: int
    overlap: int
    unknown: int

    @property
    def model(self) -> DeconfoundedMFModel:
        """The model that is evaluated."""
        return self.saved.model

    @property
    def vectors(self) -> dict[str, ScoringVectors]:
        """The vectors of all models by name, of the evaluated one first."""
        return {MODEL: self.model.scoringVectors(), **self.relatives}

    @cached_property
    def statistics(self) -> DataFrame:
        """item_id, ratings, mean_rating, of the training."""
        return item_statistics(self.training)


def compare(
    saved: SavedModel, other: SavedModel | None, training: Validated, test: Validated, resources: ExitStack
) -> Comparison:
    """Compare on the usable part of the test, which is cached and released with ``resources``.

    Raises
    ------
    DataError : no test rating can be used.
    """
    models = [model.model for model in (saved, other) if model is not None]
    marked = _marked(test.ratings, training.ratings, models)
    is_seen, is_known = F.col("__seen"), F.col("__known")
    usable = marked.where(~is_seen & is_known).select("user_id", "item_id", "rating").persist()
    resources.callback(usable.unpersist)
    overlap, unknown = marked.agg(F.count_if(is_seen), F.count_if(~is_seen & ~is_known)).collect()[0]
    n_test = usable.count()
    if not n_test:
        raise DataError(
            f"setting {TEST}: none of its {test.counts['ratings']} ratings can be used: {overlap} are of pairs that "
            f"are in the training ratings too, and {unknown} of users or items that a model does not know"
        )
    relatives = _relatives(saved.model, other)
    return Comparison(saved, other, relatives, training.ratings, usable, n_test, int(overlap), int(unknown))


def _marked(test: DataFrame, training: DataFrame, models: list[DeconfoundedMFModel]) -> DataFrame:
    """user_id, item_id, rating, and whether the pair is in training and its ids are in all models."""
    pair = ["user_id", "item_id"]
    marked = test.select(*pair, "rating").join(training.select(*pair, F.lit(True).alias("__in_training")), pair, "left")
    for number, model in enumerate(models):
        for side, table in zip(("user", "item"), model.tables(), strict=True):
            ids = table.select(F.col("id").alias(f"{side}_id"), F.lit(True).alias(f"__{side}_{number}"))
            marked = marked.join(ids, f"{side}_id", "left")
    in_models = [F.col(name).isNotNull() for name in marked.columns if name.startswith(("__user", "__item"))]
    is_known = reduce(Column.__and__, in_models)
    return marked.withColumns({"__seen": F.col("__in_training").isNotNull(), "__known": is_known})


def _relatives(model: DeconfoundedMFModel, other: SavedModel | None) -> dict[str, ScoringVectors]:
    if other is not None:
        return {COMPARED: other.model.scoringVectors()}
    return {} if model.exposureModel is None else {PREFERENCE: preference_alone(model.scoringVectors())}
