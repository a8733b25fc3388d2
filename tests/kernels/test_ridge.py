"""Least squares over all pairs: each step, the shared terms and J match the dense reference."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import ridge, ridge_sums, solvers
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, Shared
from tests.problems import assert_same, random_counts
from tests.problems import csr as csr_of
from tests.reference import biased
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
REG = Regulariser(0.7, 1.3, 0.4, 0.2, 0.9, 1.7)
RANK = 2


class RidgeProblem(NamedTuple):
    """Both sides' blocks, and the tables of the dense reference with unknowns to start from."""

    users: RatingBlock
    items: RatingBlock
    design: Design
    reg: Regulariser
    dense: biased.Problem
    start: biased.Unknowns


def ridge_problem(
    seed: int,
    design: Design,
    weight_of: str,
    by_count: bool,
    leave_one_out: bool,
    covariates: tuple[int, int] = (0, 0),
) -> RidgeProblem:
    """User 0 and the last item are unrated. Of an observed pair h may be another number than the product."""
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(3, 9)), int(rng.integers(3, 9))
    observed = random_counts(rng, n_users, n_items) > 0
    ratings = np.where(observed, rng.integers(0, 6, observed.shape), 0.0)
    weights = np.where(observed, rng.uniform(0.05, 3.0, observed.shape), design.unobserved)
    exposed = 2 * (weight_of != "none")
    pi, lam = rng.normal(0.3, 1.0, (n_users, exposed)), rng.normal(0.3, 1.0, (n_items, exposed))
    product = pi @ lam.T
    h = np.where(observed & leave_one_out, product + rng.normal(0.0, 0.3, product.shape), product)
    count = [np.maximum(observed.sum(axis=a), 1.0) if by_count else np.ones(observed.shape[1 - a]) for a in (1, 0)]
    mask = np.where(observed, 1.0, float(design.everywhere))
    p, q = (rng.standard_normal((n, width)) for n, width in zip((n_users, n_items), covariates, strict=True))
    reference = biased.Problem(ratings, weights, mask, h, weight_of, count[0], count[1], design.biases, *REG[:6], p, q)
    begin = biased.start(reference, rng.standard_normal((n_items, RANK)), RANK, float(rng.standard_normal()))
    tables = (observed, ratings, weights, h, product)
    users = block_of(tables, pi, leave_one_out)._replace(covariates=p)
    items = block_of(tuple(table.T for table in tables), lam, leave_one_out)._replace(covariates=q)
    return RidgeProblem(users, items, design, REG._replace(by_count=by_count), reference, begin)


def block_of(tables: tuple[Array, ...], exposure: Array, leave_one_out: bool) -> RatingBlock:
    entries, none = csr_of(tables[0]), np.empty(0)
    ratings, weights, h, product = (table[entries.row, entries.col] for table in tables[1:])
    has = exposure.shape[1] > 0
    low_rank = product if has and leave_one_out else none
    return RatingBlock(entries.row_ptr, entries.col, ratings, weights, h if has else none, exposure, low_rank)


def rows_of(p: RidgeProblem, x: biased.Unknowns) -> tuple[Array, Array]:
    """Users and items as they travel."""
    users = [x.theta, p.users.covariates, x.kappa, *[x.user_bias[:, None]] * p.design.biases]
    if p.users.has_confounder and p.design.per_user:
        users.append(x.weight[:, None])
    items = [x.beta, p.items.covariates, x.rho, *[x.item_bias[:, None]] * p.design.biases]
    return np.hstack(users), np.hstack(items)


def unknowns_of(p: RidgeProblem, x: biased.Unknowns, users: Array, items: Array, shared: Shared) -> biased.Unknowns:
    """The way back; the weights of users without one of their own follow the common one."""
    biases, own = p.design.biases, p.users.has_confounder and p.design.per_user
    of_user, of_item = p.design.user_covariates, p.design.item_covariates
    end = RANK + of_user + of_item
    return replace(
        x,
        theta=users[:, :RANK],
        kappa=users[:, RANK + of_user : end],
        rho=items[:, RANK + of_item : end],
        user_bias=users[:, end] if biases else x.user_bias,
        weight=users[:, -1] if own else np.full(len(users), shared.gamma),
        beta=items[:, :RANK],
        item_bias=items[:, end] if biases else x.item_bias,
        intercept=shared.intercept,
        gamma=shared.gamma,
    )


def sweep(p: RidgeProblem, x: biased.Unknowns) -> tuple[biased.Unknowns, float, Array]:
    """One sweep of the kernels from the reference's unknowns, J after it, and the users as they were solved."""
    shared = Shared(x.intercept, x.gamma)
    of_items = ridge_sums.item_sums(rows_of(p, x)[1], p.items.exposure, p.design)
    users = solvers.solve_rows(
        p.users, ridge.users_system(p.users, rows_of(p, x)[1], of_items, shared, p.design, p.reg)
    )
    users = p.design.rows_of(users, p.users.covariates, RANK)
    of_users = ridge_sums.user_sums(users, p.users.exposure, p.design)
    of_users |= ridge_sums.penalty(users, p.users, True, shared, p.design, p.reg)
    items = solvers.solve_rows(p.items, ridge.items_system(p.items, users, of_users, shared, p.design, p.reg))
    items = p.design.rows_of(items, p.items.covariates, RANK)
    of_items = ridge_sums.item_sums(items, p.items.exposure, p.design)
    of_items |= ridge_sums.observed_sums(p.items, items, users, shared, p.design)
    of_items |= ridge_sums.penalty(items, p.items, False, shared, p.design, p.reg)
    after, value = ridge_sums.shared_and_objective(of_users, of_items, shared, p.design, p.reg, True)
    moved = users.copy()
    if p.users.has_confounder and p.design.per_user:
        moved[:, -1] += after.gamma - shared.gamma  # departures stay where they are
    return unknowns_of(p, x, moved, items, after), value, users


KINDS = {
    # w0, z, whose weight, biases, by count, own exposure left out
    "classical": (0.0, False, "none", False, False, False),
    "weighted": (1.0, True, "none", False, False, False),
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
    "covariates": (0.0, False, "none", False, True, False, (1, 2)),
    "covariates-rated-alone": (0.0, False, "pooled", True, False, True, (3, 2)),
    "covariates-everywhere": (0.37, True, "pooled", True, False, True, (2, 3)),
    "covariates-own-everywhere": (1.0, True, "user", True, False, False, (1, 0)),
    "covariates-probabilistic": (0.37, False, "global", True, False, True, (0, 2)),
}


def problem_of(seed: int, kind: str) -> RidgeProblem:
    w0, everywhere, weight_of, biases, *further = KINDS[kind]
    per_user = weight_of in ("none", "user", "pooled")
    covariates = further[2:] or [(0, 0)]
    design = Design(w0, everywhere, per_user, weight_of == "pooled", biases, *covariates[0])
    return ridge_problem(seed, design, weight_of, *further)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_sweeps_match_the_dense_reference_and_the_objective_never_rises(seed: int, kind: str) -> None:
    p = problem_of(seed, kind)
    x = reference = p.start
    history = []
    for _ in range(4):
        before = x
        (x, value, users), reference = sweep(p, x), biased.sweep(p.dense, reference)
        assert_same(users, rows_of(p, biased.update_users(p.dense, before))[0], 1e-8)
        assert value == pytest.approx(biased.objective(p.dense, x), rel=1e-10)
        history.append(value)
    for mine, theirs in zip(rows_of(p, x), rows_of(p, reference), strict=True):
        assert_same(mine, theirs, 1e-7)
    assert (x.intercept, x.gamma) == pytest.approx((reference.intercept, reference.gamma), rel=1e-7, abs=1e-9)
    assert (np.diff(history) <= 1e-10 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("kind", ["classical", "pooled-everywhere", "global-everywhere", "covariates-everywhere"])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_error_of_held_out_pairs_is_that_of_the_predictions(seed: int, kind: str) -> None:
    """The observed pairs stand in for them; the shared terms come later than the sums."""
    p = problem_of(seed, kind)
    x = biased.sweep(p.dense, p.start)
    after = biased.update_shared(p.dense, x)
    users, items = rows_of(p, x)
    sums = ridge_sums.held_out_sums(p.items, items, users, Shared(x.intercept, x.gamma), p.design)
    observed = np.zeros(p.dense.ratings.shape, bool)
    observed[p.items.col, np.repeat(np.arange(len(items)), np.diff(p.items.row_ptr))] = True
    error = (p.dense.ratings - biased.predict(p.dense, after))[observed]
    found = ridge_sums.held_out_error(sums, Shared(after.intercept, after.gamma, 3.0))
    assert found == pytest.approx(np.square(error).mean(), rel=1e-9)


def single(p: RidgeProblem) -> RidgeProblem:
    def narrowed(block: RatingBlock) -> RatingBlock:
        return RatingBlock(*block[:2], *(array.astype(np.float32) for array in block[2:]))

    start: Any = replace(p.start, beta=p.start.beta.astype(np.float32))
    return p._replace(users=narrowed(p.users), items=narrowed(p.items), start=start)


@pytest.mark.parametrize("kind", ["biases-everywhere-by-count", "pooled-everywhere"])
@settings(max_examples=5)
@given(seed=SEEDS)
def test_single_precision_agrees_to_a_thousandth(seed: int, kind: str) -> None:
    p = problem_of(seed, kind)
    of_items = ridge_sums.item_sums(rows_of(p, p.start)[1], p.items.exposure, p.design)
    small = single(p)
    beta = rows_of(small, small.start)[1].astype(np.float32)
    shared = Shared(p.start.intercept, 0.3)
    found = solvers.solve_rows(small.users, ridge.users_system(small.users, beta, of_items, shared, p.design, p.reg))
    assert found.dtype == np.float32
    assert_same(
        found,
        solvers.solve_rows(
            p.users, ridge.users_system(p.users, rows_of(p, p.start)[1], of_items, shared, p.design, p.reg)
        ),
        2e-3,
    )


def solve_users(p: RidgeProblem, users: RatingBlock | None = None) -> Array:
    """The users, or others in their place, given the items that the problem starts from."""
    items = rows_of(p, p.start)[1]
    sums, block = ridge_sums.item_sums(items, p.items.exposure, p.design), users or p.users
    shared = Shared(p.start.intercept, 0.3)
    return solvers.solve_rows(block, ridge.users_system(block, items, sums, shared, p.design, p.reg))


def one_row(block: RatingBlock, row: int, pairs: slice = slice(None)) -> RatingBlock:
    """Some pairs of one row, alone in a block."""
    at = range(block.row_ptr[row], block.row_ptr[row + 1])[pairs]
    of_pairs = [array[at.start : at.stop] for array in block[1:5]]
    low_rank = block.low_rank[at.start : at.stop]
    return RatingBlock(np.array([0, len(at)]), *of_pairs, block.exposure[row : row + 1], low_rank)


@pytest.mark.parametrize("kind", ["classical", "pooled-everywhere"])
def test_a_row_does_not_depend_on_the_rows_next_to_it(kind: str) -> None:
    p = problem_of(6, kind)
    users = solve_users(p)
    for row in range(len(users)):
        assert_same(solve_users(p, one_row(p.users, row))[0], users[row], 1e-12)


@pytest.mark.parametrize("kind", ["weighted", "biases-global", "pooled-everywhere"])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_an_item_is_solved_by_sums_over_parts_of_its_users(seed: int, kind: str) -> None:
    """As heavy items are, whose own block has none of their pairs."""
    p = problem_of(seed, kind)
    users, shared = np.random.default_rng(seed).standard_normal(rows_of(p, p.start)[0].shape), Shared(0.2, 0.3)
    sums = ridge_sums.user_sums(users, p.users.exposure, p.design)
    whole = solvers.solve_rows(p.items, ridge.items_system(p.items, users, sums, shared, p.design, p.reg))
    for row in range(len(whole)):
        half_way = len(one_row(p.items, row).col) // 2
        parts = [one_row(p.items, row, part) for part in (slice(half_way), slice(half_way, None))]
        none = parts[0].empty_row()._replace(elsewhere=np.diff(p.items.row_ptr)[row : row + 1])
        parts = [part._replace(exposure=np.zeros_like(part.exposure)) for part in parts]
        added = [solvers.sums_over_pairs(part, users, sums["augmented"], shared, p.design) for part in parts]
        half, right = (sum(part[0] for part in of_parts) for of_parts in zip(*added, strict=True))
        system = ridge.items_system(none, users, sums, shared, p.design, p.reg).of_row(0, half, right)
        assert_same(solvers.solve_rows(none, system)[0], whole[row], 1e-9)


def test_a_row_with_negative_weights_is_nan_alone() -> None:
    p = problem_of(3, "classical")
    weight = p.users.weight.copy()
    weight[p.users.row_ptr[1] : p.users.row_ptr[2]] = -1e6
    found = solve_users(p, p.users._replace(weight=weight))
    assert np.isnan(found[1]).all()
    assert_same(np.delete(found, 1, 0), np.delete(solve_users(p), 1, 0), 1e-12)


def test_an_unrated_row_without_regularisation_is_nan() -> None:
    p = problem_of(4, "classical")
    assert np.isnan(solve_users(p._replace(reg=Regulariser(0.0, 0.0, 0.0, 0.0)))[0]).all()
