"""Where compiled loops take the place of NumPy: work that is large enough, in a process that has numba.

The choice depends on the block and on what is installed, never on time or place: a task that is tried again does the
same again. Without numba every kernel runs in NumPy, to the same numbers but for rounding.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.errors import is_installed

Numbers = NDArray[np.floating]
Places = NDArray[np.integer]

# Below so many multiplications NumPy is done before numba is loaded.
LEAST_WORK = 1 << 21


@cache
def has_numba() -> bool:
    """Whether numba is installed here."""
    return is_installed("numba")


def pays(work: int) -> bool:
    """Whether so many multiplications are worth compiled loops."""
    return work >= LEAST_WORK and has_numba()


def plain(array: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """Return an array as loops take it, contiguous and read-only: other forms would be compiled for anew."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
