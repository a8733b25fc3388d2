"""Meaning of the columns of a row, for the kernel that sends rows and for those that read them from an inbox.

Where each user has a confounder weight, a user's row of a Gamma-Poisson model of rank 2 is laid out like this, the
means only where held-out pairs are to be predicted::

    RowLayout({"geometric_mean": 2, "gamma_geometric_mean": 1, "mean": 2, "gamma_mean": 1})

    column    0     1     2           3     4     5
              g_u0  g_u1  g_gamma_u   E_u0  E_u1  E_gamma_u
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dcrec_spark.engine.cells import Array


@dataclass(frozen=True)
class RowLayout:
    """The parts of a row: name -> how many columns, in their order."""

    widths: Mapping[str, int]

    def join(self, parts: Mapping[str, Array]) -> Array:
        """Lay parts (n, width) side by side. KeyError for one that is missing.

        >>> RowLayout({"factors": 2, "gamma": 1}).join({"gamma": np.array([[9.0]]), "factors": np.array([[1.0, 2.0]])})
        array([[1., 2., 9.]])
        """
        return np.hstack([parts[name] for name in self.widths])

    def part(self, rows: Array, name: str) -> Array:
        """Return a view of the columns of one part, (n, width). KeyError where rows have no such part.

        >>> RowLayout({"factors": 2, "gamma": 1}).part(np.array([[1.0, 2.0, 9.0]]), "gamma")
        array([[9.]])
        """
        start = 0
        for other, width in self.widths.items():
            if other == name:
                return rows[:, start : start + width]
            start += width
        raise KeyError(name)
