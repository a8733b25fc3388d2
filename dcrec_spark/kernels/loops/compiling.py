"""How loops are compiled: without the interpreter's lock, and kept on disk where there is a place for it."""

from collections.abc import Callable
from typing import Any

import numba

Loop = Callable[..., Any]

# Sums may be added up in any order, several at a time. NaN and infinity stay what they are: they are looked for.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: Loop) -> Loop:
    """Compile a loop when it is first called; later processes find it in numba's cache.

    A process that can write neither beside this file nor into a user's cache compiles for itself.
    """
    return _compiled(function)


def inlined(function: Loop) -> Loop:
    """Compile a function of single numbers into the loops that call it, so that they are loops of vectors."""
    return _compiled(function, forceinline=True)


def _compiled(function: Loop, **more: Any) -> Loop:
    options: dict[str, Any] = {"nogil": True, "fastmath": _FAST, "error_model": "numpy", **more}
    try:
        loop: Loop = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba knows no directory to write to
        loop = numba.njit(**options)(function)
    return loop
