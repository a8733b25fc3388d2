"""Compilation of loops by numba on their first call: without the interpreter's lock, cached on disk if possible."""

import os
from collections.abc import Callable
from contextlib import suppress
from threading import RLock
from typing import Any, TypeVar

Loop = Callable[..., Any]
Inline = TypeVar("Inline", bound=Loop)

_LOCK = RLock()


class _Loop:
    """A loop before its first call. Then numba, which takes half a second to load, takes its place in its module."""

    def __init__(self, function: Loop, **more: Any) -> None:
        self._function, self._more = function, more
        self._compiled: Loop | None = None

    def __call__(self, *given: Any) -> Any:
        return self.compiled()(*given)

    def compiled(self) -> Loop:
        with _LOCK:
            if self._compiled is None:
                self._compiled = _compiled(self._function, **self._more)
                names = self._function.__globals__
                names |= {name: each.compiled() for name, each in names.items() if isinstance(each, _Loop)}
            return self._compiled


def jit(function: Loop) -> Loop:
    """Compile a loop on its first call. Later processes read it from numba's cache.

    The cache is NUMBA_CACHE_DIR, the folder of the source or the user's cache folder. A process that can write to none
    of them compiles in memory.
    """
    return _Loop(function)


def inline(function: Inline) -> Inline:
    """Compile a small function into the loops that call it, so that they still vectorise."""
    inlined: Any = _Loop(function, forceinline=True)
    chosen: Inline = inlined
    return chosen


def _compiled(function: Loop, **more: Any) -> Loop:
    import numba

    # Sums may be added up in any order, several numbers at a time. NaN and infinity keep their meaning.
    fast = {"reassoc", "contract", "nsz", "arcp"}
    options: dict[str, Any] = {"nogil": True, "fastmath": fast, "error_model": "numpy", **more}
    with suppress(RuntimeError, OSError):  # numba finds no folder to write to, or, in an archive, does not look
        cached: Any = numba.njit(cache=True, **options)(function)
        os.makedirs(cached.stats.cache_path, exist_ok=True)
        if os.access(cached.stats.cache_path, os.W_OK):
            loop: Loop = cached
            return loop
    in_memory: Loop = numba.njit(**options)(function)
    return in_memory
