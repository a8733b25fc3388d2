"""Setters, getters and wrong names, as a user of pyspark.ml expects them. No session is needed to set parameters.

What is refused is in the contract of every estimator; which values, in tests/settings.
"""

from typing import Any

import numpy as np
import pytest
from pyspark.ml.param.shared import HasMaxIter, HasPredictionCol, HasSeed, HasTol

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.settings.tables import EXPOSURE, OUTCOME, PRESETS, camel_case, params

ESTIMATORS: list[type[Any]] = [PoissonFactorization, DeconfoundedMF]
TABLES = {PoissonFactorization: params(EXPOSURE), DeconfoundedMF: params(OUTCOME)}


def method(verb: str, param: str) -> str:
    return f"{verb}{param[0].upper()}{param[1:]}"


def test_the_ends_of_the_ranges_are_allowed() -> None:
    estimator = DeconfoundedMF(rank=1, maxIter=0, tol=0.0, alpha=0.0, unobservedWeight=0.0, numBlocks=1)
    assert estimator.getAlpha() == 0.0
    assert PoissonFactorization(shapePrior=0.01, checkpointInterval=1).getShapePrior() == 0.01


def test_numbers_of_numpy_are_numbers() -> None:
    """A grid of parameters is often made with np.arange."""
    estimator = DeconfoundedMF(rank=np.int64(4), alpha=np.float32(0.5), regParam=3)
    found = [estimator.getOrDefault(name) for name in ("rank", "alpha", "regParam")]
    assert [(type(value), value) for value in found] == [(int, 4), (float, 0.5), (float, 3.0)]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_param_has_a_setter_that_can_be_chained_and_a_getter(estimator: type[Any]) -> None:
    subject = estimator()
    for name, setting in TABLES[estimator].items():
        assert getattr(subject, method("get", name))() == setting.default
        assert getattr(subject, method("set", name))(setting.default) is subject
        assert subject.isSet(name)


def test_a_model_has_the_getters_and_sets_only_how_it_answers() -> None:
    model: Any = PoissonFactorizationModel(None, None, [])  # type: ignore[arg-type]
    assert all(hasattr(model, method("get", name)) for name in TABLES[PoissonFactorization])
    assert model.setExposureCol("exposed").setUserCol("reader").getOrDefault("exposureCol") == "exposed"
    with pytest.raises(AttributeError, match="a fitted model keeps its rank: set it on the estimator"):
        model.setRank(3)
    assert not hasattr(DeconfoundedMFModel, "getExposureModel")  # a model's own, and no parameter there


def test_setters_check_as_the_constructor_does() -> None:
    with pytest.raises(TypeError, match="rank: found 0, expected a whole number >= 1 and <= 4096"):
        DeconfoundedMF().setRank(0)
    with pytest.raises(TypeError, match="alpha: found None, expected"):
        DeconfoundedMF().setParams(alpha=None)


def test_several_are_set_at_once_and_the_others_stay() -> None:
    estimator = DeconfoundedMF(rank=7, alpha=2.0).setParams(alpha=3.0, userCol="reader")
    assert (estimator.getRank(), estimator.getAlpha(), estimator.getUserCol()) == (7, 3.0, "reader")
    assert {param.name for param in estimator._paramMap} == {"rank", "alpha", "userCol"}
    with pytest.raises(TypeError, match="positional argument"):
        estimator.setParams(3)  # type: ignore[call-arg]


def test_counts_have_settings_of_their_own() -> None:
    """Those of the preset of jobs, and a signature to read."""
    estimator = DeconfoundedMF.forCounts(rank=3)
    expected = {camel_case(name): value for name, value in PRESETS["counts"].items()}
    assert {name: estimator.getOrDefault(name) for name in expected} == expected
    assert estimator.getRank() == 3
    with pytest.raises(TypeError, match="fitBiases"):
        DeconfoundedMF.forCounts(fitBiases=True)  # type: ignore[call-arg]


def test_maps_and_copies_hold_what_was_set() -> None:
    estimator = PoissonFactorization().setRank(4)
    copied = estimator.copy({estimator.seed: 9}).setMaxIter(2)
    assert (copied.getRank(), copied.getSeed(), copied.getMaxIter()) == (4, 9, 2)
    assert (estimator.getSeed(), estimator.getMaxIter()) == (0, 300)
    assert {param.name: value for param, value in copied.extractParamMap().items()}["rank"] == 4


def test_estimators_are_known_by_the_shared_params_of_mllib() -> None:
    """Code that looks for HasMaxIter, HasSeed and so on works with ours too."""
    for estimator in ESTIMATORS:
        assert all(issubclass(estimator, shared) for shared in (HasMaxIter, HasTol, HasSeed))
    assert issubclass(DeconfoundedMF, HasPredictionCol)


def test_a_name_of_mllib_is_told_ours() -> None:
    refusal = pytest.raises(TypeError, match=r"DeconfoundedMF has no parameter implicitPrefs.*: outcome")
    with refusal:
        DeconfoundedMF(implicitPrefs=True)  # type: ignore[call-arg]
    with refusal:
        DeconfoundedMF().setParams(implicitPrefs=True)


def test_an_exposure_model_comes_from_its_estimator_or_its_model() -> None:
    estimator = PoissonFactorization(rank=3)
    assert DeconfoundedMF(exposureModel=estimator).getExposureModel() is estimator
    expected = "expected a PoissonFactorization, or a model that it fitted, or None"
    for other in ("x", DeconfoundedMF(), PoissonFactorization):
        with pytest.raises(TypeError, match=expected):
            DeconfoundedMF(exposureModel=other)
