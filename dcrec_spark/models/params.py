"""Params as the estimators declare them: from the tables of settings, checked when they are set."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Self, TypeVar, cast

import pyspark
from pyspark.ml import Model
from pyspark.ml.param import Param, Params

from dcrec_spark.settings.kinds import Instance, Kind
from dcrec_spark.settings.mllib import unknown_param
from dcrec_spark.settings.setting import Setting, params
from dcrec_spark.settings.tables import IDS

F = TypeVar("F", bound=Callable[..., Any])


class ExposureSource:
    """What an exposure model comes from: the estimator of one, or one that is fitted."""


# Name of a kind in the tables of settings, which import no model -> its class.
_CLASSES: dict[str, type] = {"model": Model, "exposure": ExposureSource}


def declare(name: str, doc: str, kind: Kind) -> Any:
    """Declare a Param in a class body, with values of ``kind``; pyspark.ml replaces its parent for each instance."""

    def converted(value: Any) -> Any:
        try:
            return _checked(value, kind)
        except ValueError as error:
            raise TypeError(f"{name}: {error}") from None

    return Param(Params._dummy(), name, doc, converted)


def declared(setting: Setting) -> Any:
    """Declare the Param of a setting in a class body."""
    return declare(setting.param, setting.explained(as_param=True), setting.kind)


def _checked(value: Any, kind: Kind) -> Any:
    if isinstance(kind, Instance) and value is not None and not isinstance(value, _CLASSES[kind.of]):
        raise ValueError(f"found {value!r}, expected {kind.expected}")
    return kind.taken(value)


def keyword_only(method: F) -> F:
    """Decorate a constructor or ``setParams``, as ``pyspark.keyword_only`` does; a wrong name is told the right one.

    Raises
    ------
    TypeError : by the decorated method, for a keyword that it does not have.
    """
    parameters = inspect.signature(method).parameters.values()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    recording: Callable[..., Any] = pyspark.keyword_only(method)

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(unknown_param(type(self).__name__, name, known))
        return recording(self, *args, **kwargs)

    return cast(F, checked)


def initialise(estimator: Params) -> None:
    """Set the defaults that the constructor's signature shows, then what was given."""
    signature = inspect.signature(type(estimator).__init__)
    keyword = inspect.Parameter.KEYWORD_ONLY
    estimator._setDefault(**{n: p.default for n, p in signature.parameters.items() if p.kind is keyword})
    estimator._set(**estimator._input_kwargs)  # type: ignore[attr-defined]


class Checked(Params):
    """Params of which None is refused unless it is among their values; pyspark.ml lets it pass for all."""

    _input_kwargs: dict[str, Any]

    def _set(self, **kwargs: Any) -> Self:
        for name in (name for name, value in kwargs.items() if value is None):
            try:
                self.getParam(name).typeConverter(None)
            except TypeError as error:
                raise TypeError(f'Invalid param value given for param "{name}". {error}') from None
        return super()._set(**kwargs)


class HasIds(Checked):
    """The columns that name users and items: any integer or string type."""

    userCol: Param[str] = declared(params(IDS)["userCol"])
    itemCol: Param[str] = declared(params(IDS)["itemCol"])
