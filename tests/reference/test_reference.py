"""The dense references against what they are derived from: bounds by draws, optima by moving away from them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.kernels.problems import KINDS, problem_of

from . import certainty, poisson, ridge


def test_elbo_is_the_mean_of_log_p_minus_log_q_over_draws_of_q() -> None:
    """Nothing analytic is shared with the reference: draws of pi, lambda and z, and densities of scipy."""
    rng = np.random.default_rng(0)
    exposures = rng.poisson(2.0, size=(2, 3)).astype(float)
    data = poisson.exposures_of(exposures)
    state = poisson.sweep(poisson.initial_state(rng, data, rank=2), data)
    phi, draws = poisson.responsibilities(state, data)[..., :2], 40_000
    pi = rng.gamma(state.user_shape, 1.0 / state.user_rate, size=(draws, 2, 2))
    lam = rng.gamma(state.item_shape, 1.0 / state.item_rate, size=(draws, 3, 2))
    log_ratio = stats.gamma.logpdf(pi, 0.3, scale=1 / 0.3).sum(axis=(1, 2))
    log_ratio += stats.gamma.logpdf(lam, 0.3, scale=1 / 0.3).sum(axis=(1, 2))
    log_ratio -= stats.gamma.logpdf(pi, state.user_shape, scale=1 / state.user_rate).sum(axis=(1, 2))
    log_ratio -= stats.gamma.logpdf(lam, state.item_shape, scale=1 / state.item_rate).sum(axis=(1, 2))
    for u, i in np.ndindex(2, 3):
        z = rng.multinomial(int(exposures[u, i]), phi[u, i], size=draws)
        log_ratio += stats.poisson.logpmf(z, pi[:, u] * lam[:, i]).sum(axis=1)
        log_ratio -= stats.multinomial.logpmf(z, int(exposures[u, i]), phi[u, i])
    error = log_ratio.std() / np.sqrt(draws)
    assert poisson.elbo(state, data) == pytest.approx(log_ratio.mean(), abs=5.0 * error)
    assert error < 0.05


@pytest.mark.parametrize("confounder", ["user", "global"])
def test_no_coordinate_of_a_fresh_block_can_raise_the_elbo(confounder: str) -> None:
    """Each q is optimal for the phi it was made from: moving its parameters at that phi lowers the bound.

    Ratings come in halves, unrated pairs weigh 0.3.
    """
    rng = np.random.default_rng(1)
    observed = rng.random((6, 5)) < 0.5
    ratings = np.where(observed, rng.integers(0, 10, observed.shape) / 2.0, 0.0)
    weights = np.where(observed, rng.uniform(0.2, 2.0, observed.shape), 0.3)
    data = poisson.Data(ratings, weights, rng.gamma(1.0, 1.0, observed.shape), confounder)
    state = poisson.initial_state(rng, data, rank=2)
    is_common = confounder == "global"
    steps: list[tuple[Callable[..., poisson.State], list[str]]] = [
        (poisson.update_users, ["user", *["confounder"] * (not is_common)]),
        (poisson.update_items, ["item"]),
        (poisson.update_shared, ["intercept", *["confounder"] * is_common]),
    ]
    for update, blocks in steps:
        phi = poisson.responsibilities(state, data)
        state = update(state, data)
        best = poisson.elbo(state, data, phi=phi)
        for field in (f"{block}_{part}" for block in blocks for part in ("shape", "rate")):
            for factor in (0.9, 1.1):
                moved = replace(state, **{field: getattr(state, field) * factor})
                assert poisson.elbo(moved, data, phi=phi) < best


def slope(problem: ridge.Problem, x: ridge.Unknowns, *fields: str) -> float:
    """Largest central difference of J, exact for a quadratic, by each entry of the fields, which move together."""
    largest, size = 0.0, np.size(getattr(x, fields[0]))
    for move in 1e-3 * np.eye(size):
        moves = {name: move.reshape(np.shape(getattr(x, name)) if size > 1 else ()) for name in fields}
        ends = [replace(x, **{name: getattr(x, name) + sign * m for name, m in moves.items()}) for sign in (1, -1)]
        largest = max(largest, abs(ridge.objective(problem, ends[0]) - ridge.objective(problem, ends[1])) / 2e-3)
    return largest


@pytest.mark.parametrize("kind", KINDS)
def test_each_block_of_least_squares_is_solved_to_a_flat_objective(kind: str) -> None:
    problem, x = problem_of(1, kind).dense, problem_of(1, kind).start
    before = ridge.objective(problem, x)
    blocks: list[tuple[Callable[..., ridge.Unknowns], list[tuple[str, ...]]]] = [
        (
            ridge.update_users,
            [("theta",), ("kappa",), *[("user_bias",)] * problem.biases, *[("weight",)] * problem.own],
        ),
        (ridge.update_items, [("beta",), ("rho",), *[("item_bias",)] * problem.biases]),
        (ridge.update_shared, [("intercept",), *[("gamma", "weight")] * problem.common]),
    ]
    for update, fields in [*blocks, *blocks]:
        x = update(problem, x)
        for names in fields:
            assert slope(problem, x, *names) < 1e-8 * before
        assert ridge.objective(problem, x) <= before


def test_biases_of_a_balanced_table_leave_the_freedom_of_two_ways() -> None:
    """Without regularisation rows and columns take U + I - 1 degrees of freedom, not U + I."""
    ones, reg = np.ones((5, 7)), dict.fromkeys(("user_bias_reg", "item_bias_reg", "intercept_reg"), 1e-12)
    ratings = np.random.default_rng(1).normal(3.0, 1.0, ones.shape)
    problem = ridge.Problem(ratings, ones, ones, 0.0 * ones, "none", np.ones(5), np.ones(7), **reg)
    x = ridge.start(problem, np.zeros((7, 2)), 0.0)
    for _ in range(2):
        x = ridge.sweep(problem, x)
    two_way = ratings - ratings.mean(axis=1, keepdims=True) - ratings.mean(axis=0) + ratings.mean()
    found = certainty.certainty(problem, x, ones > 0, 0.0 * ones)
    assert found.noise == pytest.approx(np.sum(two_way**2) / (4 * 6), rel=1e-9)
