"""Biases, a common confounder weight, departures from it: each step and J are those of the dense reference."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import cholesky, ridge, ridge_sums
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, Shared
from tests.problems import assert_same, csr, random_counts
from tests.reference import biased
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
REG = Regulariser(0.7, 1.3, 0.4, 0.2, 0.9, 1.7)
RANK = 2


class Extended(NamedTuple):
    """One problem: both sides' blocks, and the dense twin's tables with unknowns to start from."""

    users: RatingBlock
    items: RatingBlock
    design: Design
    reg: Regulariser
    twin: biased.Problem
    start: biased.Unknowns


def extended(
    seed: int,
    design: Design,
    weight_of: str,
    by_count: bool,
    own_vote: bool,
) -> Extended:
    """User 0 and the last item are unrated. Of an observed pair h may be another number than the product."""
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(3, 9)), int(rng.integers(3, 9))
    observed = random_counts(rng, n_users, n_items) > 0
    ratings = np.where(observed, rng.integers(0, 6, observed.shape), 0.0)
    weights = np.where(observed, rng.uniform(0.05, 3.0, observed.shape), design.unobserved)
    exposed = 2 * (weight_of != "none")
    pi, lam = rng.normal(0.3, 1.0, (n_users, exposed)), rng.normal(0.3, 1.0, (n_items, exposed))
    product = pi @ lam.T
    h = np.where(observed & own_vote, product + rng.normal(0.0, 0.3, product.shape), product)
    count = [np.maximum(observed.sum(axis=a), 1.0) if by_count else np.ones(observed.shape[1 - a]) for a in (1, 0)]
    regs = REG[:6]
    mask = np.where(observed, 1.0, float(design.everywhere))
    twin = biased.Problem(ratings, weights, mask, h, weight_of, count[0], count[1], design.biases, *regs)
    begin = biased.start(twin, rng.standard_normal((n_items, RANK)), RANK, float(rng.standard_normal()))
    tables = (observed, ratings, weights, h, product)
    users = block_of(tables, pi, own_vote)
    items = block_of(tuple(table.T for table in tables), lam, own_vote)
    return Extended(users, items, design, REG._replace(by_count=by_count), twin, begin)


def block_of(tables: tuple[Array, ...], exposure: Array, own_vote: bool) -> RatingBlock:
    entries, none = csr(tables[0]), np.empty(0)
    ratings, weights, h, product = (table[entries.row, entries.col] for table in tables[1:])
    has = exposure.shape[1] > 0
    return RatingBlock(
        *(entries.row_ptr, entries.col, ratings, weights, h if has else none, exposure),
        product if has and own_vote else none,
    )


def rows_of(p: Extended, x: biased.Unknowns) -> tuple[Array, Array]:
    """Users and items as they travel."""
    users = [x.theta, *[x.user_bias[:, None]] * p.design.biases]
    if p.users.has_confounder and p.design.per_user:
        users.append(x.weight[:, None])
    return np.hstack(users), np.hstack([x.beta, *[x.item_bias[:, None]] * p.design.biases])


def unknowns_of(p: Extended, x: biased.Unknowns, users: Array, items: Array, shared: Shared) -> biased.Unknowns:
    """The way back; the weights of users without one of their own follow the common one."""
    biases, own = p.design.biases, p.users.has_confounder and p.design.per_user
    return replace(
        x,
        theta=users[:, :RANK],
        user_bias=users[:, RANK] if biases else x.user_bias,
        weight=users[:, -1] if own else np.full(len(users), shared.gamma),
        beta=items[:, :RANK],
        item_bias=items[:, RANK] if biases else x.item_bias,
        intercept=shared.intercept,
        gamma=shared.gamma,
    )


def sweep(p: Extended, x: biased.Unknowns) -> tuple[biased.Unknowns, float, Array]:
    """One sweep of the kernels from the twin's unknowns, J after it, and the users as they were solved."""
    shared = Shared(x.intercept, x.gamma)
    of_items = ridge_sums.item_sums(rows_of(p, x)[1], p.items.exposure, p.design)
    users = cholesky.solve_rows(
        p.users, ridge.users_system(p.users, rows_of(p, x)[1], of_items, shared, p.design, p.reg)
    )
    of_users = ridge_sums.user_sums(users, p.users.exposure, p.design)
    of_users |= ridge_sums.penalty(users, p.users, True, shared, p.design, p.reg)
    items = cholesky.solve_rows(p.items, ridge.items_system(p.items, users, of_users, shared, p.design, p.reg))
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
    "biases": (0.0, False, "none", True, False, False),
    "biases-everywhere-by-count": (0.37, True, "none", True, True, False),
    "biases-global": (0.37, False, "global", True, True, False),
    "own": (1.0, True, "user", True, False, True),
    "own-without-biases": (0.37, False, "user", False, False, True),
    "pooled": (0.37, False, "pooled", True, False, True),
    "pooled-everywhere": (0.37, True, "pooled", True, True, True),
    "pooled-rated-alone": (0.0, False, "pooled", True, True, True),
    "pooled-without-biases": (1.0, False, "pooled", False, False, False),
    "global-everywhere": (1.0, True, "global", True, False, True),
}


def problem_of(seed: int, kind: str) -> Extended:
    w0, everywhere, weight_of, biases, *further = KINDS[kind]
    per_user = weight_of in ("none", "user", "pooled")
    design = Design(w0, everywhere, per_user, weight_of == "pooled", biases)
    return extended(seed, design, weight_of, *further)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_sweeps_are_the_twins_and_the_objective_never_rises(seed: int, kind: str) -> None:
    p = problem_of(seed, kind)
    x = twin = p.start
    history = []
    for _ in range(4):
        before = x
        (x, value, users), twin = sweep(p, x), biased.sweep(p.twin, twin)
        assert_same(users, rows_of(p, biased.update_users(p.twin, before))[0], 1e-8)
        assert value == pytest.approx(biased.objective(p.twin, x), rel=1e-10)
        history.append(value)
    for mine, theirs in zip(rows_of(p, x), rows_of(p, twin), strict=True):
        assert_same(mine, theirs, 1e-7)
    assert (x.intercept, x.gamma) == pytest.approx((twin.intercept, twin.gamma), rel=1e-7, abs=1e-9)
    assert (np.diff(history) <= 1e-10 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("kind", ["biases", "pooled-everywhere", "global-everywhere"])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_error_of_held_out_pairs_is_that_of_the_predictions(seed: int, kind: str) -> None:
    """The observed pairs stand in for them; the shared terms come later than the sums."""
    p = problem_of(seed, kind)
    x = biased.sweep(p.twin, p.start)
    after = biased.update_shared(p.twin, x)
    users, items = rows_of(p, x)
    sums = ridge_sums.held_out_sums(p.items, items, users, Shared(x.intercept, x.gamma), p.design)
    observed = np.zeros(p.twin.ratings.shape, bool)
    observed[p.items.col, np.repeat(np.arange(len(items)), np.diff(p.items.row_ptr))] = True
    error = (p.twin.ratings - biased.predict(p.twin, after))[observed]
    found = ridge_sums.held_out_error(sums, Shared(after.intercept, after.gamma))
    assert found == pytest.approx(np.square(error).mean(), rel=1e-9)


def single(p: Extended) -> Extended:
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
    found = cholesky.solve_rows(small.users, ridge.users_system(small.users, beta, of_items, shared, p.design, p.reg))
    assert found.dtype == np.float32
    assert_same(
        found,
        cholesky.solve_rows(
            p.users, ridge.users_system(p.users, rows_of(p, p.start)[1], of_items, shared, p.design, p.reg)
        ),
        2e-3,
    )
