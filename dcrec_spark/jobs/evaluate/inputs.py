"""What an evaluation reads: one or two saved models, training and test ratings, titles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame

from dcrec_spark.config import EvaluateConfig, InputConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.titles import read_titles_file
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.inputs import load_served_model, open_ratings, require_ids_of
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.saved_model import SavedModel, load_model

T = TypeVar("T")

TEST = "evaluation.test_path"


@dataclass(frozen=True)
class Inputs:
    """What is opened, not yet read.

    Attributes
    ----------
    saved : the model that is evaluated.
    other : a second model to compare it with, if one is named.
    training, test : ratings as ``read_ratings`` gives them.
    titles : item_id, title; None where none are named.
    """

    saved: SavedModel
    other: SavedModel | None
    training: DataFrame
    test: DataFrame
    titles: DataFrame | None


def test_input(config: EvaluateConfig) -> InputConfig:
    """Where the test ratings are: the input with another place.

    Raises
    ------
    ConfigError : the configuration does not say, or reads by a query that would be the test's too.
    """
    path, given = config.evaluation.test_path, config.input
    if path is None:
        raise ConfigError(
            f"setting {TEST}: found null, expected held-out ratings, in the format and with the columns of input"
        )
    if given.format == "jdbc" and "query" in given.options:
        raise ConfigError(
            f"setting {TEST}: input.options.query says what is read, and would be read for the test too; name the "
            "ratings with input.table, and the test with evaluation.test_path"
        )
    return given.model_copy(update={"table" if given.format in ("table", "jdbc") else "path": path, "snapshot": None})


def open_inputs(context: Context[EvaluateConfig]) -> Inputs:
    """Load the models, and open the ratings, whose ids have to be of the models' kind.

    Raises
    ------
    ConfigError, DataError : names the setting whose path or ids cannot be used.
    """
    config, spark = context.config, context.spark
    saved, other = load_served_model(context), _second_model(context)
    training = open_ratings(context)
    test = naming_test(lambda: read_ratings(spark, test_input(config)))
    for model in filter(None, (saved, other)):
        require_ids_of(model.model, training, "input", ("user", "item"))
        require_ids_of(model.model, test, TEST, ("user", "item"))
    titles = None
    if config.evaluation.titles_path is not None:
        id_type = saved.model.itemFactors.schema["id"].dataType
        titles = read_titles_file(spark, config.evaluation.titles_path, id_type)
    return Inputs(saved, other, training, test, titles)


def naming_test(read: Callable[[], T]) -> T:
    """Return what ``read`` returns; an error about the data names the test's setting, not the input's."""
    try:
        return read()
    except DataError as error:
        raise DataError(f"setting {TEST}: {error}") from error


def _second_model(context: Context[EvaluateConfig]) -> SavedModel | None:
    path = context.config.evaluation.compare_with
    if path is None:
        return None
    other = load_model(context.spark, path, "evaluation.compare_with")
    context.resources.callback(other.model.release)
    return other
