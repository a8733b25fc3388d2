"""The models that an evaluation compares, and the test ratings that none of them was fitted to."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config import EvaluateConfig, InputConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.titles import read_titles_file
from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.inputs import (
    as_trained,
    load_served_model,
    name_setting,
    open_ratings,
    other_ratings,
    require_ids_of,
)
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.saved_model import SavedModel, load_model
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.vectors import ScoringVectors

TEST = "evaluation.test_path"
MODEL, COMPARED, BASELINE = "this model", "compared model", "baseline model"
_PAIR = ["user_id", "item_id"]


@dataclass(frozen=True)
class EvaluateInputs:
    """Inputs of an evaluation, opened but not read.

    saved : the evaluated model. other : a second model to compare it with, or None. training, test : ratings.
    titles : item_id, title. Or None.
    """

    saved: SavedModel
    other: SavedModel | None
    training: DataFrame
    test: DataFrame
    titles: DataFrame | None


def test_input(config: EvaluateConfig) -> InputConfig:
    """Settings of the test ratings: those of the input, with another path.

    Raises ConfigError: the configuration has no path, or reads by a query that would be the test's too.
    """
    path = config.evaluation.test_path
    if path is None:
        raise ConfigError(
            f"setting {TEST}: found null, expected held-out ratings, in the format and with the columns of input"
        )
    return other_ratings(config.input, path, TEST)


def open_inputs(context: Context[EvaluateConfig]) -> EvaluateInputs:
    """Load the models and open the ratings. Their ids have to be of the models' type.

    Raises ConfigError, DataError: names the setting whose path or ids cannot be used.
    """
    settings, spark = context.config.evaluation, context.spark
    saved, other = load_served_model(context), None
    if settings.compare_with is not None:
        other = load_model(spark, settings.compare_with, "evaluation.compare_with")
        context.resources.callback(other.model.release)
    training = open_ratings(context)
    test = name_setting(TEST, lambda: read_ratings(spark, test_input(context.config)))
    for model in filter(None, (saved, other)):
        require_ids_of(model.model, training, "input", ("user", "item"))
        require_ids_of(model.model, test, TEST, ("user", "item"))
    titles = None
    if settings.titles_path is not None:
        titles = read_titles_file(spark, settings.titles_path, saved.model.itemFactors.schema["id"].dataType)
    return EvaluateInputs(saved, other, training, test, titles)


@dataclass(frozen=True)
class Comparison:
    """A model, the model it is compared with, and the ratings that both are measured by."""

    saved: SavedModel  # the evaluated model
    other: SavedModel | None  # the second saved model, if one is named
    relatives: Mapping[str, ScoringVectors]  # of the second or the baseline model; empty for a classical model alone
    training: DataFrame  # user_id, item_id, rating, ...
    test: DataFrame  # user_id, item_id, rating; all models know the ids, and no pair is in training
    n_test: int
    overlap: int  # test ratings left out because their pair is in training
    unknown: int  # because a model lacks an id
    items_missing: int  # test items left out with all of their ratings

    @property
    def model(self) -> DeconfoundedMFModel:
        """The evaluated model."""
        return self.saved.model

    @property
    def vectors(self) -> dict[str, ScoringVectors]:
        """Name -> vectors of all models, the evaluated one first."""
        return {MODEL: self.model.scoringVectors(), **self.relatives}


def compare(inputs: EvaluateInputs, training: Validated, test: Validated, resources: ExitStack) -> Comparison:
    """Find the usable test ratings, and fit the baseline model where no second model is named.

    The test and the baseline model are released with ``resources``.

    Raises DataError: no test rating can be used, or the training ratings make no fit.
    """
    model = inputs.saved.model
    relatives: dict[str, DeconfoundedMFModel] = {}
    if inputs.other is not None:
        relatives = {COMPARED: inputs.other.model}
    elif model.exposureModel is not None:
        relatives = {BASELINE: _fit_baseline(model, training.ratings, resources)}
    marked = _mark(test.ratings, training.ratings, [model, *relatives.values()])
    is_seen, is_known = F.col("__seen"), F.col("__known")
    usable = marked.where(~is_seen & is_known).select(*_PAIR, "rating").persist()
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
    dropped = int(overlap), int(unknown), int(missing)
    return Comparison(inputs.saved, inputs.other, vectors, training.ratings, usable, n_test, *dropped)


def _mark(test: DataFrame, training: DataFrame, models: list[DeconfoundedMFModel]) -> DataFrame:
    """user_id, item_id, rating, and whether the pair is in training and all models know its ids."""
    marked = test.select(*_PAIR, "rating").join(
        training.select(*_PAIR, F.lit(True).alias("__in_training")), _PAIR, "left"
    )
    for number, model in enumerate(models):
        for side, table in zip(("user", "item"), model.tables(), strict=True):
            ids = table.select(F.col("id").alias(f"{side}_id"), F.lit(True).alias(f"__{side}_{number}"))
            marked = marked.join(ids, f"{side}_id", "left")
    in_models = [F.col(name).isNotNull() for name in marked.columns if name.startswith(("__user", "__item"))]
    is_known = reduce(Column.__and__, in_models)
    return marked.withColumns({"__seen": F.col("__in_training").isNotNull(), "__known": is_known})


def _fit_baseline(model: DeconfoundedMFModel, training: DataFrame, resources: ExitStack) -> DeconfoundedMFModel:
    try:
        baseline = baseline_of(model).fit(as_trained(model, training))
    except DataError as error:
        raise DataError(
            f"the baseline model could not be fitted to the training ratings (input): {error}; are they those of the "
            "model? evaluation.compare_with names another model to compare with"
        ) from error
    resources.callback(baseline.release)
    return baseline


def baseline_of(model: DeconfoundedMFModel) -> DeconfoundedMF:
    """Estimator of the baseline model: the settings of the model, without a confounder.

    Leaving the confounder part out of a model's scores would make no fair baseline: the other part was fitted next to
    it.
    """
    fitted_with = {param.name: value for param, value in model.extractParamMap().items()}
    without = {"adjustment": "none", "exposureModel": None, "initialModel": None, "validationIndicatorCol": None}
    without["exposureWeight"] = 0.0
    return DeconfoundedMF(**{**fitted_with, **without})
