"""Cached data of a fit, a fold-in or an explanation, and its release."""

from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pyspark.sql import DataFrame


class Releasable(Protocol):
    """A holder of cached data: a state, a side, a model."""

    def release(self) -> None:
        """Release the cached data."""


R = TypeVar("R", bound=Releasable)
T = TypeVar("T")


class FitResources:
    """The cached data on the way to a result, which is released at the end, latest first.

    Data that becomes part of the result is released only if the work fails::

        with FitResources() as resources:
            pairs = resources.cache(pairs)               released at the end, however it ends
            model = resources.result(make_model(pairs))  released if a later step raises
            ...
        return model
    """

    def __init__(self) -> None:
        self._scratch, self._results = ExitStack(), ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._scratch, self._results:
            if error is None:
                self._results.pop_all()

    def add(self, resource: R) -> R:
        """Release ``resource`` at the end."""
        self._scratch.callback(resource.release)
        return resource

    def cache(self, frame: DataFrame) -> DataFrame:
        """Cache ``frame`` until the end."""
        return self.add_cached(frame.persist())

    def add_cached(self, frame: DataFrame) -> DataFrame:
        """Release a frame that is already cached at the end."""
        self._scratch.callback(frame.unpersist)
        return frame

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Stay inside ``context``, such as settings of the session, until the end."""
        return self._scratch.enter_context(context)

    def result(self, resource: R) -> R:
        """Release ``resource`` only where the work fails."""
        self._results.callback(resource.release)
        return resource
