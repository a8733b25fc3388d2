"""Params as a user of pyspark.ml expects them, once for each estimator. No session is needed."""

import inspect
import pickle
import re
from typing import Any

import numpy as np
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.param.shared import HasMaxIter, HasPredictionCol, HasSeed, HasTol

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.settings.tables import PRESETS, camel_case

NO_COLUMN, NO_SIZE = ("", 3), (float("nan"), float("inf"), -1.0, "1", True)
# Every Param has values that it refuses; None as well, unless it is the default.
WRONG: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("userCol", "itemCol", "ratingCol", "countCol", "exposureCol", "predictionCol"), NO_COLUMN),
    **dict.fromkeys(("propensityCol", "validationIndicatorCol"), NO_COLUMN),
    **dict.fromkeys(("rank", "exposureRank", "checkpointInterval"), (0, 2.5, True, "3", float("inf"))),
    **dict.fromkeys(("patience", "numBlocks"), (0, 1.5, True)),
    **dict.fromkeys(("shapePrior", "ratePrior", "gammaShape", "gammaRate"), (0.0, *NO_SIZE)),
    **dict.fromkeys(("regParam", "biasReg", "confounderReg", "tol", "alpha", "unobservedWeight"), NO_SIZE),
    **dict.fromkeys(("outcome", "adjustment", "confounder", "confounderWeight", "confounderLink"), ("x", 1)),
    **dict.fromkeys(("exchange", "precision", "coldStartStrategy", "solver"), ("x", 1)),
    **dict.fromkeys(("fitBiases", "fitIntercept", "regByCount", "leaveOneOut"), (1, "yes")),
    "weightCap": (0.5, *NO_SIZE),
    "maxIter": (-1, 0.5),
    "seed": (0.5, "1", True),
    "exposureWeight": (-0.1, 1.5, "x"),
    "initialModel": ("x", 1, Pipeline()),
    "exposureModel": ("x", 1, Pipeline),
    **dict.fromkeys(("userFeatures", "itemFeatures"), ("x", 1, [])),
}


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


def test_every_param_is_explained_and_has_the_default_of_the_constructor(estimator: Any) -> None:
    """Code that looks for MLlib's HasMaxIter, HasSeed and so on works with ours too."""
    shared = [HasMaxIter, HasTol, HasSeed, *[HasPredictionCol] * isinstance(estimator, DeconfoundedMF)]
    assert all(isinstance(estimator, of) for of in shared)
    defaults, explained = defaults_of(estimator), estimator.explainParams().splitlines()
    assert {param.name for param in estimator.params} == defaults.keys()
    for param in estimator.params:
        assert estimator._defaultParamMap[param] == defaults[param.name]
        assert f"{param.name}: {param.doc} (default: {defaults[param.name]})" in explained


def test_every_param_has_a_getter_and_a_setter_that_can_be_chained(estimator: Any) -> None:
    for name, default in defaults_of(estimator).items():
        assert getattr(estimator, method("get", name))() == default
        assert getattr(estimator, method("set", name))(default) is estimator
        assert estimator.isSet(name)


def test_a_wrong_value_is_refused_by_the_name_of_its_param(estimator: Any) -> None:
    """In the constructor, by its setter, and in the map of a copy. The estimator stays as it was."""
    before = values_of(estimator)
    for param in estimator.params:
        is_optional = estimator.getOrDefault(param) is None
        for value in (*WRONG[param.name], *[None] * (not is_optional)):
            refusal = pytest.raises(TypeError, match=rf"{param.name}: found {re.escape(repr(value))}, expected")
            with refusal:
                type(estimator)(**{param.name: value})
            with refusal:
                getattr(estimator, method("set", param.name))(value)
            with refusal:
                estimator.copy({param: value})
    assert values_of(estimator) == before


def test_a_copy_is_independent_and_keeps_the_listener(estimator: Any) -> None:
    before, estimator.listener = values_of(estimator), print
    copied = estimator.copy({estimator.seed: 99}).setUserCol("reader")
    assert (copied.uid, copied.listener, copied.getSeed(), copied.getUserCol()) == (estimator.uid, print, 99, "reader")
    assert values_of(estimator) == before


def test_an_unknown_name_is_refused_with_the_nearest_one(estimator: Any) -> None:
    for refuse in (type(estimator), estimator.setParams):
        with pytest.raises(TypeError, match=r"no parameter ranc: did you mean rank\?"):
            refuse(ranc=3)
    with pytest.raises(TypeError, match="which is MLlib's; nearest to it here: numBlocks"):
        type(estimator)(blockSize=3)


def test_several_are_set_at_once_and_the_others_stay() -> None:
    estimator = DeconfoundedMF(rank=7, alpha=2.0).setParams(alpha=3.0, userCol="reader")
    assert (estimator.getRank(), estimator.getAlpha(), estimator.getUserCol()) == (7, 3.0, "reader")
    assert {param.name for param in estimator._paramMap} == {"rank", "alpha", "userCol"}


def test_a_model_has_the_getters_and_sets_only_how_it_answers() -> None:
    model: Any = PoissonFactorizationModel(None, None, [])  # type: ignore[arg-type]
    assert all(hasattr(model, method("get", name)) for name in defaults_of(PoissonFactorization()))
    assert model.setExposureCol("exposed").setUserCol("reader").getOrDefault("exposureCol") == "exposed"
    with pytest.raises(AttributeError, match="a fitted model keeps its rank: set it on the estimator"):
        model.setRank(3)
    assert not hasattr(DeconfoundedMFModel, "getExposureModel")  # a model's own, and no parameter there


def test_numbers_of_numpy_are_numbers() -> None:
    """A grid of parameters is often made with np.arange."""
    estimator = DeconfoundedMF(rank=np.int64(4), alpha=np.float32(0.5), regParam=3)
    found = [estimator.getOrDefault(name) for name in ("rank", "alpha", "regParam")]
    assert [(type(value), value) for value in found] == [(int, 4), (float, 0.5), (float, 3.0)]


def test_counts_have_settings_of_their_own() -> None:
    """Those of the preset of jobs, and a signature to read."""
    estimator = DeconfoundedMF.forCounts(rank=3)
    expected = {camel_case(name): value for name, value in PRESETS["counts"].items()}
    assert {name: estimator.getOrDefault(name) for name in expected} == expected
    assert estimator.getRank() == 3
    with pytest.raises(TypeError, match="fitBiases"):
        DeconfoundedMF.forCounts(fitBiases=True)  # type: ignore[call-arg]


def test_an_exposure_model_comes_from_its_estimator_or_its_model() -> None:
    estimator = PoissonFactorization(rank=3)
    assert DeconfoundedMF(exposureModel=estimator).getExposureModel() is estimator
    expected = "expected a PoissonFactorization, or a model that it fitted, or None"
    for other in ("x", DeconfoundedMF(), PoissonFactorization):
        with pytest.raises(TypeError, match=expected):
            DeconfoundedMF(exposureModel=other)


def test_getters_and_setters_have_names_and_say_what_their_param_is() -> None:
    for method in (DeconfoundedMF().getRank, DeconfoundedMF().setRank):
        assert re.fullmatch("[gs]etRank", method.__name__)
        assert str(method.__doc__).endswith("``rank``: number of preference factors.")
