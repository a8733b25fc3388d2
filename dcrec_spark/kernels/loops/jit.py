"""Compilation of loops by numba: without the interpreter's lock, cached on disk if a folder is writable."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba

Loop = Callable[..., Any]
Inline = TypeVar("Inline", bound=Loop)

# Sums may be added up in any order, several numbers at a time. NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def jit(function: Loop) -> Loop:
    """Compile a loop on its first call. Later processes read it from numba's cache.

    The cache is NUMBA_CACHE_DIR, the folder of the source or the user's cache folder. A process that can write to none
    of them compiles in memory.
    """
    loop: Loop = _jit(function)
    return loop


def inline(function: Inline) -> Inline:
    """Compile a small function into the loops that call it, so that they still vectorise."""
    inlined: Inline = _jit(function, forceinline=True)
    return inlined


def _jit(function: Loop, **more: Any) -> Any:
    options: dict[str, Any] = {"nogil": True, "fastmath": _FAST, "error_model": "numpy", **more}
    with suppress(RuntimeError, OSError):  # numba finds no folder to write to, or, in an archive, does not look
        cached = numba.njit(cache=True, **options)(function)
        os.makedirs(cached.stats.cache_path, exist_ok=True)
        if os.access(cached.stats.cache_path, os.W_OK):
            return cached
    return numba.njit(**options)(function)
