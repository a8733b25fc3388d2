"""The Gaussian and top-N twins, and the low-rank formulas against sums over all pairs."""

from dataclasses import replace

import numpy as np
import pytest

from . import low_rank, ridge, topn
from .poisson import Array

MODELS = [
    ("probabilistic", "none", None),
    ("probabilistic", "user", None),
    ("probabilistic", "user", 0.0),
    ("probabilistic", "user", 0.37),
    ("probabilistic", "global", None),
    ("weighted", "none", None),
    ("weighted", "user", None),
    ("weighted", "user", 0.37),
    ("weighted", "user", 0.0),
    ("weighted", "global", None),
]
models = pytest.mark.parametrize(("outcome", "confounder", "unobserved_weight"), MODELS)
propensities = pytest.mark.parametrize("weighted_by_propensity", [False, True])
REGS = {"user_reg": 0.7, "item_reg": 1.3, "confounder_reg": 0.4, "intercept_reg": 0.2}


def small_problem(
    seed: int, outcome: str, confounder: str, unobserved_weight: float | None, weighted_by_propensity: bool
) -> tuple[ridge.Problem, low_rank.LowRankProblem, ridge.Factors]:
    """The same random problem twice; user 0 and the last item are unrated, some ratings are zero."""
    rng = np.random.default_rng(seed)
    n_users, n_items = int(rng.integers(4, 12)), int(rng.integers(4, 12))
    observed = rng.random((n_users, n_items)) < 0.4
    observed[0], observed[:, -1], observed[1, 1] = False, False, True
    ratings = np.where(observed, rng.integers(0, 6, observed.shape), 0.0)
    inverse = rng.uniform(0.2, 3.0, observed.shape) if weighted_by_propensity else np.ones(observed.shape)
    pi, lam = rng.gamma(0.5, 1.0, (n_users, 2)), rng.gamma(0.5, 1.0, (n_items, 2))
    alpha = 5.0
    dense = ridge.make_problem(
        outcome, confounder, ratings, observed, pi @ lam.T, unobserved_weight, inverse, alpha, **REGS
    )
    u, i = np.nonzero(observed)
    w0 = unobserved_weight
    if w0 is None:
        w0 = 0.0 if (outcome, confounder) == ("probabilistic", "none") else 1.0
    weight = inverse[u, i] * (1.0 if outcome == "probabilistic" else 1.0 + alpha * ratings[u, i])
    sparse = low_rank.LowRankProblem(
        u,
        i,
        ratings[u, i],
        weight,
        w0,
        float(outcome == "weighted"),
        pi,
        lam * (confounder != "none"),
        **REGS,
    )
    factors = ridge.Factors(
        rng.standard_normal((n_users, 3)),
        rng.standard_normal((n_items, 3)),
        {"user": rng.standard_normal(n_users), "global": np.full(n_users, 0.6), "none": np.zeros(n_users)}[confounder],
        float(rng.standard_normal()),
    )
    return dense, sparse, factors


def assert_same(actual: Array | float, expected: Array | float) -> None:
    """Equal to 1e-12 of the largest entry: low-rank sums cancel, so a small entry may lose digits."""
    expected = np.asarray(expected, dtype=float)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def flat(system: tuple[Array, Array]) -> Array:
    """A and b of one unknown as two numbers."""
    return np.concatenate([np.ravel(part) for part in system])


@propensities
@models
def test_low_rank_systems_and_objective_equal_the_dense_ones(
    outcome: str, confounder: str, unobserved_weight: float | None, weighted_by_propensity: bool
) -> None:
    for seed in range(10):
        dense, sparse, factors = small_problem(seed, outcome, confounder, unobserved_weight, weighted_by_propensity)
        rank = factors.user_preference.shape[1]
        for u in range(len(factors.user_preference)):
            left, right = low_rank.user_system(sparse, factors, u)
            if confounder == "user":
                assert_same(np.column_stack([left, right]), np.column_stack(ridge.user_system(dense, factors, u)))
            else:
                right = right[:rank] - left[:rank, rank] * factors.confounder_weight[u]
                expected = np.column_stack(ridge.user_system(dense, factors, u))
                assert_same(np.column_stack([left[:rank, :rank], right]), expected)
        for i in range(len(factors.item_attribute)):
            actual = np.column_stack(low_rank.item_system(sparse, factors, i))
            assert_same(actual, np.column_stack(ridge.item_system(dense, factors, i)))
        assert_same(low_rank.intercept_system(sparse, factors), flat(ridge.intercept_system(dense, factors)))
        if confounder == "global":
            expected = flat(ridge.confounder_system(dense, factors))
            assert_same(low_rank.confounder_system(sparse, factors), expected)
        total = low_rank.objective_without_penalty(sparse, factors) + ridge.penalty(dense, factors)
        assert_same(total, ridge.objective(dense, factors))


@propensities
@models
def test_low_rank_solutions_equal_the_dense_ones_over_sweeps(
    outcome: str, confounder: str, unobserved_weight: float | None, weighted_by_propensity: bool
) -> None:
    dense, sparse, factors = small_problem(0, outcome, confounder, unobserved_weight, weighted_by_propensity)
    for _ in range(4):
        if confounder == "user":
            solved = [np.linalg.solve(*low_rank.user_system(sparse, factors, u)) for u in range(len(dense.ratings))]
            after = ridge.update_users(dense, factors)
            assert_same(np.array(solved), np.column_stack([after.user_preference, after.confounder_weight]))
        factors = ridge.update_users(dense, factors)
        solved = [np.linalg.solve(*low_rank.item_system(sparse, factors, i)) for i in range(dense.ratings.shape[1])]
        factors = ridge.update_items(dense, factors)
        assert_same(np.array(solved), factors.item_attribute)
        if confounder == "global":
            left, right = low_rank.confounder_system(sparse, factors)
            factors = ridge.update_confounder(dense, factors)
            assert_same(right / left, factors.confounder_weight[0])
        left, right = low_rank.intercept_system(sparse, factors)
        factors = ridge.update_intercept(dense, factors)
        assert right / left == pytest.approx(factors.intercept, rel=1e-11, abs=1e-12)


def slopes(problem: ridge.Problem, factors: ridge.Factors, field: str, step: float = 1e-3) -> Array:
    """Central differences of J, exact for a quadratic, by each entry of one field (a global gamma is one)."""
    start = np.atleast_1d(np.asarray(getattr(factors, field), dtype=float))
    shared = field == "confounder_weight" and problem.confounder == "global"
    moves = [np.ones_like(start)] if shared else list(np.eye(start.size).reshape(start.size, *start.shape))
    result = []
    for move in moves:
        sides = []
        for sign in (1.0, -1.0):
            moved = start + sign * step * move
            sides.append(
                ridge.objective(problem, replace(factors, **{field: moved[0] if field == "intercept" else moved}))
            )
        result.append((sides[0] - sides[1]) / (2.0 * step))
    return np.array(result)


@propensities
@models
def test_each_block_is_solved_to_a_flat_objective_and_the_objective_never_rises(
    outcome: str, confounder: str, unobserved_weight: float | None, weighted_by_propensity: bool
) -> None:
    dense, _, factors = small_problem(1, outcome, confounder, unobserved_weight, weighted_by_propensity)
    blocks = [(ridge.update_users, ["user_preference"] + ["confounder_weight"] * (confounder == "user"))]
    blocks += [(ridge.update_items, ["item_attribute"])]
    blocks += [(ridge.update_confounder, ["confounder_weight"])] * (confounder == "global")
    blocks += [(ridge.update_intercept, ["intercept"])]
    blocks += [(ridge.update_shared, ["intercept"] + ["confounder_weight"] * (confounder == "global"))]
    for _ in range(3):
        for update, fields in blocks:
            before = ridge.objective(dense, factors)
            tilt = max(np.abs(slopes(dense, factors, field)).max() for field in fields)
            factors = update(dense, factors)
            after = ridge.objective(dense, factors)
            slope = max(np.abs(slopes(dense, factors, field)).max() for field in fields)
            assert slope < 1e-9 * (before + tilt)
            assert after <= before * (1.0 + 1e-12)


@models
def test_a_sweep_is_users_items_and_what_all_pairs_share(
    outcome: str, confounder: str, unobserved_weight: float | None
) -> None:
    dense, _, factors = small_problem(2, outcome, confounder, unobserved_weight, True)
    expected = ridge.update_items(dense, ridge.update_users(dense, factors))
    expected = ridge.update_shared(dense, expected)
    actual = ridge.sweep(dense, factors)
    np.testing.assert_array_equal(actual.user_preference, expected.user_preference)
    np.testing.assert_array_equal(actual.item_attribute, expected.item_attribute)
    np.testing.assert_array_equal(actual.confounder_weight, expected.confounder_weight)
    assert actual.intercept == expected.intercept
    assert ridge.sweep(replace(dense, fit_intercept=False), replace(factors, intercept=0.0)).intercept == 0.0


def test_the_classical_model_ignores_a_hat() -> None:
    dense, _, factors = small_problem(3, "weighted", "none", None, False)
    assert not dense.a_hat.any()
    assert not ridge.sweep(dense, factors).confounder_weight.any()
    expected = factors.user_preference @ factors.item_attribute.T + factors.intercept
    np.testing.assert_array_equal(ridge.predict(dense, factors), expected)


def test_the_weights_of_the_table_by_hand() -> None:
    """Two users, two items, ratings 3 and 0 rated, inverse propensities 2 and 0.5."""
    ratings, observed = np.array([[3.0, 9.0], [9.0, 0.0]]), np.eye(2, dtype=bool)
    inverse = np.array([[2.0, 7.0], [7.0, 0.5]])
    plain = ridge.make_problem("weighted", "none", ratings, observed)
    np.testing.assert_array_equal(plain.weights, [[121.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(plain.ratings, [[3.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(plain.mask, np.ones((2, 2)))
    classical = ridge.make_problem("probabilistic", "none", ratings, observed, inverse_propensity=inverse)
    np.testing.assert_array_equal(classical.weights, [[2.0, 0.0], [0.0, 0.5]])
    np.testing.assert_array_equal(classical.mask, np.eye(2))
    deconfounded = ridge.make_problem("probabilistic", "user", ratings, observed, np.ones((2, 2)))
    np.testing.assert_array_equal(deconfounded.weights, np.ones((2, 2)))
    factors = ridge.Factors(np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]]), np.array([1.0, 0.0]), 0.5)
    # residuals: 3 - 1 - 1 - .5, 0 - 0 - 1 - .5, 0 - 0 - 0 - .5, 0 - 2 - 0 - .5; penalties 5 + 2 + 1 + .25
    assert ridge.objective(deconfounded, factors) == pytest.approx(0.25 + 2.25 + 0.25 + 6.25 + 8.25)


def test_top_n_by_hand() -> None:
    """Ties go to the smaller item, seen items are left out, a user may run out of items."""
    scores = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [0.0, -1.0, -2.0, -3.0]])
    seen = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], dtype=bool)
    assert topn.top_n(scores, 2) == [[1, 2], [0, 1], [0, 1]]
    assert topn.top_n(scores, 3, seen) == [[2, 3, 0], [0, 1, 2], [3]]


def test_scores_are_one_inner_product_and_split_in_two_parts() -> None:
    rng = np.random.default_rng(0)
    theta, beta, gamma = rng.standard_normal((4, 3)), rng.standard_normal((5, 3)), rng.standard_normal(4)
    pi, lam = rng.gamma(1.0, size=(4, 2)), rng.gamma(1.0, size=(5, 2))
    scores = topn.score_all(theta, beta, gamma, pi, lam, intercept=0.7)
    joined = np.hstack([theta, gamma[:, None] * pi]) @ np.hstack([beta, lam]).T + 0.7
    np.testing.assert_allclose(scores.score, joined, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scores.preference, theta @ beta.T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scores.confounder, gamma[:, None] * (pi @ lam.T), rtol=1e-12, atol=1e-14)
    rows = topn.recommend(scores, 2, seen=np.zeros((4, 5), dtype=bool))
    assert [(row.user_idx, row.rank) for row in rows] == [(u, rank) for u in range(4) for rank in (1, 2)]
    for row in rows:
        assert row.score == pytest.approx(row.preference + row.confounder + 0.7)
        assert row.score == scores.score[row.user_idx, row.item_idx]
