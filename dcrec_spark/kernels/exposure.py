"""The substitute confounder of single pairs: a_hat without the pair's own exposure, and h made from it.

    phi_uik = g_uk g_ik / (g_u . g_i)                       the share of component k in the exposure a_ui
    a_hat_ui without itself = sum_k (s_uk - a_ui phi_uik) / r_uk * (s_ik - a_ui phi_uik) / r_ik
    h_ui = (f(a_hat_ui) - mean) / scale                     f: the link

A pair that was in the fit of the exposure model has pulled its own a_hat up. One that is predicted has not.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.gamma import Floats, geometric_mean
from dcrec_spark.kernels.threads import loop_input, over_rows


class Form(NamedTuple):
    """How the confounder h is made from a_hat.

    link : "identity" or "log", of a_hat + offset. mean, scale : what is then subtracted, and divided by.
    front : numbers of the confounder's vectors before those of a link, whose products count as they are: of a blend.
    """

    link: str = "identity"
    offset: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    front: int = 0

    @property
    def is_low_rank(self) -> bool:
        """Whether h is a product of vectors, as a_hat is."""
        return self.link == "identity"

    def of(self, a_hat: Floats) -> Floats:
        """Make h from a_hat, of any shape."""
        return np.asarray((self.linked(a_hat) - self.mean) / self.scale)

    def linked(self, a_hat: Floats) -> Floats:
        """Make f(a_hat)."""
        return np.asarray(np.log(a_hat + self.offset)) if self.link == "log" else a_hat

    def row_vectors(self, means: Floats, is_user: bool) -> Floats:
        """Return the vectors whose products are h, from E[pi] or E[lambda] (n, L), of a link the means as they are."""
        if self == Form() or not self.is_low_rank:
            return means
        last = np.full((len(means), 1), -self.mean / self.scale if is_user else 1.0)
        return np.hstack([means / self.scale if is_user else means, last])


class Posterior(NamedTuple):
    """Of each row, (n, L): mean, 1 / rate and exp(E[log .]) of its exposure factors."""

    mean: Floats
    inverse_rate: Floats
    geometric_mean: Floats

    @classmethod
    def of(cls, shape: Floats, rate: Floats) -> "Posterior":
        """Take it from shape (n, L) and rate (L,) or (n, L)."""
        rate = np.broadcast_to(rate, shape.shape)
        return cls(shape / rate, 1.0 / rate, geometric_mean(shape, rate))

    @classmethod
    def of_rows(cls, rows: Floats) -> "Posterior":
        """Read it from rows as :meth:`rows` makes them."""
        return cls(*np.split(rows, 3, axis=1))

    def rows(self) -> Floats:
        """Lay it out in one row each, (n, 3 L)."""
        return np.hstack(self)


def leave_one_out(
    row_ptr: NDArray[np.int64], col: NDArray[np.int32], count: Floats, rows: Posterior, cols: Posterior
) -> Floats:
    """Compute a_hat of each nonzero without its own count, (nnz,).

    Parameters
    ----------
    row_ptr (n + 1,), col (nnz,), count (nnz,) : the exposures. rows, cols : of the n rows and of the inbox.

    Notes
    -----
    A reduced mean is never below 0: shapes converge to a tolerance only, and a row that is folded in may meet
    others that have not seen it.
    """
    from dcrec_spark.kernels.loops import poisson

    a_hat = np.empty(len(col))
    over_rows(poisson.leave_one_out, row_ptr, *map(loop_input, (row_ptr, col, count, rows.rows(), cols.rows())), a_hat)
    return a_hat


# The confounder is a_hat itself: no link, not standardised.
PLAIN = Form()
