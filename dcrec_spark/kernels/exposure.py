"""The substitute confounder of single pairs: a_hat without the pair's own exposure, and h made from it.

    phi_uik = g_uk g_ik / (g_u . g_i)                       the share of component k in the exposure a_ui
    a_hat_ui without itself = sum_k (s_uk - a_ui phi_uik) / r_uk * (s_ik - a_ui phi_uik) / r_ik
    h_ui = (f(a_hat_ui) - mean) / scale                     f: the link

A pair that was in the fit of the exposure model has pulled its own a_hat up. One that is predicted has not.

Propensities come from the exposure model, p = 1 - exp(-a_hat) of a Poisson exposure, or from ratings alone, as in the
paper (after Schnabel et al. 2016). The ratings of the unrated pairs are unknown. The observed distribution replaces
theirs:

    p = k for y >= 4, k / 4^(4 - y) below. At most 1. K such that the mean over all pairs is 0.05
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dcrec_spark.kernels.gamma import Floats, geometric_mean
from dcrec_spark.kernels.threads import loop_input, over_rows

# The paper's propensities: mean over all pairs, factor for each rating step below the pivot.
MEAN, DECAY, PIVOT = 0.05, 0.25, 4.0
# Smallest propensity of a rated pair. Where nothing speaks for a pair, its weight would be without bound, and a fit or
# a mean would be left to a few such pairs.
SMALLEST = 1e-3


class Scaling(NamedTuple):
    """Mean and scale of each covariate of a side, as a fit finds them. names : of features, else empty."""

    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, sums: Mapping[str, Floats], together: bool = False, names: tuple[str, ...] = ()) -> Self:
        """Take it from the sums of :func:`moments`. together : one scale for all, else each has its own."""
        count = np.maximum(sums["count"], 1.0)
        mean = sums["total"] / count
        variance = np.maximum(sums["square"] / count - mean**2, 0.0)
        scale = np.sqrt(np.full(len(variance), variance.mean()) if together else variance)
        # Equal numbers tell no rows apart, and stay at zero.
        return cls(tuple(mean.tolist()), tuple(np.where(scale > 0, scale, 1.0).tolist()), names)

    def scaled(self, raw: Floats) -> Floats:
        """Scale (n, numbers). Missing and infinite numbers are at their mean."""
        return np.where(np.isfinite(raw), (raw - np.array(self.mean)) / np.array(self.scale), 0.0)


def moments(numbers: Floats) -> dict[str, NDArray[np.float64]]:
    """Count each column of (n, numbers), and add it and its square up. Missing and infinite numbers are left out."""
    known = np.isfinite(numbers)
    numbers = np.where(known, numbers, 0.0).astype(np.float64, copy=False)
    count = known.sum(axis=0).astype(np.float64)
    return {"count": count, "total": numbers.sum(axis=0), "square": np.square(numbers).sum(axis=0)}


def composition(means: Floats) -> NDArray[np.float64]:
    """Return E[pi_u] / sum_k E[pi_uk] of the means of exposure factors, (n, L)."""
    means = means.astype(np.float64, copy=False)
    return np.asarray(means / means.sum(axis=1, keepdims=True))


class Form(NamedTuple):
    """How the confounder h is made from a_hat.

    link : "identity" or "log", of a_hat + offset. mean, scale : what is then subtracted, and divided by.
    linked : numbers of scoring vectors that belong to the link, their last ones. 0: all. The products of those before
    them count as they are.
    composition : scalings of the composition of exposure, of users and of items, where that is among the covariates.
    """

    link: str = "identity"
    offset: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    linked: int = 0
    composition: tuple[Scaling, Scaling] | None = None

    @property
    def rank(self) -> int:
        """Numbers in the composition of a row, L. 0 where it is no covariate."""
        return 0 if self.composition is None else len(self.composition[0].mean)

    def front(self, width: int) -> int:
        """Count the numbers before those of the link, in vectors of so many numbers."""
        return width - self.linked if self.linked else 0

    @property
    def is_low_rank(self) -> bool:
        """Whether h is a product of vectors, as a_hat is."""
        return self.link == "identity"

    def of(self, a_hat: Floats) -> Floats:
        """Make h from a_hat, of any shape."""
        return np.asarray((self.apply_link(a_hat) - self.mean) / self.scale)

    def apply_link(self, a_hat: Floats) -> Floats:
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
    def of(cls, factors: Mapping[str, Floats]) -> "Posterior":
        """Take it from "shape" (n, L) and "rate" (L,) or (n, L)."""
        shape, rate = factors["shape"], np.broadcast_to(factors["rate"], factors["shape"].shape)
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
    """Compute a_hat of each nonzero without its own count, (nnz,). rows, cols : of the n rows and of the inbox.

    A reduced mean is never below 0: shapes converge to a tolerance only, and a row that is folded in may meet
    others that have not seen it.
    """
    from dcrec_spark.kernels.loops import poisson

    a_hat = np.empty(len(col))
    over_rows(poisson.leave_one_out, row_ptr, *map(loop_input, (row_ptr, col, count, rows.rows(), cols.rows())), a_hat)
    return a_hat


# The confounder is a_hat itself: no link, not standardised.
PLAIN = Form()


def relative_propensity(rating: Floats) -> Floats:
    """Compute p / k of each rating. (n,), in (0, 1]."""
    return np.asarray(np.power(DECAY, np.maximum(0.0, PIVOT - rating)))


def solve_scale(relative: Floats, count: Floats) -> float:
    """Solve for the k with which the mean of min(1, k * relative) is :data:`MEAN`.

    relative, count : (n,) > 0, each distinct value and how often it occurs.
    """
    share = count / count.sum()
    plain = MEAN / float(relative @ share)
    if plain * relative.max() <= 1.0:
        return plain

    def excess(k: float) -> float:
        return float(np.minimum(1.0, k * relative) @ share) - MEAN

    return float(brentq(excess, plain, 1.0 / relative.min(), xtol=1e-300, rtol=1e-14))


def raw_weights(rating: Floats, scale: float, cap: float | None) -> Floats:
    """Compute 1 / p of each rating, (n,), at most ``cap``. P = min(1, scale * relative)."""
    weight: Floats = 1.0 / np.minimum(1.0, scale * relative_propensity(rating))
    return weight if cap is None else np.minimum(weight, cap)


def inverse_of_exposure(a_hat: Floats) -> Floats:
    """Compute 1 / p of pairs with these exposures, (n,), at most 1 / :data:`SMALLEST`."""
    return np.asarray(1.0 / np.maximum(-np.expm1(-a_hat), SMALLEST))
