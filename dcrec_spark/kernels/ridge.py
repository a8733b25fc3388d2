"""Exact least squares over all pairs, at the cost of the observed ones: the normal equations of each row.

:mod:`dcrec_spark.kernels.cholesky` solves them, :mod:`dcrec_spark.kernels.conjugate` takes steps toward the solution.

    J = sum_{all u,i} w_ui (y_ui - m_ui - gamma_u h_ui - beta_0)^2 + regularisers

w_ui is ``weight`` on the observed pairs and ``unobserved`` (w0) off them; m_ui = theta_u . beta_i (+ b_u + c_i) on the
observed pairs, and off them too when ``everywhere`` (z = 1: weighted MF; z = 0: probabilistic MF). The rows of users
are [theta_u (, b_u) (, gamma_u)], those of items [beta_i (, c_i)]; h_ui is the confounder: a_hat_ui, or made from it.
``exposure`` has what h is the product of, so that every sum over all pairs is a product of Gram matrices
(:mod:`dcrec_spark.kernels.ridge_sums`). What all pairs share, the intercept and a common gamma, is solved there too.

    users   unknown [theta_u, b_u, gamma_u]   sources [beta_i, 1, h_ui]    offset beta_0 + c_i
    items   unknown [beta_i, c_i]             sources [theta_u, 1]         offset beta_0 + b_u + gamma_u h_ui

A gamma_u that departs from a common gamma has it as the mean of its prior. Where a pair has no vote of its own in h,
h is another number on the observed pairs than the product that stands in the sums over all pairs: ``low_rank``.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.csr import row_products, row_sums
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.threads import made_in_pieces

_NONE: Floats = np.empty(0)


class RatingBlock(NamedTuple):
    """Observed pairs of one block in row order; a_hat is zero-length where the model carries no confounder.

    row_ptr (n + 1,), col (nnz,) places in the inbox, rating, weight (nnz,), a_hat (nnz,) or (0,): the confounder h.
    exposure (n, L): the exposure factors of the rows, L = 0 without a confounder.
    low_rank : (nnz,) the product of the exposures, where ``a_hat`` is another number; else (0,).
    variance : (nnz,) the variance of h, where it counts; else (0,).
    elsewhere : (n,) how many pairs each row has besides, in other blocks; (0,) where all are here.
    """

    row_ptr: NDArray[np.int64]
    col: NDArray[np.int32]
    rating: Floats
    weight: Floats
    a_hat: Floats
    exposure: Floats
    low_rank: Floats = _NONE
    variance: Floats = _NONE
    elsewhere: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def n_pairs(self) -> NDArray[np.int64]:
        """How many pairs each row has, (n,)."""
        here = np.diff(self.row_ptr)
        return here + self.elsewhere if len(self.elsewhere) else here

    @property
    def has_confounder(self) -> bool:
        """Whether the model has the term gamma h."""
        return bool(self.exposure.shape[1] > 0)

    @property
    def product(self) -> Floats:
        """What the sums over all pairs have in the place of h, (nnz,)."""
        return self.low_rank if len(self.low_rank) else self.a_hat

    def piece(self, first: int, last: int) -> "RatingBlock":
        """Return some of the pairs, as if they were one row's."""
        names = ("col", "rating", "weight", "a_hat", "low_rank", "variance")
        return self._replace(row_ptr=np.array([0, last - first]), **{n: getattr(self, n)[first:last] for n in names})

    @property
    def weighted_variance(self) -> Floats:
        """Weight times variance of h, (nnz,); zeros where it does not count."""
        return self.weight * self.variance if len(self.variance) else np.zeros(len(self.col))


class Design(NamedTuple):
    """Which pairs and rows carry which term.

    unobserved : w0, the weight of the unobserved pairs. everywhere : whether they carry the preference term (z).
    per_user : whether each user has a confounder weight of his own; else one is shared by all.
    pooled : whether the users' weights depart from a common one. biases : whether each row has one.
    """

    unobserved: float
    everywhere: bool
    per_user: bool = True
    pooled: bool = False
    biases: bool = False

    @property
    def on_preference(self) -> float:
        """Weight z w0 of an unobserved pair in the preference term."""
        return self.unobserved if self.everywhere else 0.0

    @property
    def shares_gamma(self) -> bool:
        """Whether there is one gamma for all users, be it the users' only one or the one that theirs depart from."""
        return self.pooled or not self.per_user


class Regulariser(NamedTuple):
    """1 / prior variance of each part, with unit noise; of factors and biases times the row's ratings if by_count.

    common : of the gamma of all users; None: where it is the users' only one ``confounder``, where theirs depart from
    it 0.
    """

    user: float
    item: float
    confounder: float
    intercept: float
    user_bias: float = 1.0
    item_bias: float = 1.0
    by_count: bool = False
    common: float | None = None

    def of_rows(self, pairs: NDArray[np.int64], rank: int, is_user: bool, design: Design) -> NDArray[np.float64]:
        """Return that of the factors and the bias of each row, (n, rank (+ 1)); a row without ratings counts as one."""
        count, each = self._of(pairs, rank, is_user, design)
        return np.asarray(count[:, None] * each)

    def penalty(self, rows: Floats, pairs: NDArray[np.int64], is_user: bool, design: Design) -> float:
        """Return that of all rows (n, rank (+ 1)), times their squares; as large as they are nothing else is made."""
        count, each = self._of(pairs, rows.shape[1] - design.biases, is_user, design)
        return float(count @ np.einsum("nk,nk,k->n", rows, rows, each))

    def _of(self, pairs: NDArray[np.int64], rank: int, is_user: bool, design: Design) -> tuple[Floats, Floats]:
        """Return how often a row's regularisers count (n,), and those of each of its numbers (rank (+ 1),)."""
        factor, bias = (self.user, self.user_bias) if is_user else (self.item, self.item_bias)
        count = np.maximum(pairs, 1).astype(np.float64) if self.by_count else np.ones(len(pairs))
        return count, np.array([factor] * rank + [bias] * design.biases)

    def of_common_gamma(self, design: Design) -> float:
        """Return that of the gamma of all users."""
        if self.common is None:
            return 0.0 if design.pooled else self.confounder
        return self.common


class Shared(NamedTuple):
    """What all pairs share: beta_0, and gamma where there is one for all users (else 0).

    confounder_reg : 1 / variance of the users' departures from it, where it is estimated; else 0.
    moved : how far gamma has moved, and the users' weights with it, since they were solved.
    """

    intercept: float = 0.0
    gamma: float = 0.0
    confounder_reg: float = 0.0
    moved: float = 0.0

    def reg_of_departures(self, reg: Regulariser) -> float:
        """Return 1 / prior variance of the users' confounder weights: as estimated, or as set."""
        return self.confounder_reg or reg.confounder


Array = NDArray[Any]
# A number of each pair of a piece, or one for all of them.
OfPairs = Callable[[slice], Any]
Sums = dict[str, NDArray[np.float64]]


class Columns(NamedTuple):
    """Where the terms stand in the augmented rows of a side, of whose Gram matrix all sums over all pairs are made.

    users [theta, (b,) 1, (gamma pi,) (pi)]         items [beta, 1, (c,) lambda]

    preference : what meets its like of the other side in m: [theta, b, 1] and [beta, 1, c], or the factors alone.
    sources : what the other side's unknowns are multiplied with. one : the ones. other : the biases of this side.
    weighted, exposure : gamma_u pi_u and pi_u; of items both are lambda_i. A term that there is not, is empty.
    """

    preference: slice
    sources: list[int]
    one: int
    other: slice
    weighted: slice
    exposure: slice

    @property
    def terms(self) -> tuple[slice, slice, slice, slice]:
        """Where preference, the rows' own weight of the confounder, the common one and the ones stand."""
        return self.preference, self.weighted, self.exposure, slice(self.one, self.one + 1)

    @classmethod
    def of_users(cls, rank: int, exposure_rank: int, design: Design) -> "Columns":
        """Locate the terms of users."""
        one, end = rank + design.biases, rank + design.biases + 1
        weighted = slice(end, end + exposure_rank * design.per_user)
        common = slice(weighted.stop, weighted.stop + exposure_rank * design.shares_gamma)
        sources = [*range(rank), *[one] * design.biases]
        return cls(slice(end if design.biases else rank), sources, one, slice(rank, one), weighted, common)

    @classmethod
    def of_items(cls, rank: int, exposure_rank: int, design: Design) -> "Columns":
        """Locate the terms of items."""
        end = rank + 1 + design.biases
        both = slice(end, end + exposure_rank)
        sources = [*range(rank + design.biases)]
        return cls(slice(end if design.biases else rank), sources, rank, slice(rank + 1, end), both, both)


class System(NamedTuple):
    """The normal equations of each row: (base + diag(ridge) + border + X' diag(curvature) X) x = right + X' pull.

    X : of each nonzero the factors of its source, a one for the bias, and h where there is a border.
    sources : (m, rank or more) rows of the other side, factors first; what comes after them counts for nothing.
    base : (F, F) the same for all rows. ridge : (n, F) the row's regularisers. border : (n, F) the last row of each
    row's matrix, or (n, 0). right : (n, F). curvature, pull : (nnz,). rank : factors, the first of the unknowns.
    """

    sources: Floats
    curvature: Floats
    pull: Floats
    base: Floats
    ridge: Floats
    border: Floats
    right: Floats
    rank: int

    @property
    def is_bordered(self) -> bool:
        """Whether the last of the unknowns is the weight of h."""
        return bool(self.border.shape[1])

    @property
    def has_bias(self) -> bool:
        """Whether the unknown after the factors is a bias."""
        return bool(len(self.base) - self.is_bordered > self.rank)

    @property
    def full_sources(self) -> Floats:
        """The sources of all unknowns, (m, F), made anew: ones for the bias; zeros hold the place of h."""
        beyond = np.zeros((len(self.sources), len(self.base) - self.rank), self.sources.dtype)
        if self.has_bias:
            beyond[:, 0] = 1
        return np.hstack([self.sources[:, : self.rank], beyond])

    def of_row(self, row: int, half: Floats, right: Floats) -> "System":
        """Return the system of one row without nonzeros, whose sums over them are given.

        half : (F (F + 1) / 2,) the lower triangle of X' diag(curvature) X, row by row. right : (F,) X' pull.
        """
        none, narrow = self.curvature[:0], self.right.dtype
        matrix = np.zeros_like(self.base, np.float64)
        lower = np.tril_indices(len(matrix))
        matrix[lower] = half
        matrix.T[lower] = half
        return self._replace(
            curvature=none,
            pull=none,
            base=(self.base + matrix).astype(narrow),
            ridge=self.ridge[row : row + 1],
            border=self.border[row : row + 1],
            right=(self.right[row : row + 1] + right).astype(narrow),
        )


def users_system(
    block: RatingBlock, items: Floats, sums: Mapping[str, Array], shared: Shared, design: Design, reg: Regulariser
) -> System:
    """Set up the normal equations of each user: of his preference and his confounder weight, jointly.

    Parameters
    ----------
    block : the ratings of n users. items : (m, K (+ 1)), the items of the inbox.
    sums : of :func:`dcrec_spark.kernels.ridge_sums.item_sums`, over all items.
    shared : the terms of all pairs. design, reg : of the model.

    Returns
    -------
    System
        Of unknowns (n, K (+ 1) (+ 1)), the bias after the factors, the confounder weight last, where the users have
        them.
    """
    rank, gram = items.shape[1] - design.biases, sums["augmented"]
    at = Columns.of_items(rank, block.exposure.shape[1], design)
    offset, everyones = _known_of_preference(block, items, gram, at, shared, design)
    shown = offset
    own_weight = block.has_confounder and design.per_user
    if block.has_confounder and not own_weight:
        everyones += shared.gamma * (block.exposure @ gram[at.exposure, at.sources])
        offset, shown = _with_term(block, offset, lambda _: shared.gamma)
    ridge = reg.of_rows(block.n_pairs, rank, True, design)
    system = _of_preference(block, items, gram, at, ridge, (offset, shown, everyones), design)
    if own_weight:
        system = _with_confounder(system, block, sums, offset, shared, design, reg)
    return _in_precision(system, items.dtype)


def items_system(
    block: RatingBlock, users: Floats, sums: Mapping[str, Array], shared: Shared, design: Design, reg: Regulariser
) -> System:
    """Set up the normal equations of each item, given the users.

    Parameters
    ----------
    block : the ratings of n items. users : (m, K (+ 1) (+ 1)) as :func:`users_system` has them.
    sums : :func:`dcrec_spark.kernels.ridge_sums.user_sums` over all users.
    shared : the terms of all pairs. design, reg : of the model.

    Returns
    -------
    System
        Of unknowns (n, K (+ 1)), the bias last.
    """
    own_weight = block.has_confounder and design.per_user
    rank, gram = users.shape[1] - design.biases - own_weight, sums["augmented"]
    at = Columns.of_users(rank, block.exposure.shape[1], design)
    offset, everyones = _known_of_preference(block, users, gram, at, shared, design)
    shown = offset
    if block.has_confounder:
        gammas = np.ascontiguousarray(users[:, -1])
        drawn = gram[at.weighted, at.sources] if own_weight else shared.gamma * gram[at.exposure, at.sources]
        everyones += block.exposure @ drawn
        offset, shown = _with_term(block, offset, lambda at: gammas[block.col[at]] if own_weight else shared.gamma)
    ridge = reg.of_rows(block.n_pairs, rank, False, design)
    system = _of_preference(block, users, gram, at, ridge, (offset, shown, everyones), design)
    return _in_precision(system, users.dtype)


def _known_of_preference(
    block: RatingBlock, others: Floats, gram: Array, at: Columns, shared: Shared, design: Design
) -> tuple[OfPairs, Floats]:
    """Return what is known of each mean, intercept and the other side's bias, and its sum over all pairs of each row.

    others : rows of the other side, with Gram matrix ``gram``, in which ``at`` says where what stands.

    Returns
    -------
    Of pairs, and (n, K (+ 1)): times the sources.
    """
    # An array of one number: NumPy 1 would take a number by itself for one of single precision beside such arrays.
    intercept, n_rows = np.full(1, np.float64(shared.intercept)), len(block.row_ptr) - 1
    everyone = shared.intercept * gram[at.sources, at.one]
    if not design.biases:
        return lambda _: intercept, np.tile(everyone, (n_rows, 1))
    known: Floats = intercept + others[:, len(at.sources) - 1]
    everyone = everyone + gram[at.sources, at.other].sum(axis=1)
    return lambda pairs: known[block.col[pairs]], np.tile(everyone, (n_rows, 1))


def _with_term(block: RatingBlock, known: OfPairs, gamma: OfPairs) -> tuple[OfPairs, OfPairs]:
    """Add gamma times the confounder to what is known; and times what the sums over all pairs have in its place."""

    def plus(confounder: Floats) -> OfPairs:
        return lambda at: known(at) + gamma(at) * confounder[at]

    return plus(block.a_hat), plus(block.product)


def _of_preference(
    block: RatingBlock,
    others: Floats,
    gram: Array,
    at: Columns,
    ridge: Floats,
    known: tuple[OfPairs, OfPairs, Floats],
    design: Design,
) -> System:
    """Set up the system of the factors and the bias alone.

    known : of each mean, what the sums over all pairs have of it, and its sums over all pairs times the sources.
    """
    offset, shown, everyones = known
    return System(
        sources=others,
        **_pulls(block, offset, shown, design, others.dtype),
        base=design.on_preference * gram[np.ix_(at.sources, at.sources)],
        ridge=ridge,
        border=np.zeros((len(everyones), 0)),
        right=-design.on_preference * everyones,
        rank=len(at.sources) - design.biases,
    )


def confounder_curvature(block: RatingBlock, sums: Mapping[str, Array], design: Design) -> NDArray[np.float64]:
    """Compute what J curves in each user's confounder weight, without its regulariser; (n,).

    sums : of :func:`dcrec_spark.kernels.ridge_sums.item_sums`, over all items.
    """
    return _curvature(block, sums, design, lambda at: block.weight[at])


def _curvature(block: RatingBlock, sums: Mapping[str, Array], design: Design, weight: OfPairs) -> NDArray[np.float64]:
    """Compute the same, where h^2 of an observed pair weighs ``weight``."""
    exposure = block.exposure.astype(np.float64)
    drawn = exposure @ _last(sums["augmented"], exposure.shape[1])
    everywhere = np.einsum("ul,ul->u", drawn, exposure)

    def observed(at: slice) -> Any:
        square = weight(at) * np.square(block.a_hat[at]) - design.unobserved * np.square(block.product[at])
        return square + block.weight[at] * block.variance[at] if len(block.variance) else square

    return np.asarray(design.unobserved * everywhere + _per_row(block, observed))


def _per_row(block: RatingBlock, of_pairs: OfPairs) -> NDArray[np.float64]:
    """Add up a number of each pair in each row; (n,)."""
    return row_sums(block.row_ptr, made_in_pieces(of_pairs, len(block.col), np.float64))


def _with_confounder(
    system: System,
    block: RatingBlock,
    sums: Mapping[str, Array],
    offset: OfPairs,
    shared: Shared,
    design: Design,
    reg: Regulariser,
) -> System:
    """Add each user's confounder weight to the unknowns.

    On observed pairs the sources bring curvature h^2 and pull h. What the confounder stands off the unobserved part of
    J by w0 and the preference by z w0, and what h and the product differ by, the border and the right side make up for.
    """
    n, size = system.right.shape
    w0, z_w0, gram = design.unobserved, design.on_preference, sums["augmented"]
    at = Columns.of_items(system.rank, block.exposure.shape[1], design)
    exposure, prior = block.exposure.astype(np.float64), shared.reg_of_departures(reg)
    border, right = np.empty((n, size + 1)), np.empty((n, size + 1))
    border[:, :size] = z_w0 * (exposure @ gram[at.exposure, at.sources])
    if len(block.low_rank) and z_w0:
        missing = block.a_hat - block.low_rank
        border[:, :size] += z_w0 * row_products(block.row_ptr, block.col, missing, system.full_sources)
    border[:, size] = _curvature(block, sums, design, lambda _: z_w0)
    right[:, :size] = system.right
    biases = gram[at.exposure, at.other].sum(axis=1)
    everyone = shared.intercept * gram[at.exposure, at.one] + design.everywhere * biases
    right[:, size] = prior * shared.gamma - w0 * (exposure @ everyone)
    shown: OfPairs = offset if design.everywhere else lambda _: shared.intercept
    right[:, size] += _per_row(
        block, lambda at: w0 * shown(at) * block.product[at] - z_w0 * offset(at) * block.a_hat[at]
    )
    base = np.zeros((size + 1, size + 1))
    base[:size, :size] = system.base
    return system._replace(
        base=base,
        ridge=np.column_stack([system.ridge, np.full(n, prior)]),
        border=border,
        right=right,
    )


def _last(gram: Array, width: int) -> Array:
    """Return the lower right corner, (width, width)."""
    return gram[len(gram) - width :, len(gram) - width :]


def _pulls(block: RatingBlock, offset: OfPairs, shown: OfPairs, design: Design, dtype: Any) -> dict[str, Floats]:
    """Return curvature and pull of each nonzero.

    offset : what is known of its mean. shown : what the sums over all pairs have of it, where they have the preference.
    """
    z_w0, length = design.on_preference, len(block.col)
    narrow = np.dtype(dtype).type(z_w0)

    def pull(at: slice) -> Floats:
        pulled: Floats = block.weight[at] * (block.rating[at] - offset(at))
        return pulled + z_w0 * shown(at) if z_w0 else pulled

    return {
        "curvature": made_in_pieces(lambda at: block.weight[at] - narrow, length, dtype),
        "pull": made_in_pieces(pull, length, dtype),
    }


def _in_precision(system: System, dtype: Any) -> System:
    arrays = {name: value.astype(dtype, copy=False) for name, value in system._asdict().items() if name != "rank"}
    return system._replace(**arrays)
