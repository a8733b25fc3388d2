"""Poisson model of the ratings, dense, with the substitute confounder.

    y_ui ~ Poisson(theta_u . beta_i + gamma_u a_hat_ui + beta_0)      over all pairs, y = 0 where not rated,
                                                                      each log likelihood times its pair's weight
    theta, beta ~ Gamma(0.3, 0.3)      gamma ~ Gamma(1, 1)      beta_0 ~ Gamma(0.3, 0.3)      (shape, rate)

A rating is the sum of K + 2 hidden Poisson counts: one per factor, one of the confounder, one of the
intercept; phi_ui holds their shares in that order. Without a confounder (the classical model) a_hat is zero
and gamma stays at its prior. Ratings that are no whole numbers (3.5) go into the same formulas, log y! being
log Gamma(y + 1).

A weight multiplies a pair's whole log likelihood, y log rate - rate - log y!: w_ui of a rated pair (1, or an inverse
propensity), w0 of an unrated one. Multiplying y log rate alone would make w y the rating.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, softmax

from .poisson import Array, expected_log, gamma_terms


@dataclass(frozen=True)
class OutcomePriors:
    """Shape and rate of the Gamma priors."""

    user_shape: float = 0.3
    user_rate: float = 0.3
    item_shape: float = 0.3
    item_rate: float = 0.3
    confounder_shape: float = 1.0
    confounder_rate: float = 1.0
    intercept_shape: float = 0.3
    intercept_rate: float = 0.3


@dataclass(frozen=True)
class OutcomeData:
    """Ratings (0 where not rated), weights of all pairs and a_hat (zeros: classical), each (U, I).

    `confounder` is "user" (one gamma per user) or "global" (one gamma for all).
    """

    ratings: Array
    weights: Array
    a_hat: Array
    confounder: str = "user"
    fit_intercept: bool = True

    @property
    def n_confounder_weights(self) -> int:
        """U, or 1 for a global gamma."""
        return self.ratings.shape[0] if self.confounder == "user" else 1


@dataclass(frozen=True)
class OutcomeState:
    """Shapes and rates of q: theta (U, K), beta (I, K), gamma (U,) or (1,), beta_0 (1,)."""

    user_shape: Array
    user_rate: Array
    item_shape: Array
    item_rate: Array
    confounder_shape: Array
    confounder_rate: Array
    intercept_shape: Array
    intercept_rate: Array

    @property
    def user_mean(self) -> Array:
        """E[theta], (U, K)."""
        return self.user_shape / self.user_rate

    @property
    def item_mean(self) -> Array:
        """E[beta], (I, K)."""
        return self.item_shape / self.item_rate

    @property
    def confounder_mean(self) -> Array:
        """E[gamma], (U,) or (1,)."""
        return self.confounder_shape / self.confounder_rate

    @property
    def intercept_mean(self) -> float:
        """E[beta_0]."""
        return float(self.intercept_shape[0] / self.intercept_rate[0])


def initial_outcome_state(
    rng: np.random.Generator,
    data: OutcomeData,
    rank: int,
    priors: OutcomePriors = OutcomePriors(),
    noise: float = 0.1,
) -> OutcomeState:
    """The priors, those of theta and beta raised by a random part of up to `noise`."""
    n_users, n_items = data.ratings.shape

    def raised(value: float, rows: int) -> Array:
        return value * (1.0 + noise * rng.random((rows, rank)))

    return OutcomeState(
        raised(priors.user_shape, n_users),
        raised(priors.user_rate, n_users),
        raised(priors.item_shape, n_items),
        raised(priors.item_rate, n_items),
        np.full(data.n_confounder_weights, priors.confounder_shape),
        np.full(data.n_confounder_weights, priors.confounder_rate),
        np.array([priors.intercept_shape]),
        np.array([priors.intercept_rate]),
    )


def component_means(state: OutcomeState, data: OutcomeData) -> Array:
    """Expected counts of the K + 2 components of all pairs, (U, I, K + 2); they sum to the expected rating."""
    factors = state.user_mean[:, None, :] * state.item_mean[None, :, :]
    confounder = state.confounder_mean[:, None] * data.a_hat
    intercept = np.full_like(data.a_hat, state.intercept_mean if data.fit_intercept else 0.0)
    return np.concatenate([factors, confounder[:, :, None], intercept[:, :, None]], axis=2)


def component_logs(state: OutcomeState, data: OutcomeData) -> Array:
    """E[log] of the K + 2 component rates of all pairs, (U, I, K + 2); -inf for one that is switched off."""
    factors = expected_log(state.user_shape, state.user_rate)[:, None, :]
    factors = factors + expected_log(state.item_shape, state.item_rate)[None, :, :]
    with np.errstate(divide="ignore"):
        confounder = expected_log(state.confounder_shape, state.confounder_rate)[:, None] + np.log(data.a_hat)
    of_intercept = expected_log(state.intercept_shape[0], state.intercept_rate[0]) if data.fit_intercept else -np.inf
    intercept = np.full_like(data.a_hat, of_intercept)
    return np.concatenate([factors, confounder[:, :, None], intercept[:, :, None]], axis=2)


def outcome_responsibilities(state: OutcomeState, data: OutcomeData) -> Array:
    """Optimal phi, (U, I, K + 2)."""
    phi: Array = softmax(component_logs(state, data), axis=2)
    return phi


def predict(state: OutcomeState, data: OutcomeData) -> Array:
    """Expected rating of every pair, (U, I)."""
    rating: Array = component_means(state, data).sum(axis=2)
    return rating


def hidden_counts(data: OutcomeData, phi: Array) -> Array:
    """Expected hidden counts of each component, by the pairs' weights, (U, I, K + 2)."""
    counts: Array = (data.weights * data.ratings)[:, :, None] * phi
    return counts


def update_users(state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors()) -> OutcomeState:
    """Refresh phi, then q(theta), and with it q(gamma) where each user has one."""
    phi = outcome_responsibilities(state, data)
    shape = priors.user_shape + hidden_counts(data, phi)[:, :, :-2].sum(axis=1)
    state = replace(state, user_shape=shape, user_rate=priors.user_rate + data.weights @ state.item_mean)
    return _update_confounder(state, data, priors, phi) if data.confounder == "user" else state


def update_items(state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors()) -> OutcomeState:
    """Refresh phi, then q(beta)."""
    phi = outcome_responsibilities(state, data)
    shape = priors.item_shape + hidden_counts(data, phi)[:, :, :-2].sum(axis=0)
    return replace(state, item_shape=shape, item_rate=priors.item_rate + data.weights.T @ state.user_mean)


def update_global_confounder(
    state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors()
) -> OutcomeState:
    """Refresh phi, then q(gamma) of the one gamma of all users."""
    return _update_confounder(state, data, priors, outcome_responsibilities(state, data))


def _update_confounder(state: OutcomeState, data: OutcomeData, priors: OutcomePriors, phi: Array) -> OutcomeState:
    """q(gamma) from the given phi: shape = prior + sum w y phi_confounder,  rate = prior + sum w a_hat."""
    axis = 1 if data.confounder == "user" else (0, 1)
    shape = priors.confounder_shape + hidden_counts(data, phi)[:, :, -2].sum(axis=axis)
    rate = priors.confounder_rate + (data.weights * data.a_hat).sum(axis=axis)
    return replace(state, confounder_shape=np.atleast_1d(shape), confounder_rate=np.atleast_1d(rate))


def update_intercept(state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors()) -> OutcomeState:
    """Refresh phi, then q(beta_0): shape = prior + sum w y phi_intercept,  rate = prior + sum w."""
    counts = hidden_counts(data, outcome_responsibilities(state, data))[:, :, -1]
    shape, rate = priors.intercept_shape + counts.sum(), priors.intercept_rate + data.weights.sum()
    return replace(state, intercept_shape=np.array([shape]), intercept_rate=np.array([rate]))


def update_shared(state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors()) -> OutcomeState:
    """The global gamma if there is one and the intercept if there is one, both from the same fresh phi."""
    moved = state
    if data.confounder == "global":
        moved = update_global_confounder(state, data, priors)
    if data.fit_intercept:
        fresh = update_intercept(state, data, priors)
        moved = replace(moved, intercept_shape=fresh.intercept_shape, intercept_rate=fresh.intercept_rate)
    return moved


def outcome_sweep(state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors()) -> OutcomeState:
    """Users, items, then what all pairs share."""
    return update_shared(update_items(update_users(state, data, priors), data, priors), data, priors)


def converged_users(
    state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors(), updates: int = 2000
) -> OutcomeState:
    """The users where all else holds them: equal shares of each user's ratings to start from, then step by step."""
    per_user = data.confounder == "user" and bool(data.a_hat.any())
    components = state.user_shape.shape[1] + per_user
    share = (data.weights * data.ratings).sum(axis=1) / components
    shape = priors.user_shape + np.tile(share[:, None], (1, state.user_shape.shape[1]))
    rate = priors.user_rate + data.weights @ state.item_mean
    state = replace(state, user_shape=shape, user_rate=rate)
    if per_user:
        gamma_rate = priors.confounder_rate + (data.weights * data.a_hat).sum(axis=1)
        state = replace(state, confounder_shape=priors.confounder_shape + share, confounder_rate=gamma_rate)
    for _ in range(updates):
        state = update_users(state, data, priors)
    return state


def outcome_elbo(
    state: OutcomeState, data: OutcomeData, priors: OutcomePriors = OutcomePriors(), phi: Array | None = None
) -> float:
    """E_q[log p(y, z, theta, beta, gamma, beta_0)] + H[q], term by term, pairs by their weights."""
    phi = outcome_responsibilities(state, data) if phi is None else phi
    total = gamma_terms(state.user_shape, state.user_rate, priors.user_shape, priors.user_rate)
    total += gamma_terms(state.item_shape, state.item_rate, priors.item_shape, priors.item_rate)
    total += gamma_terms(state.confounder_shape, state.confounder_rate, priors.confounder_shape, priors.confounder_rate)
    if data.fit_intercept:
        total += gamma_terms(state.intercept_shape, state.intercept_rate, priors.intercept_shape, priors.intercept_rate)
    likelihood = -gammaln(data.ratings + 1.0) - component_means(state, data).sum(axis=2)
    used = (phi > 0.0) & (data.ratings > 0.0)[:, :, None]
    each = np.zeros_like(phi)
    each[used] = phi[used] * (component_logs(state, data)[used] - np.log(phi[used]))
    likelihood += data.ratings * each.sum(axis=2)  # log-joint and entropy of the hidden counts
    return float(total + (data.weights * likelihood).sum())
