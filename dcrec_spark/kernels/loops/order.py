"""Entries put in the order of small whole numbers, by counting: one look at each, and no comparison."""

import numpy as np

from dcrec_spark.kernels.compiled import Places
from dcrec_spark.kernels.loops.compiling import compiled


@compiled
def grouped(group: Places, n_groups: int, entries: Places) -> tuple[Places, Places]:
    """Return where each group begins, (n_groups + 1,), and the entries group by group, as they stand in ``entries``."""
    begins = np.zeros(n_groups + 1, np.int64)
    for entry in entries:
        begins[group[entry] + 1] += 1
    for number in range(n_groups):
        begins[number + 1] += begins[number]
    free, ordered = begins[:-1].copy(), np.empty(len(entries), np.int64)
    for entry in entries:
        place = free[group[entry]]
        ordered[place] = entry
        free[group[entry]] = place + 1
    return begins, ordered
