"""Cached data of a fit, a fold-in or an explanation, and its release."""

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame


class Releasable(Protocol):
    """A holder of cached data: a state, a side, a model."""

    def release(self) -> None:
        """Release the cached data."""


R = TypeVar("R", bound=Releasable)


class FitResources(ExitStack):
    """The cached data on the way to a result, which is released at the end, latest first.

    Data that becomes part of the result is released only if the work fails::

        with FitResources() as resources:
            pairs = resources.cache(pairs)               released at the end, however it ends
            model = resources.result(make_model(pairs))  released if a later step raises
            ...
        return model
    """

    def __init__(self) -> None:
        super().__init__()
        self._results = self.enter_context(ExitStack())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        if error is None:
            self._results.pop_all()
        return super().__exit__(kind, error, trace)

    def add(self, resource: R) -> R:
        """Release ``resource`` at the end."""
        self.callback(resource.release)
        return resource

    def cache(self, frame: DataFrame) -> DataFrame:
        """Cache ``frame`` until the end."""
        return self.add_cached(frame.persist())

    def add_cached(self, frame: DataFrame) -> DataFrame:
        """Release a frame that is already cached at the end."""
        self.callback(frame.unpersist)
        return frame

    def result(self, resource: R) -> R:
        """Release ``resource`` only where the work fails."""
        self._results.callback(resource.release)
        return resource
