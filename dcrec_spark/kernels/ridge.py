"""Exact least squares over all pairs, at the cost of the observed ones: the normal equations of each row.

:mod:`dcrec_spark.kernels.solvers` solves them, or takes steps toward the solution.

    J = sum_{all u,i} w_ui (y_ui - m_ui - gamma_u h_ui - beta_0)^2 + regularisers
    m_ui = theta_u . beta_i + kappa_u . q_i + rho_i . p_u (+ b_u + c_i)

w_ui is ``weight`` on the observed pairs and ``unobserved`` (w0) off them. m_ui is there on the observed pairs, and off
them too when ``everywhere`` (z = 1: weighted MF, z = 0: probabilistic MF). p_u and q_i are covariates, such as the
exposure factors, and may have no numbers. h_ui is the confounder: a_hat_ui, or made from it. Rows are

    users   [kappa_u, theta_u, p_u (, b_u) (, gamma_u)]         items   [q_i, beta_i, rho_i (, c_i)]

h is the product of the two sides' ``exposure``, so every sum over all pairs is a product of Gram matrices
(:mod:`dcrec_spark.kernels.ridge_sums`). The shared terms, intercept and common gamma, are solved there too.

    users   unknown [kappa_u, theta_u, b_u, gamma_u]  sources [q_i, beta_i, 1, h_ui]  offset beta_0 + c_i + rho_i . p_u
    items   unknown [beta_i, rho_i, c_i]               sources [theta_u, p_u, 1]
            offset beta_0 + b_u + kappa_u . q_i + gamma_u h_ui

A gamma_u that departs from a common gamma has it as the mean of its prior. If a pair's own exposure is left out of h,
h on the observed pairs differs from the product in the sums over all pairs, ``low_rank``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcrec_spark.kernels.csr import inner_products, row_products
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.ridge_terms import Array, Design, RatingBlock, RowSystems, Shared, TermColumns
from dcrec_spark.kernels.threads import loop_input, loop_inputs, over, over_rows


def ratings_and_weights(given: Array, factor: Array, alpha: float, dtype: Any) -> tuple[Floats, Floats]:
    """Return ratings y as numbers of this type, and their weights (1 + alpha y) factor, (nnz,) each.

    given : (nnz,) ratings as they are stored. factor : (nnz,), or (0,) if all are 1.
    """
    from dcrec_spark.kernels.loops import pairs

    rating, weight = np.empty(len(given), dtype), np.empty(len(given), dtype)
    over(pairs.weights, len(given), len(given), loop_input(given), loop_input(factor), float(alpha), rating, weight)
    return rating, weight


class Known(NamedTuple):
    """The known part of a mean before its row is solved: a number of its source, and a weight of the confounder.

    of_source : (m,), or (1,) if all sources have the same. gamma : (m,) or (1,). (0,) without such a term.
    slopes : (m, S) of the sources on the row's covariates, or (0, 0).
    """

    of_source: NDArray[np.float64]
    gamma: Floats = np.empty(0)
    slopes: Floats = np.empty((0, 0))

    def of_pairs(self, block: RatingBlock) -> Floats:
        """Return slopes . covariates of each pair, (nnz,), or (0,) without slopes."""
        if not self.slopes.shape[1]:
            return np.empty(0)
        covariates = block.covariates.astype(np.float64, copy=False)
        return inner_products(block.row_ptr, block.col, covariates, self.slopes.astype(np.float64, copy=False))


def known_part(others: Floats, of_users: bool, has_confounder: bool, shared: Shared, design: Design) -> Known:
    """Return the known part of each pair's mean before a side is solved, by row of the other, for :func:`row_systems`.

    others : the other side's rows, items (m, Q + K + P (+ 1)) or users (m, Q + K + P (+ 1) (+ 1)).
    of_users : whether the users are solved.
    """
    of_source, slopes = _of_all(shared.intercept), np.ascontiguousarray(others[:, design.slopes(not of_users)])
    if design.biases:
        of_source = of_source + others[:, design.width].astype(np.float64)
    known = Known(of_source, slopes=slopes)
    if not has_confounder:
        return known
    if not design.per_user:
        return known._replace(gamma=_of_all(shared.gamma))
    return known if of_users else known._replace(gamma=np.ascontiguousarray(others[:, -1]))


def _of_all(number: float) -> NDArray[np.float64]:
    """Return a number of all sources as an array: a scalar would take the precision of the array it is added to."""
    return np.full(1, number, np.float64)


def row_systems(
    block: RatingBlock,
    others: Floats,
    sums: Mapping[str, Array],
    shared: Shared,
    design: Design,
    of_users: bool,
    known: Known | None = None,
) -> RowSystems:
    """Set up the normal equations of each row: of users of their preference and confounder weight, jointly.

    others : (m, Q + K + P (+ 1)) the items, or (m, Q + K + P (+ 1) (+ 1)) the users, of the inbox. sums : of
    :mod:`dcrec_spark.kernels.ridge_sums`, over all rows of the other side. known : of :func:`known_part`, if made.

    Returns the system of unknowns (n, Q + K (+ 1) (+ 1)) of users, (n, K + P (+ 1)) of items: factors and slopes, the
    bias, and of users last the confounder weight.
    """
    from dcrec_spark.kernels.loops import pairs

    has_confounder, own_weight = block.has_confounder, block.has_confounder and design.per_user
    at, gram = TermColumns.of(design, block.exposure.shape[1], not of_users), sums["augmented"]
    known = known or known_part(others, of_users, has_confounder, shared, design)
    # The known part of each mean times the sources, over all pairs, (n, sources) or (1, sources).
    everyone = shared.intercept * gram[at.sources, at.one] + gram[at.sources, at.other].sum(axis=1)
    everyones = everyone[None]
    if at.slopes.stop > at.slopes.start:
        everyones = everyones + block.covariates @ gram[at.slopes, at.sources]
    if has_confounder and not (own_weight and of_users):
        drawn = gram[at.weighted, at.sources] if own_weight else shared.gamma * gram[at.exposure, at.sources]
        everyones = everyones + block.exposure @ drawn
    # Of each pair the curvature w - z w0 and the pull w (y - offset) + z w0 shown. The offset is the known part of its
    # mean, and ``shown`` is that part with the product of the exposures in the place of h.
    curvature, pull = np.empty(len(block.col), others.dtype), np.empty(len(block.col), others.dtype)
    of_mean = known.of_source, known.of_pairs(block)
    given = loop_inputs(block), *map(loop_input, (*of_mean, known.gamma)), float(design.on_preference)
    over_rows(pairs.pulls, block.row_ptr, *given, curvature, pull)
    system = RowSystems(
        row_ptr=block.row_ptr,
        col=block.col,
        a_hat=block.a_hat,
        sources=others,
        curvature=curvature,
        pull=pull,
        base=design.on_preference * gram[np.ix_(at.sources, at.sources)],
        ridge=design.ridge(block.n_pairs, of_users, others.dtype),
        border=np.zeros((len(block.row_ptr) - 1, 0)),
        right=-design.on_preference * everyones,
        rank=len(at.sources) - design.biases,
        first=design.solved(of_users).start,
    )
    if own_weight and of_users:
        system = _with_confounder(system, block, gram, at, known, of_mean, shared, design)
    numbers = ("a_hat", "sources", "curvature", "pull", "base", "ridge", "border", "right")
    return system._replace(**{name: getattr(system, name).astype(others.dtype, copy=False) for name in numbers})


def _with_confounder(
    system: RowSystems,
    block: RatingBlock,
    gram: Array,
    at: TermColumns,
    known: Known,
    of_mean: tuple[Floats, Floats],
    shared: Shared,
    design: Design,
) -> RowSystems:
    """Add each user's confounder weight to the unknowns.

    On observed pairs the sources bring curvature h^2 and pull h. The border and the right side
    correct for the rest: the unobserved pairs' w0 and z w0, and the difference of h and the product.
    """
    from dcrec_spark.kernels.loops import pairs

    n, size = system.shape
    w0, z_w0 = design.unobserved, design.on_preference
    exposure, prior = block.exposure.astype(np.float64), design.reg.confounder
    border, right = np.empty((n, size + 1)), np.empty((n, size + 1))
    border[:, :size] = z_w0 * (exposure @ gram[at.exposure, at.sources])
    if block.low_rank is not block.a_hat and z_w0:
        missing = block.a_hat - block.low_rank
        border[:, :size] += z_w0 * row_products(block.row_ptr, block.col, missing, system.full_sources())
    shown = of_mean if design.everywhere else (_of_all(shared.intercept), np.empty(0))
    added = np.empty((n, 2))
    given = loop_inputs(block), *map(loop_input, (*of_mean, *shown)), float(w0), float(z_w0)
    over_rows(pairs.confounder_sums, block.row_ptr, *given, added)
    # As if no pair were observed, and what observed ones add.
    border[:, size] = w0 * np.einsum("ul,ul->u", exposure @ gram[at.exposure, at.exposure], exposure) + added[:, 0]
    right[:, :size] = system.right
    biases = gram[at.exposure, at.other].sum(axis=1)
    everyone = shared.intercept * gram[at.exposure, at.one] + design.everywhere * biases
    everyones = exposure @ everyone
    if known.slopes.shape[1] and design.everywhere:
        everyones += np.einsum("ul,ls,us->u", exposure, gram[at.exposure, at.slopes], block.covariates)
    right[:, size] = prior * shared.gamma - w0 * everyones + added[:, 1]
    base = np.zeros((size + 1, size + 1))
    base[:size, :size] = system.base
    ridge = np.hstack([system.ridge, np.full((len(system.ridge), 1), prior, system.ridge.dtype)])
    return system._replace(base=base, ridge=ridge, border=border, right=right)
