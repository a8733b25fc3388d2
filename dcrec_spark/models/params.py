"""Params of estimators and models: declared from a table of settings, with their getters and setters, in one line::

    rank, getRank, setRank = param(int, _SETTINGS["rank"])

Editors and mypy know the types of both. A fitted model has all getters, and its setters refuse what only a fit can
change.
"""

import difflib
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import wraps
from typing import Any, Self, TypeVar, cast

import pyspark
from pyspark.ml import Model
from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasPredictionCol, HasSeed, HasTol
from pyspark.sql import DataFrame

from dcrec_spark.settings.domains import Domain, Instance
from dcrec_spark.settings.tables import FIT, IDS, OUTCOME, Setting, params

F = TypeVar("F", bound=Callable[..., Any])
P = TypeVar("P", bound=Params)
T = TypeVar("T")

# Parameter of pyspark.ml.recommendation.ALS -> ours instead: the first that an estimator has.
NEAREST: dict[str, tuple[tuple[str, ...], ...]] = {
    "regParam": (("ratePrior",),),
    "implicitPrefs": (("outcome",),),
    "nonnegative": (("outcome",), ("shapePrior",)),
    "blockSize": (("numBlocks",),),
    "numUserBlocks": (("numBlocks",),),
    "numItemBlocks": (("numBlocks",),),
    "intermediateStorageLevel": (("checkpointInterval",),),
    "finalStorageLevel": (("checkpointInterval",),),
}
ADVICE = {
    "implicitPrefs": "weighted is fitted to all pairs, as with implicitPrefs=True, probabilistic to the rated ones",
    "nonnegative": "factors with Gamma priors are never negative, those of outcome='poisson' for example",
    "blockSize": "the number of rows that are ranked at a time is chosen by itself",
    "intermediateStorageLevel": "what a fit caches is chosen by itself",
    "finalStorageLevel": "a model keeps its factors cached until release() is called",
}


class ExposureSource:
    """The estimator of an exposure model, or a fitted one."""


# Name of a class in the tables of settings, which import no model -> the class.
_CLASSES: dict[str, type] = {"model": Model, "exposure": ExposureSource, "frame": DataFrame}


def param(kind: type[T], setting: Setting) -> tuple[Param[T], Callable[[Params], T], Callable[[P, T], P]]:
    """Declare a Param in a class body, its getter and its setter. pyspark.ml replaces its parent for each instance.

    The setter raises TypeError outside the Param's domain, and AttributeError where a fitted model keeps the Param.
    """
    name, meaning = setting.param, setting.explain(as_param=True)

    def get_param(self: Params) -> T:
        value: T = self.getOrDefault(name)
        return value

    def set_param(self: P, value: T) -> P:
        if isinstance(self, Model) and not setting.of_model:
            raise AttributeError(f"a fitted model keeps its {name}: set it on the estimator, and fit again")
        return self._set(**{name: value})

    for method, word, about in ((get_param, "get", f"Value of ``{name}``"), (set_param, "set", f"Set ``{name}``")):
        method.__name__ = method.__qualname__ = f"{word}{name[0].upper()}{name[1:]}"
        method.__doc__ = f"{about}: {meaning}."
    conversion: Any = _Conversion(name, setting.domain)
    return Param(Params._dummy(), name, meaning, conversion), get_param, set_param


def optional(
    kind: type[T], setting: Setting
) -> tuple[Param[T | None], Callable[[Params], T | None], Callable[[P, T | None], P]]:
    """Declare a Param that can be None."""
    either: Any = param(kind, setting)
    return either  # type: ignore[no-any-return]


def inherited(setting: Setting) -> tuple[Any, Any, Any]:
    """Declare a Param anew that a mixin of pyspark.ml has, with our domain and meaning."""
    return param(object, setting)


@dataclass(frozen=True)
class _Conversion:
    """Check of a Param's values. A class, so that estimators can be pickled."""

    name: str
    domain: Domain

    def __call__(self, value: Any) -> Any:
        domain = self.domain
        try:
            checked = domain.check(value)
            if isinstance(domain, Instance) and checked is not None and not isinstance(checked, _CLASSES[domain.of]):
                raise ValueError(f"found {value!r}, expected {domain.expected}")
        except ValueError as error:
            raise TypeError(f"{self.name}: {error}") from None
        return checked


def keyword_only(method: F) -> F:
    """Decorate a constructor, as ``pyspark.keyword_only`` does. The message on a wrong name has the nearest one."""
    parameters = inspect.signature(method).parameters.values()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    recording: Callable[..., Any] = pyspark.keyword_only(method)

    @wraps(method)
    def check_names(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(unknown_param(type(self).__name__, name, known))
        return recording(self, *args, **kwargs)

    return cast(F, check_names)


def unknown_param(owner: str, name: str, known: Collection[str]) -> str:
    """Say that ``owner`` has no such parameter, and name the nearest of those ``known``."""
    sentence = f"{owner} has no parameter {name}"
    ours = next((names for names in NEAREST.get(name, ()) if set(names) <= set(known)), None)
    if ours is not None:
        advice = f" ({ADVICE[name]})" if name in ADVICE else ""
        return f"{sentence}, which is MLlib's; nearest to it here: {', '.join(ours)}{advice}"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"{sentence}: did you mean {nearest[0]}?" if nearest else f"{sentence}: explainParams() lists those it has"


def initialise(estimator: Params) -> None:
    """Set the defaults that the constructor's signature shows, then what was given."""
    signature = inspect.signature(type(estimator).__init__)
    keyword = inspect.Parameter.KEYWORD_ONLY
    estimator._setDefault(**{n: p.default for n, p in signature.parameters.items() if p.kind is keyword})
    estimator._set(**estimator._input_kwargs)  # type: ignore[attr-defined]


class CheckedParams(Params):
    """Params that refuse None unless it is among their values. pyspark.ml accepts None for all."""

    _input_kwargs: dict[str, Any]

    def _set(self, **kwargs: Any) -> Self:
        for name in (name for name, value in kwargs.items() if value is None):
            try:
                self.getParam(name).typeConverter(None)
            except TypeError as error:
                raise TypeError(f'Invalid param value given for param "{name}". {error}') from None
        return super()._set(**kwargs)


class SetsParams(CheckedParams):
    """Params of an estimator, several of which are set at once."""

    def setParams(self, **values: Any) -> Self:
        """Set the Params that are given, under the names of the constructor. The others keep their values.

        Raises TypeError: there is no such Param, or it does not take the value.
        """
        known = [declared.name for declared in self.params]
        for name in values:
            if name not in known:
                raise TypeError(unknown_param(type(self).__name__, name, known))
        return self._set(**values)


class HasIds(CheckedParams):
    """Columns of user and item ids, of any integer or string type."""

    userCol, getUserCol, setUserCol = param(str, params(IDS)["userCol"])
    itemCol, getItemCol, setItemCol = param(str, params(IDS)["itemCol"])


_FIT = params(FIT)


class HasFit(HasIds, HasCheckpointInterval, HasMaxIter, HasSeed, HasTol):
    """Params of any fit."""

    seed, getSeed, setSeed = inherited(_FIT["seed"])
    maxIter, getMaxIter, setMaxIter = inherited(_FIT["maxIter"])
    tol, getTol, setTol = inherited(_FIT["tol"])
    initialModel, getInitialModel, setInitialModel = optional(object, _FIT["initialModel"])
    validationIndicatorCol, getValidationIndicatorCol, setValidationIndicatorCol = optional(
        str, _FIT["validationIndicatorCol"]
    )
    patience, getPatience, setPatience = param(int, _FIT["patience"])
    numBlocks, getNumBlocks, setNumBlocks = optional(int, _FIT["numBlocks"])
    exchange, getExchange, setExchange = param(str, _FIT["exchange"])
    checkpointInterval, getCheckpointInterval, setCheckpointInterval = inherited(_FIT["checkpointInterval"])
    precision, getPrecision, setPrecision = param(str, _FIT["precision"])


_SETTINGS = params(OUTCOME)


class OutcomeParams(HasFit, HasPredictionCol):
    """Params of an outcome model and of its fit."""

    ratingCol, getRatingCol, setRatingCol = param(str, _SETTINGS["ratingCol"])
    predictionCol, getPredictionCol, setPredictionCol = inherited(_SETTINGS["predictionCol"])
    coldStartStrategy, getColdStartStrategy, setColdStartStrategy = param(str, _SETTINGS["coldStartStrategy"])

    outcome, getOutcome, setOutcome = param(str, _SETTINGS["outcome"])
    adjustment, getAdjustment, setAdjustment = param(str, _SETTINGS["adjustment"])
    confounder, getConfounder, setConfounder = param(str, _SETTINGS["confounder"])
    confounderWeight, getConfounderWeight, setConfounderWeight = param(str, _SETTINGS["confounderWeight"])
    confounderLink, getConfounderLink, setConfounderLink = param(str, _SETTINGS["confounderLink"])
    leaveOneOut, getLeaveOneOut, setLeaveOneOut = param(bool, _SETTINGS["leaveOneOut"])
    rank, getRank, setRank = param(int, _SETTINGS["rank"])
    exposureRank, getExposureRank, setExposureRank = param(int, _SETTINGS["exposureRank"])
    alpha, getAlpha, setAlpha = param(float, _SETTINGS["alpha"])
    unobservedWeight, getUnobservedWeight, setUnobservedWeight = optional(float, _SETTINGS["unobservedWeight"])
    fitBiases, getFitBiases, setFitBiases = param(bool, _SETTINGS["fitBiases"])
    fitIntercept, getFitIntercept, setFitIntercept = param(bool, _SETTINGS["fitIntercept"])

    regParam, getRegParam, setRegParam = param(float, _SETTINGS["regParam"])
    biasReg, getBiasReg, setBiasReg = param(float, _SETTINGS["biasReg"])
    confounderReg, getConfounderReg, setConfounderReg = param(float, _SETTINGS["confounderReg"])
    regByCount, getRegByCount, setRegByCount = param(bool, _SETTINGS["regByCount"])
    gammaShape, getGammaShape, setGammaShape = param(float, _SETTINGS["gammaShape"])
    gammaRate, getGammaRate, setGammaRate = param(float, _SETTINGS["gammaRate"])
    propensityCol, getPropensityCol, setPropensityCol = optional(str, _SETTINGS["propensityCol"])
    weightCap, getWeightCap, setWeightCap = optional(float, _SETTINGS["weightCap"])

    exposureWeight, getExposureWeight, setExposureWeight = param(float, _SETTINGS["exposureWeight"])
    solver, getSolver, setSolver = param(str, _SETTINGS["solver"])


class OutcomeFitParams(SetsParams, OutcomeParams):
    """Params of the estimator."""

    exposureModel, getExposureModel, setExposureModel = optional(object, _SETTINGS["exposureModel"])
    userFeatures, getUserFeatures, setUserFeatures = optional(DataFrame, _SETTINGS["userFeatures"])
    itemFeatures, getItemFeatures, setItemFeatures = optional(DataFrame, _SETTINGS["itemFeatures"])
