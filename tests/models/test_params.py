"""Params as a user of pyspark.ml expects them, once for each class. No session is needed."""

import inspect
import pickle
import re
from typing import Any

import pytest
from pyspark.ml import Pipeline
from pyspark.ml.param.shared import HasMaxIter, HasPredictionCol, HasSeed, HasTol

from dcrec_spark import (
    DeconfoundedMF,
    DeconfoundedMFModel,
    PoissonFactorization,
    PoissonFactorizationModel,
    RatingEvaluator,
)
from dcrec_spark.settings.tables import PRESETS, camel_case

# No Param takes one of these, whatever it takes: tests/settings/test_domains.py tests what each domain refuses.
WRONG: tuple[Any, ...] = (float("nan"), [], Pipeline)


@pytest.fixture(params=[PoissonFactorization, DeconfoundedMF, RatingEvaluator])
def made(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture(params=[PoissonFactorization, DeconfoundedMF])
def estimator(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_an_estimator_can_be_pickled(estimator: Any) -> None:
    again = pickle.loads(pickle.dumps(estimator.setParams(maxIter=7)))
    assert (again.uid, again.getMaxIter(), values_of(again)) == (estimator.uid, 7, values_of(estimator))
    with pytest.raises(TypeError, match="maxIter: found -1"):
        again.setMaxIter(-1)


def defaults_of(estimator: Any) -> dict[str, Any]:
    parameters = inspect.signature(type(estimator).__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def values_of(estimator: Any) -> dict[str, Any]:
    return {param.name: estimator.getOrDefault(param) for param in estimator.params}


def method(verb: str, param: str) -> str:
    return f"{verb}{param[0].upper()}{param[1:]}"


def test_code_that_looks_for_the_params_of_mllib_works_with_ours(estimator: Any) -> None:
    shared = [HasMaxIter, HasTol, HasSeed, *[HasPredictionCol] * isinstance(estimator, DeconfoundedMF)]
    assert all(isinstance(estimator, of) for of in shared)


def test_every_param_is_explained_and_has_the_default_of_the_constructor(made: Any) -> None:
    defaults, explained = defaults_of(made), made.explainParams().splitlines()
    assert {param.name for param in made.params} == defaults.keys()
    for param in made.params:
        assert made._defaultParamMap[param] == defaults[param.name]
        assert f"{param.name}: {param.doc} (default: {defaults[param.name]})" in explained


def test_every_param_has_a_getter_and_a_setter_that_can_be_chained(made: Any) -> None:
    for name, default in defaults_of(made).items():
        assert getattr(made, method("get", name))() == default
        assert getattr(made, method("set", name))(default) is made
        assert made.isSet(name)


def test_a_wrong_value_is_refused_by_the_name_of_its_param(made: Any) -> None:
    before = values_of(made)
    for param in made.params:
        is_optional = made.getOrDefault(param) is None
        for value in (*WRONG, *[None] * (not is_optional)):
            refusal = pytest.raises(TypeError, match=rf"{param.name}: found {re.escape(repr(value))}, expected")
            with refusal:
                type(made)(**{param.name: value})
            with refusal:
                getattr(made, method("set", param.name))(value)
            with refusal:
                made.copy({param: value})
    assert values_of(made) == before


def test_a_copy_is_independent_and_keeps_the_listener(estimator: Any) -> None:
    before, estimator.listener = values_of(estimator), print
    copied = estimator.copy({estimator.seed: 99}).setUserCol("reader")
    assert (copied.uid, copied.listener, copied.getSeed(), copied.getUserCol()) == (estimator.uid, print, 99, "reader")
    assert values_of(estimator) == before


def test_a_model_has_the_getters_and_sets_only_how_it_answers() -> None:
    model: Any = PoissonFactorizationModel(None, None, [])  # type: ignore[arg-type]
    assert all(hasattr(model, method("get", name)) for name in defaults_of(PoissonFactorization()))
    assert model.setExposureCol("exposed").setUserCol("reader").getOrDefault("exposureCol") == "exposed"
    with pytest.raises(AttributeError, match="a fitted model keeps its rank: set it on the estimator"):
        model.setRank(3)
    assert not hasattr(DeconfoundedMFModel, "getExposureModel")  # a model's own, and no parameter there


def test_counts_have_settings_of_their_own() -> None:
    estimator = DeconfoundedMF.forCounts(rank=3)
    expected = {camel_case(name): value for name, value in PRESETS["counts"].items()}
    assert {name: estimator.getOrDefault(name) for name in expected} == expected
    assert estimator.getRank() == 3
    with pytest.raises(TypeError, match="fitBiases"):
        DeconfoundedMF.forCounts(fitBiases=True)  # type: ignore[call-arg]
