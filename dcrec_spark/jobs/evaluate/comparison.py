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
from dcrec_spark.jobs.evaluate.inputs import TEST
from dcrec_spark.jobs.evaluate.twin import fit_twin
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.vectors import ScoringVectors

MODEL, COMPARED, TWIN = "this model", "compared model", "classical twin"


@dataclass(frozen=True)
class Comparison:
    """A model, what it is compared with, and what both are measured by.

    Attributes
    ----------
    saved : the model that is evaluated.
    other : the second saved model, if one is named.
    relatives : by name, the vectors of what stands in the tables with it: the second model, or the classical twin;
        empty where neither is there, the model having no confounder.
    training : user_id, item_id, rating, ...
    test : user_id, item_id, rating; each pair is of ids that all models know, and not in training.
    n_test : ratings in ``test``.
    overlap, unknown : test ratings that were left out because the pair is in training, or an id is not in a model.
    items_missing : test items that were left out with all of their ratings.
    """

    saved: SavedModel
    other: SavedModel | None
    relatives: Mapping[str, ScoringVectors]
    training: DataFrame
    test: DataFrame
    n_test: int
    overlap: int
    unknown: int
    items_missing: int

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
    relatives = _relatives(saved.model, other, training.ratings, resources)
    marked = _marked(test.ratings, training.ratings, [saved.model, *relatives.values()])
    is_seen, is_known = F.col("__seen"), F.col("__known")
    usable = marked.where(~is_seen & is_known).select("user_id", "item_id", "rating").persist()
    resources.callback(usable.unpersist)
    items = F.count_distinct("item_id") - F.count_distinct(F.when(~is_seen & is_known, F.col("item_id")))
    overlap, unknown, missing = marked.agg(F.count_if(is_seen), F.count_if(~is_seen & ~is_known), items).collect()[0]
    n_test = usable.count()
    if not n_test:
        raise DataError(
            f"setting {TEST}: none of its {test.counts['ratings']} ratings can be used: {overlap} are of pairs that "
            f"are in the training ratings too, and {unknown} of users or items that a model does not know"
        )
    vectors = {name: model.scoringVectors() for name, model in relatives.items()}
    left_out = int(overlap), int(unknown), int(missing)
    return Comparison(saved, other, vectors, training.ratings, usable, n_test, *left_out)


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


def _relatives(
    model: DeconfoundedMFModel, other: SavedModel | None, training: DataFrame, resources: ExitStack
) -> dict[str, DeconfoundedMFModel]:
    if other is not None:
        return {COMPARED: other.model}
    return {} if model.exposureModel is None else {TWIN: fit_twin(model, training, resources)}
