"""Poisson factorization as families: the exposure model, and an outcome. Gamma posteriors of all factors.

    exposure    a_ui ~ Poisson(pi_u . lambda_i)
    outcome     y_ui ~ Poisson(theta_u . beta_i + gamma_u a_hat_ui + beta_0)

Posterior means stand in for the paper's MAP estimates, as in Gopalan et al. 2015.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import KernelInput
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.explain import Wanted, explain_poisson
from dcrec_spark.kernels.gamma import geometric_mean
from dcrec_spark.kernels.poisson import update_shape
from dcrec_spark.models.families import base
from dcrec_spark.models.families.gamma_poisson import Gamma, GammaPoisson, HalfStep, SharedGammas, posteriors

NOTHING_SHARED = SharedGammas()
# Priors of the paper.
CONFOUNDER_PRIOR, INTERCEPT_PRIOR = Gamma(1.0, 1.0), Gamma(0.3, 0.3)
# A component that explains nothing still gets a little of each count. In fits of ranks 10 and 30 to simulated data of
# lower rank (shapes 0.3) such components had 0.3 to 1 % beyond the prior's shapes and 0.004 to 0.02 % of the counts,
# others from 7 % and 0.1 % on. Both are required: strong priors leave little to all, and many counts little to a niche.
AT_PRIOR, NO_SHARE = 0.02, 1e-3


class GammaFactors(base.Family):
    """Families of Gamma factors, by coordinate ascent. prior_settings : the shape and the rate of their prior."""

    objective = "ELBO"
    splits = True
    prior_settings: ClassVar[tuple[str, str]]

    @property
    def prior(self) -> Gamma:
        return Gamma(*(self.settings[name] for name in self.prior_settings))

    def steps(self, observed: base.Observed, precision: str | None = None) -> GammaPoisson:
        return GammaPoisson(
            stage=self.stage,
            count=self.value,
            rank=self.rank,
            prior=self.prior,
            seed=self.settings["seed"],
            precision=precision or self.settings["precision"],
            validates=observed.held_out,
        )

    def at_prior(self, users: Arrays, items: Arrays, observed: base.Observed) -> Array:
        """Whether the users' shapes have converged hardly above their prior's: posterior means never vanish."""
        shape = observed.n_users * self.prior.shape
        return np.asarray(users["shape"] - shape <= np.minimum(AT_PRIOR * shape, NO_SHARE * self.total(observed)))

    def total(self, observed: base.Observed) -> float:
        return observed.means[self.value] * observed.nonzeros

    @classmethod
    def shared_from_json(cls, values: Mapping[str, Any]) -> SharedGammas:
        return SharedGammas(**{name: q and Gamma(*q) for name, q in values.items()})


class PoissonExposure(GammaFactors):
    """Stage 1 (Gopalan, Hofman, Blei 2015)."""

    stage = "exposure"
    value = "exposure_count"
    reads = prior_settings = ("shapePrior", "ratePrior")

    def steps(self, observed: base.Observed, precision: str | None = None) -> GammaPoisson:
        """Coordinate ascent that goes beyond the optimum as long as the ELBO rises."""
        return replace(super().steps(observed, precision), accelerates=True)

    def columns(self, is_user: bool) -> tuple[base.TableColumn, ...]:
        """Shape and rate. The rows of a fitted side have one rate, those of a fold-in may have others."""
        return base.TableColumn("shape", self.rank), base.TableColumn("rate", self.rank, same_for_all=True)

    def table_of(self, memory: Arrays, is_user: bool, shared: Any = NOTHING_SHARED) -> dict[str, Array]:
        return {"shape": memory["shape"], "rate": np.broadcast_to(memory["rate"], memory["shape"].shape)}

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        return {"shape": columns["shape"], "rate": columns["rate"]}

    def variation(self, observed: base.Observed) -> float:
        """All pairs, each as large as the mean count of all."""
        return self.total(observed) ** 2 / observed.n_pairs


class PoissonOutcome(GammaFactors, base.OutcomeFamily):
    """Poisson factorization of the ratings. Unrated pairs are zeros, as many as ``unobservedWeight`` says."""

    unrated_are_zeros = True
    prior_settings = ("gammaShape", "gammaRate")
    reads = ("fitIntercept", "unobservedWeight", *prior_settings)
    warm_start_settings = ("outcome", "rank", "adjustment", "confounderWeight", "fitIntercept")
    allowed: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "confounderWeight": ("user", "global"),
        "confounder": ("reconstruction",),
        "confounderLink": ("identity",),
        "leaveOneOut": (False,),
        "fitBiases": (False,),
        "regByCount": (False,),
        "solver": ("cholesky",),
        "userFeatures": (None,),
        "itemFeatures": (None,),
    }

    @property
    def weighted(self) -> bool:
        return bool(self.settings["adjustment"] == "ipw")

    def steps(self, observed: base.Observed, precision: str | None = None) -> GammaPoisson:
        """Coordinate ascent with the confounder and the intercept among the components."""
        return replace(
            super().steps(observed, precision),
            confounder=CONFOUNDER_PRIOR if self.has_confounder else None,
            per_user=self.settings["confounderWeight"] == "user",
            intercept=INTERCEPT_PRIOR if self.settings["fitIntercept"] else None,
            n_pairs=observed.n_pairs,
            unobserved=self.unobserved_weight,
            weighted=self.weighted,
        )

    def columns(self, is_user: bool) -> tuple[base.TableColumn, ...]:
        """Posterior means, and the posterior that they come from, gamma's at the end of the user's."""
        width = self.rank + (is_user and self.gamma_per_user)
        one_rate = self.unobserved_weight == 1.0 and not self.weighted
        means = [base.TableColumn("features", self.rank, remembered=False)]
        means += [base.TableColumn("gamma", None, remembered=False)] if is_user else []
        return (
            *means,
            base.TableColumn("outcome_shape", width),
            base.TableColumn("outcome_rate", width, same_for_all=one_rate),
        )

    def table_of(self, memory: Arrays, is_user: bool, shared: SharedGammas) -> dict[str, Array]:
        shape, rate = posteriors(memory)
        means = shape / rate
        table = {"features": means[:, : self.rank], "outcome_shape": shape, "outcome_rate": rate}
        if is_user:
            common = self.shared_numbers(shared).gamma
            table["gamma"] = means[:, self.rank] if self.gamma_per_user else np.full(len(shape), common)
        return table

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        memory = {name: columns[f"outcome_{name}"][:, : self.rank] for name in ("shape", "rate")}
        if is_user and self.gamma_per_user:
            memory |= {f"gamma_{name}": columns[f"outcome_{name}"][:, self.rank :] for name in ("shape", "rate")}
        return memory

    @classmethod
    def shared_numbers(cls, shared: SharedGammas) -> base.SharedNumbers:
        intercept, gamma = (0.0 if q is None else q.mean for q in shared)
        return base.SharedNumbers(intercept, gamma)

    def explainer(self, steps: GammaPoisson, shared: SharedGammas) -> base.Explainer | None:
        """Explain by dividing the users' fitted shapes among the ratings that they come from."""
        return partial(explain_rows, model=steps, shared=shared)


def explain_rows(
    inputs: KernelInput, wanted: Wanted, *, model: GammaPoisson, shared: SharedGammas
) -> base.BlockExplanation:
    """Explain the wanted pairs of a block of users. An update of these from the ratings has to leave them in place."""
    half = HalfStep(inputs, model, shared, is_user=True)
    counts, prior = half.counts(), half.prior
    shape, rate = posteriors(inputs.memory)
    gamma = np.full(len(shape), PoissonOutcome.shared_numbers(shared).gamma)
    if model.gamma_per_user:
        gamma = (shape / rate)[:, model.rank]
    cols, means = (np.ascontiguousarray(model.of_rows(inputs.inbox, False, mean)[0]) for mean in (False, True))
    parts = explain_poisson(counts, prior, shape, rate, cols, means, wanted)
    updated = update_shape(prior, counts, geometric_mean(shape, rate), cols)
    theta, implied = ((s / rate)[:, : model.rank] for s in (shape, updated))
    from_ratings = inner_products(wanted.row_ptr, wanted.col, implied, means)
    return base.BlockExplanation(parts, gamma, theta, means, from_ratings, parts.preference)
