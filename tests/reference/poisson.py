"""Poisson factorization, dense, of exposures (Gopalan, Hofman, Blei 2015) and of ratings with a confounder.

    y_ui ~ Poisson(theta_u . beta_i + gamma_u a_hat_ui + beta_0)      over all pairs, y = 0 where not observed,
                                                                      each log likelihood times its pair's weight

Every unknown has a Gamma prior, given by shape and rate. Exposures have neither gamma nor beta_0, and weights of 1.
A count is the sum of K + 2 hidden Poisson counts: one per factor, one of the confounder, one of the intercept; phi_ui
holds their shares in that order. Ratings that are no whole numbers (3.5) go into the same formulas, log y! being
log Gamma(y + 1). The variational family is q Gamma for the unknowns, Multinomial(y_ui, phi_ui) for the hidden counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import digamma, gammaln, softmax

Array = NDArray[np.float64]
Side = tuple[Array, Array]  # shapes and rates


@dataclass(frozen=True)
class Priors:
    user_shape: float = 0.3
    user_rate: float = 0.3
    item_shape: float = 0.3
    item_rate: float = 0.3
    confounder_shape: float = 1.0
    confounder_rate: float = 1.0
    intercept_shape: float = 0.3
    intercept_rate: float = 0.3


@dataclass(frozen=True)
class Data:
    """Counts or ratings (0 where there is none), weights of all pairs and a_hat (zeros: classical), each (U, I).

    `confounder` is "user" (one gamma per user) or "global" (one gamma for all).
    """

    ratings: Array
    weights: Array
    a_hat: Array
    confounder: str = "user"
    fit_intercept: bool = True


def exposures_of(counts: Array) -> Data:
    return Data(counts, np.ones(counts.shape), np.zeros(counts.shape), "none", fit_intercept=False)


@dataclass(frozen=True)
class State:
    """Shapes and rates of q: theta (U, K), beta (I, K), gamma (U,) or (1,), beta_0 (1,)."""

    user_shape: Array
    user_rate: Array
    item_shape: Array
    item_rate: Array
    confounder_shape: Array
    confounder_rate: Array
    intercept_shape: Array
    intercept_rate: Array

    @classmethod
    def of(
        cls, users: tuple[Array, Array], items: tuple[Array, Array], priors: Priors = Priors(), n: int = 1
    ) -> "State":
        """Shapes and rates of both sides; gamma (n,) and beta_0 at their priors."""
        confounder = np.full(n, priors.confounder_shape), np.full(n, priors.confounder_rate)
        intercept = np.array([priors.intercept_shape]), np.array([priors.intercept_rate])
        return cls(*users, *items, *confounder, *intercept)

    @property
    def user_mean(self) -> Array:
        return self.user_shape / self.user_rate

    @property
    def item_mean(self) -> Array:
        return self.item_shape / self.item_rate

    @property
    def confounder_mean(self) -> Array:
        return self.confounder_shape / self.confounder_rate

    @property
    def intercept_mean(self) -> float:
        return float(self.intercept_shape[0] / self.intercept_rate[0])


def initial_state(
    rng: np.random.Generator, data: Data, rank: int, priors: Priors = Priors(), noise: float = 0.1
) -> State:
    """The priors, those of theta and beta raised by a random part of up to `noise`: equal factors would stay equal."""
    raised = [
        value * (1.0 + noise * rng.random((n, rank)))
        for n, sides in zip(data.ratings.shape, ("user", "item"), strict=True)
        for value in (getattr(priors, f"{sides}_shape"), getattr(priors, f"{sides}_rate"))
    ]
    n_gammas = len(data.ratings) if data.confounder == "user" else 1
    return State.of((raised[0], raised[1]), (raised[2], raised[3]), priors, n_gammas)


def expected_log(shape: Array, rate: Array) -> Array:
    """E[log x] of x ~ Gamma(shape, rate); its exponential is the geometric mean of the formulas."""
    return digamma(shape) - np.log(rate)


def component_means(state: State, data: Data) -> Array:
    """Expected counts of the K + 2 components of all pairs, (U, I, K + 2); they sum to the expected rating."""
    factors = state.user_mean[:, None, :] * state.item_mean[None, :, :]
    confounder = state.confounder_mean[:, None] * data.a_hat
    intercept = np.full_like(data.a_hat, state.intercept_mean if data.fit_intercept else 0.0)
    return np.concatenate([factors, confounder[:, :, None], intercept[:, :, None]], axis=2)


def component_logs(state: State, data: Data) -> Array:
    """E[log] of the K + 2 component rates of all pairs, (U, I, K + 2); -inf for one that is switched off."""
    factors = expected_log(state.user_shape, state.user_rate)[:, None, :]
    factors = factors + expected_log(state.item_shape, state.item_rate)[None, :, :]
    with np.errstate(divide="ignore"):
        confounder = expected_log(state.confounder_shape, state.confounder_rate)[:, None] + np.log(data.a_hat)
    of_intercept = expected_log(state.intercept_shape[0], state.intercept_rate[0]) if data.fit_intercept else -np.inf
    intercept = np.full_like(data.a_hat, of_intercept)
    return np.concatenate([factors, confounder[:, :, None], intercept[:, :, None]], axis=2)


def responsibilities(state: State, data: Data) -> Array:
    """Optimal phi, (U, I, K + 2)."""
    return np.asarray(softmax(component_logs(state, data), axis=2))


def hidden_counts(state: State, data: Data) -> Array:
    """Expected hidden counts of each component, by the pairs' weights, (U, I, K + 2)."""
    return (data.weights * data.ratings)[:, :, None] * responsibilities(state, data)


def predict(state: State, data: Data) -> Array:
    return np.asarray(component_means(state, data).sum(axis=2))


def update_users(state: State, data: Data, priors: Priors = Priors()) -> State:
    """Refresh phi, then q(theta), and with it q(gamma) where each user has one."""
    hidden = hidden_counts(state, data)
    shape = priors.user_shape + hidden[:, :, :-2].sum(axis=1)
    state = replace(state, user_shape=shape, user_rate=priors.user_rate + data.weights @ state.item_mean)
    return _update_confounder(state, data, priors, hidden, axis=1) if data.confounder == "user" else state


def update_items(state: State, data: Data, priors: Priors = Priors()) -> State:
    """Refresh phi, then q(beta)."""
    shape = priors.item_shape + hidden_counts(state, data)[:, :, :-2].sum(axis=0)
    return replace(state, item_shape=shape, item_rate=priors.item_rate + data.weights.T @ state.user_mean)


def _update_confounder(state: State, data: Data, priors: Priors, hidden: Array, axis: int | None) -> State:
    """q(gamma): shape = prior + sum w y phi_confounder,  rate = prior + sum w a_hat."""
    shape = priors.confounder_shape + hidden[:, :, -2].sum(axis=axis)
    rate = priors.confounder_rate + (data.weights * data.a_hat).sum(axis=axis)
    return replace(state, confounder_shape=np.atleast_1d(shape), confounder_rate=np.atleast_1d(rate))


def update_shared(state: State, data: Data, priors: Priors = Priors()) -> State:
    """The global gamma if there is one and the intercept if there is one, both from the same fresh phi."""
    hidden = hidden_counts(state, data)
    if data.confounder == "global":
        state = _update_confounder(state, data, priors, hidden, axis=None)
    if not data.fit_intercept:
        return state
    shape = np.array([priors.intercept_shape + hidden[:, :, -1].sum()])
    return replace(state, intercept_shape=shape, intercept_rate=np.array([priors.intercept_rate + data.weights.sum()]))


def sweep(state: State, data: Data, priors: Priors = Priors()) -> State:
    return update_shared(update_items(update_users(state, data, priors), data, priors), data, priors)


def converged_users(state: State, data: Data, priors: Priors = Priors(), updates: int = 2000) -> State:
    """The users where all else holds them: equal shares of each user's ratings to start from, then step by step."""
    rank, per_user = state.user_shape.shape[1], data.confounder == "user" and bool(data.a_hat.any())
    share = (data.weights * data.ratings).sum(axis=1) / (rank + per_user)
    shape = priors.user_shape + np.tile(share[:, None], (1, rank))
    state = replace(state, user_shape=shape, user_rate=priors.user_rate + data.weights @ state.item_mean)
    if per_user:
        gamma_rate = priors.confounder_rate + (data.weights * data.a_hat).sum(axis=1)
        state = replace(state, confounder_shape=priors.confounder_shape + share, confounder_rate=gamma_rate)
    for _ in range(updates):
        state = update_users(state, data, priors)
    return state


def gamma_terms(shape: Array, rate: Array, prior_shape: float, prior_rate: float) -> float:
    """Sum of E_q[log Gamma(x; prior_shape, prior_rate)] + H[q] over all x with q(x) = Gamma(shape, rate)."""
    each = prior_shape * np.log(prior_rate) - gammaln(prior_shape)
    each = each + (prior_shape - 1.0) * expected_log(shape, rate) - prior_rate * shape / rate
    return float(np.sum(each + stats.gamma(shape, scale=1.0 / rate).entropy()))


def elbo(state: State, data: Data, priors: Priors = Priors(), phi: Array | None = None) -> float:
    """E_q[log p] + H[q], pairs by their weights; `phi` is the optimal one unless given."""
    phi = responsibilities(state, data) if phi is None else phi
    total = 0.0
    for name in ("user", "item", "confounder", *["intercept"] * data.fit_intercept):
        posterior, prior = ([getattr(of, f"{name}_{part}") for part in ("shape", "rate")] for of in (state, priors))
        total += gamma_terms(*posterior, *prior)
    likelihood = -gammaln(data.ratings + 1.0) - component_means(state, data).sum(axis=2)
    used = (phi > 0.0) & (data.ratings > 0.0)[:, :, None]
    each = np.zeros_like(phi)
    each[used] = phi[used] * (component_logs(state, data)[used] - np.log(phi[used]))
    likelihood += data.ratings * each.sum(axis=2)  # log-joint and entropy of the hidden counts
    return float(total + (data.weights * likelihood).sum())


def long_step(before: Array, after: Array, prior: float, length: float) -> Array:
    """Go ``length`` times as far as a step did, on logarithms; row sums are those after the step."""
    share = np.maximum(before * (after / before) ** length, prior) - prior
    total = share.sum(axis=1, keepdims=True)
    scaled = share * (after - prior).sum(axis=1, keepdims=True) / np.where(total > 0.0, total, 1.0)
    return np.where(total > 0.0, prior + scaled, after)


def balanced(state: State, priors: Priors = Priors()) -> State:
    """Each factor times c on the users' side and by 1 / c on the items', where prior and entropy terms are largest."""
    scale = np.array(list(_scales(state, priors)))
    return replace(state, user_rate=state.user_rate / scale, item_rate=state.item_rate * scale)


def _scales(state: State, priors: Priors) -> Iterator[float]:
    """The slope by log c is 0: rows - user_rate users c + item_rate items / c."""
    rows = len(state.user_shape) * priors.user_shape - len(state.item_shape) * priors.item_shape
    for users, items in zip(state.user_mean.sum(axis=0), state.item_mean.sum(axis=0), strict=True):
        roots = np.roots([priors.user_rate * users, -rows, -priors.item_rate * items])
        yield float(roots[roots > 0.0][0])


def accelerated(state: State, data: Data, sweeps: int, priors: Priors = Priors()) -> tuple[State, list[float]]:
    """Sweeps of growing steps from balanced factors, and the ELBO after each; one that lowers it is repeated."""

    def long_sweep(state: State, length: float) -> State:
        state = balanced(state, priors)
        after = update_users(state, data, priors)
        shape = long_step(state.user_shape, after.user_shape, priors.user_shape, length)
        state = replace(after, user_shape=shape)
        after = update_items(state, data, priors)
        return replace(after, item_shape=long_step(state.item_shape, after.item_shape, priors.item_shape, length))

    bounds: list[float] = []
    length = 1.0
    for _ in range(sweeps):
        tried = long_sweep(state, length)
        if bounds and elbo(tried, data, priors) <= bounds[-1]:
            length = 1.0
            tried = long_sweep(state, length)
        state, length = tried, min(1.1 * length, 1.9)
        bounds.append(elbo(state, data, priors))
    return state, bounds
