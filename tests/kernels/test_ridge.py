"""Least squares over all pairs: every update, the intercept and the objective as the dense twin has them."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import cholesky, csr, ridge, ridge_sums
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, Shared
from tests.kernels import ways
from tests.problems import RatingProblem, assert_same, rating_problem, user_rows
from tests.reference import ridge as dense
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
examples = settings(max_examples=25)
designs = pytest.mark.parametrize(
    "design",
    [Design(w0, everywhere) for everywhere in (False, True) for w0 in (0.0, 0.37, 1.0)]
    + [Design(w0, everywhere, per_user=False) for everywhere, w0 in ((False, 0.37), (False, 0.0), (True, 1.0))],
    ids=lambda d: f"{'weighted' if d.everywhere else 'probabilistic'}-{d.unobserved}{'' if d.per_user else '-global'}",
)
with_and_without = pytest.mark.parametrize("confounder", [True, False], ids=["deconfounded", "classical"])
ALL_TERMS = Design(0.37, True)


@pytest.fixture(scope="module", autouse=True, params=["numpy", "loops"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """In NumPy, as small problems are, and by compiled loops, as large ones."""
    with ways.loops() if request.param == "loops" else nullcontext():
        yield


def problem_of(seed: int, design: Design, confounder: bool, **settings: Any) -> RatingProblem:
    return rating_problem(np.random.default_rng(seed), design, confounder, **settings)


def users_by_kernel(p: RatingProblem, factors: dense.Factors) -> Array:
    sums = ridge_sums.item_sums(factors.item_attribute, p.items.exposure, p.design)
    return cholesky.solve_rows(
        p.users, ridge.users_system(p.users, factors.item_attribute, sums, shared_of(p, factors), p.design, p.reg)
    )


def items_by_kernel(p: RatingProblem, factors: dense.Factors) -> Array:
    users = user_rows(factors, has_own_weights(p))
    sums = ridge_sums.user_sums(users, p.users.exposure, p.design)
    return cholesky.solve_rows(
        p.items, ridge.items_system(p.items, users, sums, shared_of(p, factors), p.design, p.reg)
    )


def has_own_weights(p: RatingProblem) -> bool:
    return p.users.has_confounder and p.design.per_user


def shared_of(p: RatingProblem, factors: dense.Factors) -> Shared:
    return Shared(factors.intercept, 0.0 if p.design.per_user else float(factors.confounder_weight[0]))


def shared_and_objective(p: RatingProblem, factors: dense.Factors, fit_intercept: bool = True) -> tuple[Shared, float]:
    users, now = user_rows(factors, has_own_weights(p)), shared_of(p, factors)
    items = {
        **ridge_sums.item_sums(factors.item_attribute, p.items.exposure, p.design),
        **ridge_sums.observed_sums(p.items, factors.item_attribute, users, now, p.design),
        **ridge_sums.penalty(factors.item_attribute, p.items, False, now, p.design, p.reg),
    }
    of_users = {
        **ridge_sums.user_sums(users, p.users.exposure, p.design),
        **ridge_sums.penalty(users, p.users, True, now, p.design, p.reg),
    }
    return ridge_sums.shared_and_objective(of_users, items, now, p.design, p.reg, fit_intercept)


def with_shared(p: RatingProblem, factors: dense.Factors, shared: Shared) -> dense.Factors:
    factors = replace(factors, intercept=shared.intercept)
    if not p.users.has_confounder or p.design.per_user:
        return factors
    return replace(factors, confounder_weight=np.full_like(factors.confounder_weight, shared.gamma))


def with_users(factors: dense.Factors, users: Array) -> dense.Factors:
    rank = factors.item_attribute.shape[1]
    gamma = users[:, rank] if users.shape[1] > rank else factors.confounder_weight
    return replace(factors, user_preference=users[:, :rank], confounder_weight=gamma)


def sweep(p: RatingProblem, factors: dense.Factors) -> tuple[dense.Factors, float]:
    """Users, items, what all pairs share; and J there."""
    factors = with_users(factors, users_by_kernel(p, factors))
    factors = replace(factors, item_attribute=items_by_kernel(p, factors))
    shared, objective = shared_and_objective(p, factors)
    return with_shared(p, factors, shared), objective


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_users_are_the_twins(seed: int, design: Design, confounder: bool) -> None:
    """Preference and confounder weight in one system; weights on either side of w0, unrated users too."""
    p = problem_of(seed, design, confounder)
    expected = user_rows(dense.update_users(p.twin, p.factors), has_own_weights(p))
    actual = users_by_kernel(p, p.factors)
    assert actual.shape == expected.shape
    assert_same(actual, expected, 1e-10)


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_items_are_the_twins(seed: int, design: Design, confounder: bool) -> None:
    p = problem_of(seed, design, confounder)
    assert_same(items_by_kernel(p, p.factors), dense.update_items(p.twin, p.factors).item_attribute, 1e-10)


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_shared_terms_and_objective_are_the_twins(seed: int, design: Design, confounder: bool) -> None:
    """The intercept and, where it is global, gamma: one quadratic in both."""
    p = problem_of(seed, design, confounder)
    expected = dense.update_shared(p.twin, p.factors)
    shared, objective = shared_and_objective(p, p.factors)
    assert_same(shared, shared_of(p, expected), 1e-8)
    assert objective == pytest.approx(dense.objective(p.twin, expected), rel=1e-12)


@designs
@with_and_without
def test_without_an_intercept_the_objective_is_at_zero(design: Design, confounder: bool) -> None:
    p = problem_of(1, design, confounder)
    shared, objective = shared_and_objective(p, p.factors, fit_intercept=False)
    assert shared.intercept == 0.0
    twin = replace(p.twin, fit_intercept=False)
    at_zero = dense.objective(twin, dense.update_shared(twin, replace(p.factors, intercept=0.0)))
    assert objective == pytest.approx(at_zero, rel=1e-12)


@designs
@with_and_without
@settings(max_examples=8)
@given(seed=SEEDS)
def test_sweeps_follow_the_twin_and_the_objective_never_rises(seed: int, design: Design, confounder: bool) -> None:
    p = problem_of(seed, design, confounder)
    factors, twin, history = p.factors, p.factors, [dense.objective(p.twin, p.factors)]
    for _ in range(4):
        (factors, objective), twin = sweep(p, factors), dense.sweep(p.twin, twin)
        history.append(objective)
        assert objective == pytest.approx(dense.objective(p.twin, factors), rel=1e-12)
    assert_same(user_rows(factors, True), user_rows(twin, True), 1e-8)
    assert_same(factors.item_attribute, twin.item_attribute, 1e-8)
    assert_same(factors.intercept, twin.intercept, 1e-8)
    assert (np.diff(history) <= 1e-12 * np.array(history[:-1])).all()


@settings(max_examples=8)
@given(seed=SEEDS)
def test_the_objective_of_heavy_weights_keeps_its_digits(seed: int) -> None:
    """Weights to 200, as 1 + 40 y gives them."""
    p = problem_of(seed, Design(1.0, True), True, heaviest=200.0)
    factors, objective = sweep(p, p.factors)
    assert objective == pytest.approx(dense.objective(p.twin, factors), rel=1e-12)


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_the_error_of_held_out_pairs_is_that_of_the_predictions(seed: int, design: Design, confounder: bool) -> None:
    """Here the observed pairs stand in for them; the shared terms may come later than the sums."""
    p = problem_of(seed, design, confounder)
    users, shared = user_rows(p.factors, has_own_weights(p)), shared_of(p, p.factors)
    sums = ridge_sums.held_out_sums(p.items, p.factors.item_attribute, users, shared, p.design)
    at = np.repeat(np.arange(len(p.items.row_ptr) - 1), np.diff(p.items.row_ptr))
    error = (p.twin.ratings - dense.predict(p.twin, p.factors))[p.items.col, at]
    assert ridge_sums.held_out_error(sums, shared) == pytest.approx(np.square(error).mean(), rel=1e-10)


@with_and_without
@examples
@given(seed=SEEDS)
def test_a_row_comes_out_as_it_does_alone(seed: int, confounder: bool) -> None:
    """So neither the order of the rows nor the block in which they lie matters."""
    p = problem_of(seed, ALL_TERMS, confounder)
    users, items = users_by_kernel(p, p.factors), items_by_kernel(p, p.factors)
    for row in range(len(users)):
        alone = users_by_kernel(p._replace(users=one_row(p.users, row)), p.factors)
        assert_same(alone[0], users[row], 1e-12)
    for row in range(len(items)):
        alone = items_by_kernel(p._replace(items=one_row(p.items, row)), p.factors)
        assert_same(alone[0], items[row], 1e-12)


def one_row(block: RatingBlock, row: int) -> RatingBlock:
    start, end = block.row_ptr[row], block.row_ptr[row + 1]
    values = [array[start:end] for array in block[1:5]]
    return RatingBlock(np.array([0, end - start]), *values, block.exposure[row : row + 1])


@designs
@with_and_without
@examples
@given(seed=SEEDS)
def test_an_item_is_solved_by_sums_over_parts_of_its_users(seed: int, design: Design, confounder: bool) -> None:
    """Where its own block has none of its pairs."""
    p = problem_of(seed, design, confounder)
    users, shared = user_rows(p.factors, has_own_weights(p)), shared_of(p, p.factors)
    sums = ridge_sums.user_sums(users, p.users.exposure, p.design)
    whole = items_by_kernel(p, p.factors)
    for row in range(len(whole)):
        mine = one_row(p.items, row)
        half_way = len(mine.col) // 2
        parts = [mine.piece(0, half_way), mine.piece(half_way, len(mine.col))]
        added = [
            cholesky.sums_over_pairs(part, users, sums["augmented"], shared, p.design)
            for part in (part._replace(exposure=np.zeros_like(mine.exposure)) for part in parts)
        ]
        half, right = (sum(part[0] for part in of_parts) for of_parts in zip(*added, strict=True))
        none = mine.piece(0, 0)
        system = ridge.items_system(none, users, sums, shared, p.design, p.reg).of_row(0, half, right)
        assert_same(cholesky.solve_rows(none, system)[0], whole[row], 1e-9)


@pytest.mark.parametrize("piece", [1, 2, 3])
@with_and_without
def test_heavy_rows_in_pieces_give_the_same(piece: int, confounder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(5):
        p = problem_of(seed, ALL_TERMS, confounder)
        monkeypatch.setattr(csr, "PIECE", 1 << 15)
        users, items = users_by_kernel(p, p.factors), items_by_kernel(p, p.factors)
        best = shared_and_objective(p, p.factors)
        monkeypatch.setattr(csr, "PIECE", piece)
        assert_same(users_by_kernel(p, p.factors), users, 1e-12)
        assert_same(items_by_kernel(p, p.factors), items, 1e-12)
        again = shared_and_objective(p, p.factors)
        assert (*again[0], again[1]) == pytest.approx((*best[0], best[1]), rel=1e-12)


@designs
@with_and_without
@settings(max_examples=10)
@given(seed=SEEDS)
def test_single_precision_agrees_to_a_thousandth(seed: int, design: Design, confounder: bool) -> None:
    """Of the largest entry; the sums over all pairs stay in double precision."""
    p = problem_of(seed, design, confounder)
    small = p._replace(users=single(p.users), items=single(p.items))
    factors = replace(
        p.factors,
        user_preference=p.factors.user_preference.astype(np.float32),
        item_attribute=p.factors.item_attribute.astype(np.float32),
        confounder_weight=p.factors.confounder_weight.astype(np.float32),
    )
    users, items = users_by_kernel(small, factors), items_by_kernel(small, factors)
    assert users.dtype == items.dtype == np.float32
    assert_same(users, users_by_kernel(p, p.factors), 1e-3)
    assert_same(items, items_by_kernel(p, p.factors), 1e-3)
    sums = ridge_sums.user_sums(users, small.users.exposure, design)
    assert {array.dtype for array in sums.values()} == {np.dtype(np.float64)}


def single(block: RatingBlock) -> RatingBlock:
    return RatingBlock(*block[:2], *(array.astype(np.float32) for array in block[2:]))


@with_and_without
def test_a_row_without_a_solution_is_nan_and_the_others_are_not(confounder: bool) -> None:
    """Negative weights make no minimum; user 1 alone has them."""
    p = problem_of(3, Design(0.0, False), confounder)
    weight = p.users.weight.copy()
    weight[p.users.row_ptr[1] : p.users.row_ptr[2]] = -1e6
    actual = users_by_kernel(p._replace(users=p.users._replace(weight=weight)), p.factors)
    assert np.isnan(actual[1]).all()
    assert_same(np.delete(actual, 1, 0), np.delete(users_by_kernel(p, p.factors), 1, 0), 1e-12)


def test_an_unrated_row_without_regularisation_is_nan() -> None:
    """Nothing says where it should be; user 0 and the last item are unrated."""
    p = problem_of(4, Design(0.0, False), False)._replace(reg=Regulariser(0.0, 0.0, 0.0, 0.0))
    assert np.isnan(users_by_kernel(p, p.factors)[0]).all()
    assert np.isnan(items_by_kernel(p, p.factors)[-1]).all()


def test_row_sums_of_empty_rows_are_zero() -> None:
    pointer = np.array([0, 0, 2, 2, 3, 3])
    np.testing.assert_array_equal(csr.row_sums(pointer, np.array([1.0, 2.0, 4.0])), [0, 3, 0, 4, 0])
    np.testing.assert_array_equal(csr.row_sums(np.array([0, 0]), np.empty(0)), [0])


def test_inputs_are_left_alone() -> None:
    """They are read-only views in a fit."""
    p = problem_of(5, ALL_TERMS, True)
    factors = (p.factors.user_preference, p.factors.item_attribute, p.factors.confounder_weight)
    inputs = [array for array in (*p.users, *p.items, *factors) if array is not None]
    before = [array.copy() for array in inputs]
    for array in inputs:
        array.flags.writeable = False
    sweep(p, p.factors)
    for array, old in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(array, old)
