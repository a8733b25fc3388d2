"""Terms of least squares over all pairs: rated pairs of a block, design, regularisers, normal equations.

:mod:`dcrec_spark.kernels.ridge` has the model, and sets up the normal equations.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.gamma import Floats

Array = NDArray[Any]
Sums = dict[str, NDArray[np.float64]]
_NO_COVARIATES: Floats = np.empty((0, 0))


class RatingBlock(NamedTuple):
    """Observed pairs of one block in row order. a_hat is empty if the model has no confounder.

    row_ptr (n + 1,), col (nnz,) places in the inbox, rating, weight (nnz,), a_hat (nnz,) or (0,): the confounder h.
    low_rank (nnz,) or (0,): the product of the exposures, which sums over all pairs have for h. It may be ``a_hat``.
    exposure (n, L): the exposure factors of the rows, L = 0 without a confounder.
    elsewhere : (n,) number of pairs of each row in other blocks. (0,) if there are none.
    covariates : (n, P) of users, (n, Q) of items, where the model has slopes on them.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    rating: Floats
    weight: Floats
    a_hat: Floats
    low_rank: Floats
    exposure: Floats
    elsewhere: NDArray[np.int64] = np.empty(0, np.int64)
    covariates: Floats = _NO_COVARIATES

    @property
    def n_pairs(self) -> NDArray[np.int64]:
        """Number of pairs of each row, (n,)."""
        here = np.diff(self.row_ptr)
        return here + self.elsewhere if len(self.elsewhere) else here

    @property
    def has_confounder(self) -> bool:
        return bool(self.exposure.shape[1] > 0)


class Regulariser(NamedTuple):
    """1 / prior variance of each part, with unit noise: of both sides' factors, of gamma and slopes, beta_0, biases.

    by_count : whether each row's number of ratings multiplies that of its factors. A bias never counts: with r times
    the count it would keep 1 / (1 + r) of its deviation after any number of ratings.
    """

    factor: float
    confounder: float
    intercept: float
    bias: float = 1.0
    by_count: bool = False

    def counts(self, pairs: NDArray[np.int64]) -> Floats:
        """Return what multiplies that of each row's factors, (n,). A row without ratings counts as one."""
        return np.maximum(pairs, 1).astype(np.float64) if self.by_count else np.ones(len(pairs))


class Design(NamedTuple):
    """The terms of a model: which pairs and rows carry which, their columns in the rows, and their priors.

    rank : K, of the factors. reg : the priors.
    unobserved : w0, the weight of the unobserved pairs. everywhere : whether they carry the preference term (z).
    per_user : whether each user has an own confounder weight, else all share one.
    pooled : whether the users' weights depart from a common one. biases : whether each row has one.
    user_covariates, item_covariates : P numbers p_u of each user, on which the items have slopes rho_i, and Q numbers
    q_i of each item, on which the users have slopes kappa_u.

    Columns of the same place in the rows of both sides belong together, and the preference is the product of the first
    ones. A row's unknowns are next to each other, at the places of what they are multiplied with::

        users   [kappa, theta, p (, b) (, gamma)]      unknown [kappa, theta], b, gamma
        items   [q, beta, rho (, c)]                    unknown [beta, rho], c
    """

    rank: int
    reg: Regulariser
    unobserved: float
    everywhere: bool
    per_user: bool = True
    pooled: bool = False
    biases: bool = False
    user_covariates: int = 0
    item_covariates: int = 0

    @property
    def width(self) -> int:
        """Number of columns whose products are the preference: Q + K + P."""
        return self.item_covariates + self.rank + self.user_covariates

    @property
    def factors(self) -> slice:
        """The columns of the factors."""
        return slice(self.item_covariates, self.item_covariates + self.rank)

    def slopes(self, is_user: bool) -> slice:
        """Return the columns of the slopes, which are those of the covariates in rows of the other side."""
        return slice(0, self.factors.start) if is_user else slice(self.factors.stop, self.width)

    def solved(self, is_user: bool) -> slice:
        """Return the columns of factors and slopes."""
        return slice(0, self.factors.stop) if is_user else slice(self.factors.start, self.width)

    def unknowns(self, rows: Floats, is_user: bool) -> Floats:
        """Return rows without their covariates: [factors and slopes (, bias) (, gamma)]."""
        solved = self.solved(is_user)
        return rows if solved == slice(0, self.width) else np.hstack([rows[:, solved], rows[:, self.width :]])

    def rows_of(self, unknowns: Floats, covariates: Floats, is_user: bool) -> Floats:
        """Return solved unknowns with their rows' covariates (n, P) or (n, Q): the inverse of :meth:`unknowns`."""
        if not covariates.shape[1]:
            return unknowns
        at = self.factors.stop if is_user else 0
        return np.hstack([unknowns[:, :at], covariates.astype(unknowns.dtype, copy=False), unknowns[:, at:]])

    @property
    def on_preference(self) -> float:
        """Weight z w0 of an unobserved pair in the preference term."""
        return self.unobserved if self.everywhere else 0.0

    @property
    def shares_gamma(self) -> bool:
        """Whether there is one gamma for all users, be it the users' only one or the one that theirs depart from."""
        return self.pooled or not self.per_user

    def ridge(self, pairs: NDArray[np.int64], is_user: bool, dtype: Any) -> Floats:
        """Return the regularisers of the unknowns of each row but gamma, (n, F), or (1, F) if all rows share them.

        pairs : (n,) how many a row has. dtype : of the result.
        """
        counts = self.reg.counts(pairs) if self.reg.by_count else np.ones(1)
        regs = np.full((len(counts), self.width + self.biases), self.reg.confounder, dtype)
        regs[:, self.factors] = counts[:, None] * self.reg.factor
        regs[:, self.width :] = self.reg.bias
        return self.unknowns(regs, is_user)

    def penalty(self, rows: Floats, pairs: NDArray[np.int64], is_user: bool) -> float:
        """Return the penalty of all rows' factors, slopes and biases. No other array of their size is made."""
        factors, slopes, reg = rows[:, self.factors], rows[:, self.slopes(is_user)], self.reg
        of_factors = reg.factor * float(reg.counts(pairs) @ np.einsum("nk,nk->n", factors, factors))
        of_slopes = reg.confounder * float(np.einsum("nk,nk->", slopes, slopes))
        bias = rows[:, self.width] if self.biases else np.empty(0)
        return of_factors + of_slopes + reg.bias * float(bias @ bias)


class Shared(NamedTuple):
    """Terms shared by all pairs: beta_0, and gamma if there is one for all users (else 0).

    moved : how far gamma has moved, and the users' weights with it, since they were solved.
    """

    intercept: float = 0.0
    gamma: float = 0.0
    moved: float = 0.0


class TermColumns(NamedTuple):
    """Columns of the terms in the augmented rows of a side, whose Gram matrix gives all sums over all pairs.

    users [kappa, theta, p, (b,) 1, (gamma pi,) (pi)]         items [q, beta, rho, 1, (c,) lambda]

    preference : how many columns, with biases and their ones, have products that add up to m. They are the first.
    sources : factors, covariates and the one of biases: what the other side's unknowns are multiplied with.
    one : the ones. other, slopes : the biases and slopes of this side.
    weighted, exposure : gamma_u pi_u and pi_u, of items both are lambda_i. An absent term is empty.
    """

    preference: int
    sources: list[int]
    one: int
    other: slice
    slopes: slice
    weighted: slice
    exposure: slice

    @property
    def terms(self) -> tuple[slice, slice, slice, slice]:
        """Columns of the preference, the rows' own weight of the confounder, the common one and the ones."""
        return slice(self.preference), self.weighted, self.exposure, slice(self.one, self.one + 1)

    @classmethod
    def of(cls, design: Design, exposure_rank: int, is_user: bool) -> "TermColumns":
        width, end = design.width, design.width + 1 + design.biases
        one = width + (design.biases and is_user)
        bias = slice(width, one) if is_user else slice(one + 1, end)
        solved = design.solved(not is_user)
        sources = [*range(solved.start, solved.stop), *[one] * design.biases]
        weighted = exposure = slice(end, end + exposure_rank)
        if is_user:
            weighted = slice(end, end + exposure_rank * design.per_user)
            exposure = slice(weighted.stop, weighted.stop + exposure_rank * design.shares_gamma)
        preference = end if design.biases else width
        return cls(preference, sources, one, bias, design.slopes(is_user), weighted, exposure)


class RowSystems(NamedTuple):
    """The normal equations of each row: (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull.

    row_ptr, col, a_hat : of the pairs, as :class:`RatingBlock` has them.
    X : of each nonzero the factors and covariates of its source, a one for the bias, and h where there is a border.
    sources : (m, first + rank or more) rows of the other side, factors and covariates from the column ``first`` on.
    base : (F, F) the same for all rows. ridge, right : each row's regularisers and right-hand side, (n, F), or (1, F)
    if all rows share them. border : (n, F) the last row of each row's matrix, or (n, 0). curvature, pull : (nnz,).
    rank : number of factors and slopes, which come first.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    a_hat: Floats
    sources: Floats
    curvature: Floats
    pull: Floats
    base: Floats
    ridge: Floats
    border: Floats
    right: Floats
    rank: int
    first: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and unknowns of each, (n, F)."""
        return len(self.row_ptr) - 1, len(self.base)

    @property
    def is_bordered(self) -> bool:
        """Whether the last of the unknowns is the weight of h."""
        return bool(self.border.shape[1])

    @property
    def has_bias(self) -> bool:
        """Whether the unknown after the factors is a bias."""
        return bool(len(self.base) - self.is_bordered > self.rank)

    def full_sources(self, multiple: int = 1) -> Floats:
        """Return the sources of all unknowns, (m, F): ones for the bias, zeros for h.

        multiple : columns of zeros follow, until there is a multiple of so many.
        """
        full = np.zeros((len(self.sources), -(-len(self.base) // multiple) * multiple), self.sources.dtype)
        full[:, : self.rank] = self.sources[:, self.first : self.first + self.rank]
        if self.has_bias:
            full[:, self.rank] = 1
        return full

    def of_row(self, row: int, half: Floats, right: Floats) -> "RowSystems":
        """Return the system of one row without nonzeros, whose sums over them are given.

        half : (F (F + 1) / 2,) the lower triangle of X' diag(curvature) X, row by row. right : (F,) X' pull.
        """
        none = {name: getattr(self, name)[:0] for name in ("col", "a_hat", "curvature", "pull")}
        narrow = self.right.dtype
        matrix = np.zeros_like(self.base, np.float64)
        lower = np.tril_indices(len(matrix))
        matrix[lower] = half
        matrix.T[lower] = half
        return self._replace(
            row_ptr=np.zeros(2, np.int64),
            **none,
            base=(self.base + matrix).astype(narrow),
            ridge=self.ridge[[row % len(self.ridge)]],
            border=self.border[row : row + 1],
            right=(self.right[[row % len(self.right)]] + right).astype(narrow),
        )
