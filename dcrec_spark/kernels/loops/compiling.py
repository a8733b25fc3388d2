"""How loops are compiled: without the interpreter's lock, and kept on disk where there is a place for it."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Loop = Callable[..., Any]
Inlined = TypeVar("Inlined", bound=Loop)

# Sums may be added up in any order, several at a time. NaN and infinity stay what they are: they are looked for.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


def compiled(function: Loop) -> Loop:
    """Compile a loop when it is first called; later processes find it in numba's cache.

    A process that can write neither beside this file nor into a user's cache compiles for itself.
    """
    loop: Loop = _compiled(function)
    return loop


def inlined(function: Inlined) -> Inlined:
    """Compile a function of a few numbers into the loops that call it, so that they are loops of vectors."""
    compiled_function: Inlined = _compiled(function, forceinline=True)
    return compiled_function


def _compiled(function: Loop, **more: Any) -> Any:
    options: dict[str, Any] = {"nogil": True, "fastmath": _FAST, "error_model": "numpy", **more}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba knows no directory to write to
        return numba.njit(**options)(function)
