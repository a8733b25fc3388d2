"""Who lets go of what a fit caches: one owner for each fit, fold-in or explanation."""

from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pyspark.sql import DataFrame


class Releasable(Protocol):
    """Something that holds caches: a state, a side, a model."""

    def release(self) -> None:
        """Let go of what is cached."""


R = TypeVar("R", bound=Releasable)
T = TypeVar("T")


class FitScope:
    """Owns what is cached on the way to a result, and lets go of it at the end, latest first.

    What becomes part of the result is let go of only where the work fails::

        with FitScope() as scope:
            pairs = scope.cache(pairs)                 gone at the end, however it ends
            model = scope.result(fitted(pairs))        gone if what follows raises
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
        """Let go of a frame that is cached already at the end."""
        self._scratch.callback(frame.unpersist)
        return frame

    def enter(self, context: AbstractContextManager[T]) -> T:
        """Stay inside ``context``, such as settings of the session, until the end."""
        return self._scratch.enter_context(context)

    def result(self, resource: R) -> R:
        """Release ``resource`` only where the work fails."""
        self._results.callback(resource.release)
        return resource
