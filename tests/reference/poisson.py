"""Poisson factorization of the exposures, dense (Gopalan, Hofman, Blei 2015).

    pi_uk ~ Gamma(user_shape, user_rate)      lambda_ik ~ Gamma(item_shape, item_rate)      (shape, rate)
    z_uik ~ Poisson(pi_uk lambda_ik)          a_ui = sum_k z_uik      over all U x I pairs, zeros too

The variational family is q(pi_uk) and q(lambda_ik) Gamma, q(z_ui) Multinomial(a_ui, phi_ui).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import digamma, gammaln, softmax

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Priors:
    """Shape and rate of the Gamma priors of both sides."""

    user_shape: float = 0.3
    user_rate: float = 0.3
    item_shape: float = 0.3
    item_rate: float = 0.3


@dataclass(frozen=True)
class State:
    """Shapes and rates of q: (U, L) for the users, (I, L) for the items."""

    user_shape: Array
    user_rate: Array
    item_shape: Array
    item_rate: Array

    @property
    def user_mean(self) -> Array:
        """E[pi], (U, L)."""
        return self.user_shape / self.user_rate

    @property
    def item_mean(self) -> Array:
        """E[lambda], (I, L)."""
        return self.item_shape / self.item_rate


def initial_state(
    rng: np.random.Generator,
    n_users: int,
    n_items: int,
    rank: int,
    priors: Priors = Priors(),
    noise: float = 0.1,
) -> State:
    """The priors, raised by a random part of up to `noise`: equal factors would stay equal for ever."""

    def raised(value: float, rows: int) -> Array:
        return value * (1.0 + noise * rng.random((rows, rank)))

    return State(
        raised(priors.user_shape, n_users),
        raised(priors.user_rate, n_users),
        raised(priors.item_shape, n_items),
        raised(priors.item_rate, n_items),
    )


def expected_log(shape: Array, rate: Array) -> Array:
    """E[log x] of x ~ Gamma(shape, rate); its exponential is the geometric mean of the formulas."""
    return digamma(shape) - np.log(rate)


def responsibilities(state: State) -> Array:
    """Optimal phi, (U, I, L): exp(E log pi_uk + E log lambda_ik), scaled to sum to 1 over k."""
    log_user = expected_log(state.user_shape, state.user_rate)
    log_item = expected_log(state.item_shape, state.item_rate)
    phi = np.empty((len(log_user), len(log_item), log_user.shape[1]))
    for u in range(phi.shape[0]):
        for i in range(phi.shape[1]):
            phi[u, i] = softmax(log_user[u] + log_item[i])
    return phi


def cavi_users(state: State, exposures: Array, priors: Priors = Priors()) -> State:
    """Refresh phi, then q(pi):  shape = prior + sum_i a_ui phi_uik,  rate = prior + sum_i E[lambda_ik]."""
    phi = responsibilities(state)
    shape, rate = np.empty_like(state.user_shape), np.empty_like(state.user_rate)
    for u in range(shape.shape[0]):
        for k in range(shape.shape[1]):
            shape[u, k] = priors.user_shape
            rate[u, k] = priors.user_rate
            for i in range(exposures.shape[1]):
                shape[u, k] += exposures[u, i] * phi[u, i, k]
                rate[u, k] += state.item_mean[i, k]
    return replace(state, user_shape=shape, user_rate=rate)


def cavi_items(state: State, exposures: Array, priors: Priors = Priors()) -> State:
    """Refresh phi, then q(lambda):  shape = prior + sum_u a_ui phi_uik,  rate = prior + sum_u E[pi_uk]."""
    phi = responsibilities(state)
    shape, rate = np.empty_like(state.item_shape), np.empty_like(state.item_rate)
    for i in range(shape.shape[0]):
        for k in range(shape.shape[1]):
            shape[i, k] = priors.item_shape
            rate[i, k] = priors.item_rate
            for u in range(exposures.shape[0]):
                shape[i, k] += exposures[u, i] * phi[u, i, k]
                rate[i, k] += state.user_mean[u, k]
    return replace(state, item_shape=shape, item_rate=rate)


def cavi_sweep(state: State, exposures: Array, priors: Priors = Priors()) -> State:
    """Users, then items against the fresh users."""
    return cavi_items(cavi_users(state, exposures, priors), exposures, priors)


def long_steps(before: State, after: State, length: float, priors: Priors = Priors()) -> State:
    """Go ``length`` times as far as the step of one side did, on logarithms; row sums are those after the step."""
    user_shape, item_shape = (
        _long_step(old, new, prior, length)
        for old, new, prior in (
            (before.user_shape, after.user_shape, priors.user_shape),
            (before.item_shape, after.item_shape, priors.item_shape),
        )
    )
    return replace(after, user_shape=user_shape, item_shape=item_shape)


def _long_step(before: Array, after: Array, prior: float, length: float) -> Array:
    result = after.copy()
    for row in range(len(after)):
        if np.array_equal(before[row], after[row]) or length == 1.0:
            continue  # the other side's step
        share = [max(b * (a / b) ** length, prior) - prior for a, b in zip(after[row], before[row], strict=True)]
        if sum(share) > 0:
            for k in range(len(share)):
                result[row, k] = prior + share[k] * sum(after[row] - prior) / sum(share)
    return result


def balanced(state: State, priors: Priors = Priors()) -> State:
    """Each factor times c on the users' side and by 1 / c on the items', where prior and entropy terms are largest."""
    user_rate, item_rate = state.user_rate.copy(), state.item_rate.copy()
    for k in range(user_rate.shape[1]):
        rows = len(user_rate) * priors.user_shape - len(item_rate) * priors.item_shape
        users, items = state.user_mean[:, k].sum(), state.item_mean[:, k].sum()
        # The slope by log c: rows - user_rate users c + item_rate items / c.
        roots = np.roots([priors.user_rate * users, -rows, -priors.item_rate * items])
        (scale,) = roots[roots > 0.0]
        user_rate[:, k] /= scale
        item_rate[:, k] *= scale
    return replace(state, user_rate=user_rate, item_rate=item_rate)


def accelerated(state: State, exposures: Array, sweeps: int, priors: Priors = Priors()) -> tuple[State, list[float]]:
    """Sweeps of growing steps from balanced factors, and the ELBO after each; one that lowers it is repeated."""

    def sweep(state: State, length: float) -> State:
        state = balanced(state, priors)
        state = long_steps(state, cavi_users(state, exposures, priors), length, priors)
        return long_steps(state, cavi_items(state, exposures, priors), length, priors)

    bounds: list[float] = []
    length = 1.0
    for _ in range(sweeps):
        tried = sweep(state, length)
        if bounds and elbo(tried, exposures, priors) <= bounds[-1]:
            length = 1.0
            tried = sweep(state, length)
        state, length = tried, min(1.1 * length, 1.9)
        bounds.append(elbo(state, exposures, priors))
    return state, bounds


def converged_users(state: State, exposures: Array, priors: Priors = Priors(), updates: int = 200) -> State:
    """The users where these items hold them: equal shares of each user's count to start from, then step by step."""
    rank = state.user_shape.shape[1]
    shape = priors.user_shape + np.tile(exposures.sum(axis=1, keepdims=True) / rank, (1, rank))
    rate = priors.user_rate + np.tile(state.item_mean.sum(axis=0), (len(shape), 1))
    state = replace(state, user_shape=shape, user_rate=rate)
    for _ in range(updates):
        state = cavi_users(state, exposures, priors)
    return state


def a_hat(state: State) -> Array:
    """The substitute confounder of every pair, (U, I): E[pi_u] . E[lambda_i]."""
    table = np.zeros((state.user_mean.shape[0], state.item_mean.shape[0]))
    for u in range(table.shape[0]):
        for i in range(table.shape[1]):
            for k in range(state.user_mean.shape[1]):
                table[u, i] += state.user_mean[u, k] * state.item_mean[i, k]
    return table


def elbo(state: State, exposures: Array, priors: Priors = Priors(), phi: Array | None = None) -> float:
    """E_q[log p(a, z, pi, lambda)] + H[q], term by term; `phi` is the optimal one unless given."""
    phi = responsibilities(state) if phi is None else phi
    return (
        gamma_terms(state.user_shape, state.user_rate, priors.user_shape, priors.user_rate)
        + gamma_terms(state.item_shape, state.item_rate, priors.item_shape, priors.item_rate)
        + _allocation_terms(state, exposures, phi)
    )


def gamma_terms(shape: Array, rate: Array, prior_shape: float, prior_rate: float) -> float:
    """Sum of E_q[log Gamma(x; prior_shape, prior_rate)] + H[q] over all x with q(x) = Gamma(shape, rate)."""
    total = 0.0
    for s, r in zip(np.ravel(shape), np.ravel(rate), strict=True):
        expected_log_x = digamma(s) - np.log(r)
        total += prior_shape * np.log(prior_rate) - gammaln(prior_shape)
        total += (prior_shape - 1.0) * expected_log_x - prior_rate * s / r
        total += float(stats.gamma(s, scale=1.0 / r).entropy())
    return float(total)


def allocation_terms(count: float, rate_logs: Array, rate_means: Array, phi: Array) -> float:
    """E[log p(z | rates)] + H[q(z)] of one pair whose `count` is shared among components by `phi`.

    E[log p(z)] = sum_k ( count phi_k E[log rate_k] - E[rate_k] - E[log z_k!] )
    H[q(z)]     = -log count! - sum_k ( count phi_k log phi_k - E[log z_k!] )

    E[log z_k!] is in both with opposite signs, so neither is computed.
    """
    log_joint = entropy = 0.0
    for k in range(len(phi)):
        log_joint -= rate_means[k]
        if count > 0.0 and phi[k] > 0.0:
            log_joint += count * phi[k] * rate_logs[k]
            entropy -= count * phi[k] * np.log(phi[k])
    return float(log_joint + entropy - gammaln(count + 1.0))


def _allocation_terms(state: State, exposures: Array, phi: Array) -> float:
    log_user = expected_log(state.user_shape, state.user_rate)
    log_item = expected_log(state.item_shape, state.item_rate)
    total = 0.0
    for u in range(exposures.shape[0]):
        for i in range(exposures.shape[1]):
            means = state.user_mean[u] * state.item_mean[i]
            total += allocation_terms(exposures[u, i], log_user[u] + log_item[i], means, phi[u, i])
    return total
