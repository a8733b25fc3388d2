"""The Poisson references: the bound is the bound, and ascent ascends."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from . import poisson
from . import poisson_outcome as outcome
from .poisson import Array

SEEDS = range(3)
CONFOUNDERS = ["user", "global", "none"]


def small_exposures(seed: int) -> tuple[np.random.Generator, Array]:
    """A sparse exposure matrix whose first user and last item have no exposure."""
    rng = np.random.default_rng(seed)
    exposures = rng.poisson(0.8, size=(7, 5)).astype(float)
    exposures[0], exposures[:, -1] = 0.0, 0.0
    return rng, exposures


def small_outcome(seed: int, confounder: str = "user") -> tuple[np.random.Generator, outcome.OutcomeData]:
    """Ratings from 0 to 4.5 in halves, weights of mean about 1, of unrated pairs 0.3; "none" is the classical model."""
    rng = np.random.default_rng(seed)
    observed = rng.random((6, 5)) < 0.5
    ratings = np.where(observed, rng.integers(0, 10, observed.shape) / 2.0, 0.0)
    weights = np.where(observed, rng.uniform(0.2, 2.0, observed.shape), 0.3)
    a_hat = rng.gamma(1.0, 1.0, observed.shape) * (confounder != "none")
    kind = "user" if confounder == "none" else confounder
    return rng, outcome.OutcomeData(ratings, weights, a_hat, kind)


@pytest.mark.parametrize("seed", SEEDS)
def test_elbo_is_the_mean_of_log_p_minus_log_q_over_draws_of_q(seed: int) -> None:
    """Nothing analytic is shared with the reference: draws of pi, lambda and z, and densities of scipy."""
    rng = np.random.default_rng(seed)
    exposures = rng.poisson(2.0, size=(2, 3)).astype(float)
    state = poisson.initial_state(rng, 2, 3, rank=2)
    state = poisson.cavi_sweep(state, exposures)
    phi, draws = poisson.responsibilities(state), 40_000
    pi = rng.gamma(state.user_shape, 1.0 / state.user_rate, size=(draws, 2, 2))
    lam = rng.gamma(state.item_shape, 1.0 / state.item_rate, size=(draws, 3, 2))
    log_ratio = stats.gamma.logpdf(pi, 0.3, scale=1 / 0.3).sum(axis=(1, 2))
    log_ratio += stats.gamma.logpdf(lam, 0.3, scale=1 / 0.3).sum(axis=(1, 2))
    log_ratio -= stats.gamma.logpdf(pi, state.user_shape, scale=1 / state.user_rate).sum(axis=(1, 2))
    log_ratio -= stats.gamma.logpdf(lam, state.item_shape, scale=1 / state.item_rate).sum(axis=(1, 2))
    for u in range(2):
        for i in range(3):
            z = rng.multinomial(int(exposures[u, i]), phi[u, i], size=draws)
            log_ratio += stats.poisson.logpmf(z, pi[:, u] * lam[:, i]).sum(axis=1)
            log_ratio -= stats.multinomial.logpmf(z, int(exposures[u, i]), phi[u, i])
    error = log_ratio.std() / np.sqrt(draws)
    assert poisson.elbo(state, exposures) == pytest.approx(log_ratio.mean(), abs=5.0 * error)
    assert error < 0.05


@pytest.mark.parametrize("exposures", [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [4.0, 2.0]])
def test_elbo_is_below_the_evidence(exposures: list[float]) -> None:
    """One user, two items, one factor: given pi, counts are negative binomial; log p(a) is one integral."""

    def integrand(log_pi: float) -> float:
        pi = np.exp(log_pi)
        counts = stats.nbinom.pmf(exposures, 0.3, 0.3 / (0.3 + pi))
        return float(stats.gamma.pdf(pi, 0.3, scale=1 / 0.3) * pi * np.prod(counts))

    evidence, _ = integrate.quad(integrand, -60.0, 8.0, limit=500, points=[-5.0, 0.0, 3.0])
    state, table = poisson.initial_state(np.random.default_rng(0), 1, 2, 1), np.array([exposures])
    for _ in range(60):
        state = poisson.cavi_sweep(state, table)
        assert poisson.elbo(state, table) < np.log(evidence)
    assert poisson.elbo(state, table) > np.log(evidence) - 2.0


@pytest.mark.parametrize("confounder", CONFOUNDERS)
def test_outcome_updates_are_the_published_closed_forms(confounder: str) -> None:
    """gamma: shape 1 + g_gamma sum R a_hat, rate 1 + sum w a_hat; beta_0: 0.3 + g_0 sum R, 0.3 + sum w."""
    rng, data = small_outcome(3, confounder)
    state = outcome.outcome_sweep(outcome.initial_outcome_state(rng, data, rank=2), data)
    g_user = np.exp(poisson.expected_log(state.user_shape, state.user_rate))
    g_item = np.exp(poisson.expected_log(state.item_shape, state.item_rate))
    g_gamma = np.exp(poisson.expected_log(state.confounder_shape, state.confounder_rate))
    g_0 = np.exp(poisson.expected_log(state.intercept_shape, state.intercept_rate))
    ratio = data.weights * data.ratings / (g_user @ g_item.T + g_gamma[:, None] * data.a_hat + g_0)
    users = outcome.update_users(state, data)
    np.testing.assert_allclose(users.user_shape, 0.3 + g_user * (ratio @ g_item), rtol=1e-12)
    moved = outcome.update_global_confounder(state, data) if confounder == "global" else users
    axis = None if confounder == "global" else 1
    expected = 1.0 + g_gamma * (ratio * data.a_hat).sum(axis=axis)
    np.testing.assert_allclose(moved.confounder_shape, expected, rtol=1e-12)
    reach = np.atleast_1d((data.weights * data.a_hat).sum(axis=axis))
    np.testing.assert_allclose(moved.confounder_rate, 1.0 + reach, rtol=1e-12)
    intercept = outcome.update_intercept(state, data)
    np.testing.assert_allclose(intercept.intercept_shape, 0.3 + g_0 * ratio.sum(), rtol=1e-12)
    np.testing.assert_allclose(intercept.intercept_rate, 0.3 + data.weights.sum(), rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_coordinate_of_a_fresh_block_can_raise_the_outcome_elbo(seed: int) -> None:
    """Each q is optimal for the phi it was made from: moving its parameters at that phi lowers the bound."""
    rng, data = small_outcome(seed, "global" if seed else "user")
    state = outcome.initial_outcome_state(rng, data, rank=2)
    steps = {
        outcome.update_users: ["user", "confounder"] if data.confounder == "user" else ["user"],
        outcome.update_items: ["item"],
        outcome.update_shared: ["intercept", "confounder"] if data.confounder == "global" else ["intercept"],
    }
    for step, blocks in steps.items():
        phi = outcome.outcome_responsibilities(state, data)
        state = step(state, data)
        best = outcome.outcome_elbo(state, data, phi=phi)
        for field in (f"{block}_{part}" for block in blocks for part in ("shape", "rate")):
            for factor in (0.9, 1.1):
                moved = replace(state, **{field: getattr(state, field) * factor})
                assert outcome.outcome_elbo(moved, data, phi=phi) < best


@pytest.mark.parametrize("seed", SEEDS)
def test_outcome_without_confounder_and_intercept_is_the_exposure_model(seed: int) -> None:
    rng, exposures = small_exposures(seed)
    first = poisson.initial_state(rng, *exposures.shape, rank=3)
    data = outcome.OutcomeData(exposures, np.ones_like(exposures), np.zeros_like(exposures), fit_intercept=False)
    second = outcome.initial_outcome_state(np.random.default_rng(0), data, rank=3)
    second = replace(second, **vars(first))
    for _ in range(3):
        first, second = poisson.cavi_sweep(first, exposures), outcome.outcome_sweep(second, data)
        np.testing.assert_allclose(second.user_shape, first.user_shape, rtol=1e-12)
        np.testing.assert_allclose(second.item_rate, first.item_rate, rtol=1e-12)
        assert outcome.outcome_elbo(second, data) == pytest.approx(poisson.elbo(first, exposures), rel=1e-12)
