"""Problems as the kernels take them: large ones for the loops, small ones next to tables for the dense references."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dcrec_spark.kernels import ridge as kernel
from dcrec_spark.kernels import ridge_sums
from dcrec_spark.kernels.csr import CountBlock
from dcrec_spark.kernels.gamma import Floats, geometric_mean
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, RowSystems, Shared
from tests.problems import count_block, csr, random_counts
from tests.reference import poisson, ridge
from tests.reference.poisson import Array

Equations = list[tuple[Array, Array]]
REG = Regulariser(0.7, 0.4, 0.2, 0.9)
RANK = 2
LARGE = 270, 280  # some rows have more pairs than any loop takes at a time


def counts_of(
    seed: int, n_rows: int, n_cols: int, share: float, dtype: str = "float64", terms: bool = False
) -> CountBlock:
    """Counts from 0 to 4; row 1 is empty, row 2 full; with ``terms`` a confounder and an offset too."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n_rows, n_cols)) < share
    mask[1], mask[2] = False, True
    row_ptr, _, col = csr(mask)
    numbers = [rng.integers(0, 5, len(col)), rng.gamma(0.5, 1.0, len(col)), rng.uniform(0.1, 1.0, len(col))]
    return CountBlock(row_ptr, col, *(each.astype(dtype) for each in numbers[: 3 if terms else 1]))


def factors_of(seed: int, n: int, width: int, dtype: str = "float64") -> Floats:
    return np.exp(np.random.default_rng(seed).uniform(-4.0, 3.0, (n, width))).astype(dtype)


def equations_of(seed: int, block: CountBlock, n_cols: int, width: int, bordered: bool) -> RowSystems:
    """Normal equations of the block's rows, some of its curvatures below 0, none that is not positive definite."""
    rng = np.random.default_rng(seed)
    n, nonzeros, dtype = len(block.row_ptr) - 1, len(block.col), block.counts.dtype
    root = rng.standard_normal((width, width))
    numbers = {
        "a_hat": block.a_hat if bordered else block.a_hat[:0],
        "sources": rng.standard_normal((n_cols, width)),
        "curvature": rng.uniform(-0.01, 2.0, nonzeros),
        "pull": rng.standard_normal(nonzeros),
        "base": root @ root.T + 20.0 * np.eye(width),
        "ridge": rng.uniform(0.5, 2.0, (n, width)),
        "border": 0.1 * rng.standard_normal((n, width if bordered else 0)),
        "right": rng.standard_normal((n, width)),
    }
    arrays = {name: value.astype(dtype) for name, value in numbers.items()}
    return RowSystems(block.row_ptr, block.col, **arrays, rank=width - bordered)


def row_equations(system: RowSystems) -> Equations:
    """A = base + diag(ridge) + border + X' diag(curvature) X and b = right + X' pull of each row, dense."""
    equations = []
    for u in range(len(system.row_ptr) - 1):
        pairs = slice(system.row_ptr[u], system.row_ptr[u + 1])
        columns = [system.sources[system.col[pairs], system.first : system.first + system.rank].astype(float)]
        if system.has_bias:
            columns.append(np.ones((len(columns[0]), 1)))
        left = system.base + np.diag(system.ridge[u % len(system.ridge)].astype(float))
        if system.is_bordered:
            columns.append(system.a_hat[pairs, None])
            left[-1] += system.border[u]
            left[:-1, -1] += system.border[u, :-1]
        x = np.hstack(columns)
        right = system.right[u % len(system.right)] + system.pull[pairs] @ x
        equations.append((left + (x.T * system.curvature[pairs]) @ x, right))
    return equations


KINDS = {
    # w0, z, whose weight, biases, by count, own exposure left out
    "classical": (0.0, False, "none", False, False, False),
    "weighted": (1.0, True, "none", False, False, False),
    "weighted-user": (0.37, True, "user", False, False, False),
    "weighted-global": (1.0, True, "global", False, False, False),
    "probabilistic": (0.37, False, "user", False, False, False),
    "biases": (0.0, False, "none", True, False, False),
    "biases-everywhere-by-count": (0.37, True, "none", True, True, False),
    "biases-global": (0.37, False, "global", True, True, False),
    "own": (1.0, True, "user", True, False, True),
    "pooled": (0.37, False, "pooled", True, False, True),
    "pooled-everywhere": (0.37, True, "pooled", True, True, True),
    "pooled-rated-alone": (0.0, False, "pooled", True, True, True),
    "global-everywhere": (1.0, True, "global", True, False, True),
    # ... and covariates of users and of items
    "covariates": (0.0, False, "none", False, True, False, 1, 2),
    "covariates-rated-alone": (0.0, False, "pooled", True, False, True, 3, 2),
    "covariates-everywhere": (0.37, True, "pooled", True, False, True, 2, 3),
    "covariates-own-everywhere": (1.0, True, "user", True, False, False, 1, 0),
    "covariates-probabilistic": (0.37, False, "global", True, False, True, 0, 2),
}


class RidgeProblem(NamedTuple):
    """Both sides' blocks, and the tables of the dense reference with unknowns to start from. h : (U, I), predicted."""

    users: RatingBlock
    items: RatingBlock
    design: Design
    dense: ridge.Problem
    start: ridge.Unknowns
    observed: Array
    h: Array

    def rows(self, x: ridge.Unknowns) -> tuple[Array, Array]:
        """Users and items as they travel."""
        users = [x.kappa, x.theta, self.users.covariates, *[x.user_bias[:, None]] * self.design.biases]
        if self.users.has_confounder and self.design.per_user:
            users.append(x.weight[:, None])
        items = [self.items.covariates, x.beta, x.rho, *[x.item_bias[:, None]] * self.design.biases]
        return np.hstack(users), np.hstack(items)

    def unknowns(self, x: ridge.Unknowns, users: Array, items: Array, shared: Shared) -> ridge.Unknowns:
        """The way back; the weights of users without one of their own follow the common one."""
        (p, q), biases = self.design[-2:], self.design.biases
        factors, end = slice(q, q + x.beta.shape[1]), q + x.beta.shape[1] + p
        own = self.users.has_confounder and self.design.per_user
        weight = users[:, -1] if own else np.full(len(users), shared.gamma)
        of_users = users[:, factors], users[:, end] if biases else x.user_bias, weight
        of_items = items[:, factors], items[:, end] if biases else x.item_bias
        return ridge.Unknowns(*of_users, *of_items, *shared[:2], users[:, :q], items[:, end - p : end])

    def narrowed(self) -> "RidgeProblem":
        names = ("rating", "weight", "a_hat", "exposure", "low_rank", "covariates")
        blocks = [b._replace(**{name: getattr(b, name).astype(np.float32) for name in names}) for b in self[:2]]
        items: Any = {name: getattr(self.start, name).astype(np.float32) for name in ("beta", "item_bias", "rho")}
        return self._replace(users=blocks[0], items=blocks[1], start=replace(self.start, **items))

    def users_system(self, x: ridge.Unknowns, block: RatingBlock | None = None) -> RowSystems:
        items, shared = self.rows(x)[1], Shared(x.intercept, x.gamma)
        sums = ridge_sums.side_sums(items, self.items.exposure, self.design, False)
        return kernel.row_systems(block or self.users, items, sums, shared, self.design, of_users=True)

    def items_system(self, x: ridge.Unknowns) -> RowSystems:
        users, shared = self.rows(x)[0], Shared(x.intercept, x.gamma)
        sums = ridge_sums.side_sums(users, self.users.exposure, self.design, True)
        return kernel.row_systems(self.items, users, sums, shared, self.design, of_users=False)


def exposed_counts(rng: np.random.Generator, size: tuple[int, int] | None, largest: int = 1) -> Array:
    """User 0 and the last item without exposure; user 2 and item 2 of a table of a given size with nearly all."""
    counts = random_counts(rng, *(size or rng.integers(3, 9, 2)), largest)
    if size is not None:
        counts[2, :-1] = counts[1:, 2] = largest
    return counts


def problem_of(seed: int, kind: str, size: tuple[int, int] | None = None, rank: int = RANK) -> RidgeProblem:
    """User 0 and the last item are unrated. Of an observed pair h may be another number than the product."""
    w0, everywhere, weight_of, biases, by_count, leave_one_out, *covariates = KINDS[kind]
    design = Design(
        *(rank, REG._replace(by_count=by_count), w0, everywhere),
        *(weight_of != "global", weight_of == "pooled", biases, *covariates),
    )
    rng = np.random.default_rng(seed)
    observed = exposed_counts(rng, size) > 0
    n_users, n_items = observed.shape
    ratings = np.where(observed, rng.integers(0, 6, observed.shape), 0.0)
    weights = np.where(observed, rng.uniform(0.05, 3.0, observed.shape), design.unobserved)
    exposed = 2 * (weight_of != "none")
    pi, lam = rng.normal(0.3, 1.0, (n_users, exposed)), rng.normal(0.3, 1.0, (n_items, exposed))
    product = pi @ lam.T
    h = np.where(observed & leave_one_out, product + rng.normal(0.0, 0.3, product.shape), product)
    count = [np.maximum(observed.sum(axis=a), 1.0) if by_count else np.ones(observed.shape[1 - a]) for a in (1, 0)]
    mask = np.where(observed, 1.0, float(design.everywhere))
    p = rng.standard_normal((n_users, design.user_covariates))
    q = rng.standard_normal((n_items, design.item_covariates))
    regs = REG.factor, REG.factor, REG.confounder, REG.intercept, REG.bias, REG.bias
    given = ratings, weights, mask, h, weight_of, *count, design.biases, *regs
    dense = ridge.Problem(*given, p=p, q=q)
    begin = ridge.start(dense, rng.standard_normal((n_items, rank)), float(rng.standard_normal()))
    tables = (observed, ratings, weights, h, product)
    users = block_of(tables, pi, leave_one_out)._replace(covariates=p)
    items = block_of(tuple(table.T for table in tables), lam, leave_one_out)._replace(covariates=q)
    return RidgeProblem(users, items, design, dense, begin, observed, product)


def block_of(tables: tuple[Array, ...], exposure: Array, leave_one_out: bool) -> RatingBlock:
    entries, none = csr(tables[0]), np.empty(0)
    ratings, weights, h, product = (table[entries.row, entries.col] for table in tables[1:])
    h = h if exposure.shape[1] else none
    low_rank = product if exposure.shape[1] and leave_one_out else h
    return RatingBlock(entries.row_ptr, entries.col, ratings, weights, h, low_rank, exposure)


class PoissonProblem(NamedTuple):
    """Data and posterior of the dense reference, one sweep from its start. observed : a rating of 0 is one, too."""

    data: poisson.Data
    state: poisson.State
    observed: Array

    def users(self) -> tuple[CountBlock, Array, Array, Array]:
        """Block of the users, their prior shape, shapes and rates, the confounder's weight last where it is theirs."""
        s, own, at = self.state, self.data.confounder == "user", np.nonzero(self.observed)
        gamma, known = g(s.confounder_shape, s.confounder_rate), g(s.intercept_shape, s.intercept_rate)
        block = count_block(self.observed.astype(float))._replace(
            counts=(self.data.weights * self.data.ratings)[at],
            a_hat=self.data.a_hat[at] if own else np.empty(0),
            offset=known + (0.0 if own else gamma) * self.data.a_hat[at],
        )
        if not own:
            return block, np.full(s.user_shape.shape[1], 0.3), s.user_shape, s.user_rate
        shape = np.column_stack([s.user_shape, s.confounder_shape])
        rate = np.column_stack([s.user_rate, s.confounder_rate])
        return block, np.append(np.full(s.user_shape.shape[1], 0.3), 1.0), shape, rate


def g(shape: Array, rate: Array) -> Array:
    return geometric_mean(shape, rate)


def poisson_problem(
    seed: int, confounder: str, size: tuple[int, int] | None = None, rank: int = RANK
) -> PoissonProblem:
    rng = np.random.default_rng(seed)
    ratings = exposed_counts(rng, size, 5)
    observed = ratings > 0
    observed[1, 0] = True  # a rating of 0
    weights, a_hat = rng.uniform(0.2, 3.0, ratings.shape), rng.gamma(0.5, 1.0, ratings.shape)
    data = poisson.Data(ratings, weights, a_hat, confounder)
    return PoissonProblem(data, poisson.sweep(poisson.initial_state(rng, data, rank), data), observed)
