"""The examples in the docstrings of the public classes are true, in a session of the reader's."""

import doctest

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.models.exposure import estimator as exposure_estimator
from dcrec_spark.models.exposure import model as exposure_model
from dcrec_spark.models.outcome import estimator as outcome_estimator
from dcrec_spark.models.outcome import model as outcome_model


@pytest.mark.parametrize("module", [exposure_estimator, exposure_model, outcome_estimator, outcome_model])
def test_examples_are_true(spark: SparkSession, module: object) -> None:
    result = doctest.testmod(module, globs={"spark": spark})  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0
