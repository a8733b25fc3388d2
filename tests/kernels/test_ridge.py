"""Least squares over all pairs: each step, the shared terms and J match the dense reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import ridge, ridge_sums, solvers
from dcrec_spark.kernels.ridge_terms import RatingBlock, Shared
from tests.kernels.problems import KINDS, LARGE, RidgeProblem, problem_of
from tests.problems import assert_same
from tests.reference import ridge as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)


def sweep(p: RidgeProblem, x: dense.Unknowns) -> tuple[dense.Unknowns, float, Array]:
    """One sweep of the kernels from the reference's unknowns, J after it, and the users as they were solved."""
    shared = Shared(x.intercept, x.gamma)
    users = p.design.rows_of(solvers.solve_rows(p.users_system(x)), p.users.covariates, True)
    of_users = ridge_sums.side_sums(users, p.users.exposure, p.design, True)
    of_users |= ridge_sums.penalty(users, p.users, True, shared, p.design)
    items = solvers.solve_rows(ridge.row_systems(p.items, users, of_users, shared, p.design, of_users=False))
    items = p.design.rows_of(items, p.items.covariates, False)
    of_items = ridge_sums.side_sums(items, p.items.exposure, p.design, False)
    of_items |= ridge_sums.observed_sums(p.items, items, users, shared, p.design)
    of_items |= ridge_sums.penalty(items, p.items, False, shared, p.design)
    after, value = ridge_sums.shared_and_objective(of_users, of_items, shared, p.design, True)
    moved = users.copy()
    if p.users.has_confounder and p.design.per_user:
        moved[:, -1] += after.gamma - shared.gamma  # departures stay where they are
    return p.unknowns(x, moved, items, after), value, users


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_sweeps_match_the_dense_reference_and_the_objective_never_rises(seed: int, kind: str) -> None:
    p = problem_of(seed, kind)
    x = reference = p.start
    history = []
    for _ in range(4):
        before = x
        (x, value, users), reference = sweep(p, x), dense.sweep(p.dense, reference)
        assert_same(users, p.rows(dense.update_users(p.dense, before))[0], 1e-8)
        assert value == pytest.approx(dense.objective(p.dense, x), rel=1e-10)
        history.append(value)
    for mine, theirs in zip(p.rows(x), p.rows(reference), strict=True):
        assert_same(mine, theirs, 1e-7)
    assert (x.intercept, x.gamma) == pytest.approx((reference.intercept, reference.gamma), rel=1e-7, abs=1e-9)
    assert (np.diff(history) <= 1e-10 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("kind", ["classical", "pooled-everywhere", "global-everywhere", "covariates-everywhere"])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_error_of_held_out_pairs_is_that_of_the_predictions(seed: int, kind: str) -> None:
    """The observed pairs stand in for them; the shared terms come later than the sums."""
    p = problem_of(seed, kind)
    x = dense.sweep(p.dense, p.start)
    after = dense.update_shared(p.dense, x)
    users, items = p.rows(x)
    sums = ridge_sums.held_out_sums(p.items, items, users, Shared(x.intercept, x.gamma), p.design)
    error = (p.dense.ratings - dense.predict(p.dense, after, p.dense.h))[p.observed]
    found = ridge_sums.held_out_error(sums, Shared(after.intercept, after.gamma, 3.0))
    assert found == pytest.approx(np.square(error).mean(), rel=1e-9)


@pytest.mark.parametrize("kind", ["classical", "weighted-global", "pooled-everywhere", "covariates-everywhere"])
@pytest.mark.parametrize(("single", "tolerance"), [(False, 1e-8), (True, 2e-3)], ids=["double", "single"])
def test_blocks_beyond_a_piece_of_the_loops_match_the_dense_reference(
    kind: str, single: bool, tolerance: float
) -> None:
    p = problem_of(0, kind, LARGE, rank=13)
    x, value, users = sweep(p.narrowed() if single else p, (p.narrowed() if single else p).start)
    assert users.dtype == (np.float32 if single else np.float64)
    assert_same(users, p.rows(dense.update_users(p.dense, p.start))[0], tolerance)
    reference = dense.sweep(p.dense, p.start)
    for mine, theirs in zip(p.rows(x), p.rows(reference), strict=True):
        assert_same(mine, theirs, tolerance)
    assert value == pytest.approx(dense.objective(p.dense, reference), rel=tolerance)


def one_row(block: RatingBlock, row: int, pairs: slice = slice(None)) -> RatingBlock:
    at = range(block.row_ptr[row], block.row_ptr[row + 1])[pairs]
    of_pairs = [array[at.start : at.stop] for array in block[1:6]]
    return RatingBlock(np.array([0, len(at)]), *of_pairs, block.exposure[row : row + 1])


@pytest.mark.parametrize(
    ("kind", "ridge_rows", "right_rows"),
    [("classical", 1, 1), ("weighted-user", 1, 40), ("biases-everywhere-by-count", 40, 1)],
)
def test_numbers_that_all_rows_share_are_held_once(kind: str, ridge_rows: int, right_rows: int) -> None:
    p = problem_of(3, kind, (40, 30))
    system = p.users_system(p.start)
    assert (len(system.ridge), len(system.right)) == (ridge_rows, right_rows)
    each = system._replace(**{n: np.broadcast_to(getattr(system, n), system.shape) for n in ("ridge", "right")})
    np.testing.assert_array_equal(solvers.solve_rows(system), solvers.solve_rows(each))
    padded = system.full_sources(8)
    np.testing.assert_array_equal(padded[:, : system.shape[1]], system.full_sources())
    assert padded.shape[1] % 8 == 0
    assert not padded[:, system.shape[1] :].any()


@pytest.mark.parametrize(
    "kind", ["classical", "weighted", "biases-everywhere-by-count", "biases-global", "pooled-everywhere"]
)
@settings(max_examples=10)
@given(seed=SEEDS)
def test_an_item_is_solved_by_sums_over_parts_of_its_users(seed: int, kind: str) -> None:
    """As heavy items are, whose own block has none of their pairs."""
    p = problem_of(seed, kind)
    users, shared = np.random.default_rng(seed).standard_normal(p.rows(p.start)[0].shape), Shared(0.2, 0.3)
    sums = ridge_sums.side_sums(users, p.users.exposure, p.design, True)
    whole = solvers.solve_rows(ridge.row_systems(p.items, users, sums, shared, p.design, of_users=False))
    counts = np.diff(p.items.row_ptr)
    nothing = one_row(p.items, 0, slice(0))
    nothing = nothing._replace(row_ptr=np.zeros_like(p.items.row_ptr), exposure=p.items.exposure, elsewhere=counts)
    none = ridge.row_systems(nothing, users, sums, shared, p.design, of_users=False)
    for row in range(len(whole)):
        half_way = len(one_row(p.items, row).col) // 2
        parts = [one_row(p.items, row, part) for part in (slice(half_way), slice(half_way, None))]
        parts = [part._replace(exposure=np.zeros_like(part.exposure)) for part in parts]
        added = [solvers.sums_over_pairs(part, users, sums["augmented"], shared, p.design) for part in parts]
        half, right = (sum(part[0] for part in of_parts) for of_parts in zip(*added, strict=True))
        assert_same(solvers.solve_rows(none.of_row(row, half, right))[0], whole[row], 1e-9)
