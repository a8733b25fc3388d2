"""The ways in which kernels compute: in NumPy, or by compiled loops on so many threads."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from dcrec_spark.kernels import compiled, threads

Way = Callable[[], AbstractContextManager[None]]


@contextmanager
def numpy_only() -> Iterator[None]:
    """However large the work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "has_numba", lambda: False)
        yield


@contextmanager
def threaded(n_threads: int) -> Iterator[None]:
    """However few the numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "MANY", 0)
        patch.setenv(threads.VARIABLE, str(n_threads))
        yield


@contextmanager
def loops(n_threads: int = 2) -> Iterator[None]:
    """However small the work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "LEAST_WORK", 0)
        patch.setenv(threads.VARIABLE, str(n_threads))
        yield
