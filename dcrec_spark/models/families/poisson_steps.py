"""Coordinate ascent of Gamma-Poisson factorization: the kernels of both sides, the ELBO, what all pairs share."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from dcrec_spark.engine.acceleration import Stride
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.heavy_items import PartsOf, ScoresOf
from dcrec_spark.engine.kernel_input import Kernel
from dcrec_spark.kernels.gamma import best_scale, divergence
from dcrec_spark.models.families.gamma_poisson import (
    NORM,
    Gamma,
    GammaPoisson,
    GammaPrior,
    SharedGammas,
    converge_and_score,
    heavy_parts,
    heavy_scores,
    settle,
    start,
    update,
)

# A component that explains nothing still gets a little of each count. In fits of ranks 10 and 30 to simulated data of
# lower rank (shapes 0.3) such components had 0.3 to 1 % beyond the prior's shapes and 0.004 to 0.02 % of the counts,
# others from 7 % and 0.1 % on. Both are required: strong priors leave little to all, and many counts little to a niche.
AT_PRIOR, NO_SHARE = 0.02, 1e-3


@dataclass(frozen=True)
class GammaPoissonSteps(GammaPoisson):
    """The steps of a Gamma-Poisson model. See :class:`GammaPoisson` for its fields."""

    rises = True
    remembers = True
    # On MovieLens 100K no sweep of this length had to be undone; momentum beyond .95 was no faster.
    longest = Stride(1.9, 0.95)

    @property
    def shared(self) -> SharedGammas:
        """The priors of what is shared."""
        gamma = None if self.gamma_per_user else self.confounder
        return SharedGammas(_as_q(self.intercept), _as_q(gamma))

    def with_stride(self, stride: Stride) -> Self:
        """Return the same steps, going so far."""
        return replace(self, stride=stride)

    def balanced(self, users: Arrays, items: Arrays) -> Self:
        """Return the same steps from where each factor has its best scale, by the sums of both sides."""
        sides = [(sums["mean"], float(sums["rows"]), self.prior.shape, self.prior.rate) for sums in (users, items)]
        return replace(self, scale=best_scale(sides[0], sides[1]).astype(self.precision))

    def start_users(self) -> Kernel:
        """Factors off the prior, by noise of the ids."""
        return partial(start, model=self, is_user=True)

    def start_items(self) -> Kernel:
        """Factors off the prior, by noise of the ids."""
        return partial(start, model=self, is_user=False)

    def users(self, shared: SharedGammas) -> Kernel:
        """One coordinate step of the users."""
        return partial(update, model=self, shared=shared, is_user=True)

    def items(self, shared: SharedGammas) -> Kernel:
        """One coordinate step of the items, and the ELBO's part of the nonzeros."""
        return partial(update, model=self, shared=shared, is_user=False)

    def converge(self, shared: SharedGammas, is_user: bool = True) -> Kernel:
        """Coordinate steps of one side until they rest, from equal shares of each row's count."""
        return partial(settle, model=self, shared=shared, is_user=is_user)

    def converge_and_score(self, shared: SharedGammas) -> Kernel:
        """Let the users rest, and add up the ELBO's parts of their nonzeros."""
        return partial(converge_and_score, model=self, shared=shared)

    def heavy_parts(self, shared: SharedGammas) -> PartsOf:
        """Add up the counts that heavy items draw, and what their rates have of their pairs."""
        return partial(heavy_parts, model=self, shared=shared)

    def heavy_scores(self, shared: SharedGammas) -> ScoresOf:
        """Add up the ELBO's parts of the pairs of heavy items."""
        return partial(heavy_scores, model=self, shared=shared)

    def conclude(self, users: Arrays, items: Arrays, shared: SharedGammas) -> tuple[float, SharedGammas]:
        """Return the ELBO with optimal responsibilities. Then q(beta_0) and a shared q(gamma) from those."""
        return self._elbo(users, items, shared), self._update_shared(users, items, shared)

    def movement(self, items: Arrays) -> float:
        """Return the norm of the relative changes of the items' shapes and rates, at least the largest of them."""
        return float(items["movement"] ** (1.0 / NORM))

    def converged_objective(self, users: Arrays, items: Arrays, shared: SharedGammas) -> float:
        """Return the ELBO of converged users, from their own sums over the nonzeros."""
        own = {name: users[name] for name in ("log_rates", "rate_excess") if name in users}
        return self._elbo(users, {**items, **own}, shared)

    def _elbo(self, users: Arrays, items: Arrays, shared: SharedGammas) -> float:
        expected = float(users["mean"] @ items["mean"])
        far = float(users["divergence"]) + float(items["divergence"])
        if self.confounder is not None:
            attracted = float(users["confounder_total"] @ items["exposure_total"])
            expected += attracted * (shared.gamma.mean if shared.gamma else 1.0)
        if shared.intercept:
            expected += shared.intercept.mean * self.n_pairs
        expected = self._weighted(expected, items, "rate_excess")
        for q, prior in ((shared.intercept, self.intercept), (shared.gamma, self.confounder)):
            if q is not None and prior is not None:
                far += divergence(np.array([[q.shape]]), np.array([q.rate]), prior.shape, prior.rate)
        return float(items["log_rates"]) - float(items["log_factorial"]) - expected - far

    def _update_shared(self, users: Arrays, items: Arrays, shared: SharedGammas) -> SharedGammas:
        intercept, gamma = shared
        if intercept is not None and self.intercept is not None:
            shape = self.intercept.shape + intercept.geometric_mean * float(items["shares"])
            intercept = Gamma(shape, self.intercept.rate + self._weighted(self.n_pairs, items, "excess"))
        if gamma is not None and self.confounder is not None:
            shape = self.confounder.shape + gamma.geometric_mean * float(items["confounder_shares"])
            attracted = float(users["confounder_total"] @ items["exposure_total"])
            gamma = Gamma(shape, self.confounder.rate + self._weighted(attracted, items, "confounder_excess"))
        return SharedGammas(intercept, gamma)

    def _weighted(self, of_all: float, items: Arrays, excess: str) -> float:
        """Return w0 sum_all + sum_obs (w - w0), from a sum over all pairs and the name of one over the observed."""
        return self.unobserved * of_all + (float(items[excess]) if self.reweighs else 0.0)

    def held_out_loss(self, items: Arrays, shared: SharedGammas) -> float | None:
        """Return the held-out pairs' mean negative log likelihood under the posterior means, without log y!."""
        if "held_out" not in items:
            return None
        return float(items["held_out"]) / float(items["held_out_pairs"])


def at_prior(prior: GammaPrior, users: Arrays, n_users: int, total: float) -> Array:
    """Whether each component explains nothing, (K,).

    The shapes of converged users are then hardly larger than the prior's.

    prior : of the users. users : their sums. total : of the counts.
    """
    shape = n_users * prior.shape
    return np.asarray(users["shape"] - shape <= np.minimum(AT_PRIOR * shape, NO_SHARE * total))


def _as_q(prior: GammaPrior | None) -> Gamma | None:
    return None if prior is None else Gamma(prior.shape, prior.rate)
