"""Entries put in the order of small whole numbers, by counting: one look at each, and no comparison."""

import numpy as np

from dcrec_spark.kernels.compiled import Places
from dcrec_spark.kernels.loops.compiling import compiled


@compiled
def grouped(group: Places, n_groups: int, values: Places) -> tuple[Places, Places]:
    """Return where each group begins, (n_groups + 1,), and the values group by group, in the order they came in."""
    begins = np.zeros(n_groups + 1, np.int64)
    for number in group:
        if number < 0 or number >= n_groups:
            raise IndexError("a value is of no group")
        begins[number + 1] += 1
    for number in range(n_groups):
        begins[number + 1] += begins[number]
    free, ordered = begins[:-1].copy(), np.empty(len(values), values.dtype)
    for entry in range(len(values)):
        place = free[group[entry]]
        ordered[place] = values[entry]
        free[group[entry]] = place + 1
    return begins, ordered
