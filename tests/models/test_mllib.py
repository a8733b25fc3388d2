"""A user of MLlib's ALS who tries its parameters is told ours."""

import inspect

import pytest
from pyspark.ml.recommendation import ALS

from dcrec_spark.models.params import NEAREST, unknown_param
from dcrec_spark.settings.tables import EXPOSURE, OUTCOME, params


def test_every_parameter_of_als_is_ours_too_or_has_a_nearest_one_that_is() -> None:
    of_als = {name for name in inspect.signature(ALS.__init__).parameters if name != "self"}
    ours = params(OUTCOME).keys() | params(EXPOSURE).keys()
    assert of_als <= params(OUTCOME).keys() | NEAREST.keys()
    assert all(set(names) <= ours for groups in NEAREST.values() for names in groups)


@pytest.mark.parametrize(
    ("settings", "name", "words"),
    [
        (EXPOSURE, "regParam", "nearest to it here: ratePrior"),
        (OUTCOME, "blockSize", "nearest to it here: numBlocks"),
        (OUTCOME, "implicitPrefs", "nearest to it here: outcome (weighted is fitted to all pairs"),
        (EXPOSURE, "implicitPrefs", "explainParams() lists those it has"),
        (OUTCOME, "reg_param", "did you mean regParam?"),
        (OUTCOME, "ranc", "did you mean rank?"),
        (OUTCOME, "zzz", "explainParams() lists those it has"),
    ],
)
def test_the_sentence_names_the_nearest(settings: tuple[object, ...], name: str, words: str) -> None:
    sentence = unknown_param("Model", name, list(params(settings)))  # type: ignore[arg-type]
    assert sentence.startswith(f"Model has no parameter {name}")
    assert words in sentence
