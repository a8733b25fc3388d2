"""The exposure model as a family: a_ui ~ Poisson(pi_u . lambda_i), Gamma posteriors of pi and lambda."""

from typing import Any

import numpy as np

from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.models.families.base import Family, Objective, Observed, TableColumn
from dcrec_spark.models.families.gamma_poisson import GammaPrior, SharedGammas
from dcrec_spark.models.families.poisson_steps import GammaPoissonSteps, at_prior

NOTHING_SHARED = SharedGammas()


class PoissonExposure(Family):
    """Stage 1 (Gopalan, Hofman, Blei 2015)."""

    stage = "exposure"
    value = "exposure_count"
    objective = Objective("ELBO", rises=True)
    splits = True
    reads = ("shapePrior", "ratePrior")

    @property
    def prior(self) -> GammaPrior:
        """The Gamma prior of all factors."""
        return GammaPrior(self.settings["shapePrior"], self.settings["ratePrior"])

    def steps(self, observed: Observed, precision: str | None = None) -> GammaPoissonSteps:
        """Coordinate ascent without confounder and intercept."""
        return GammaPoissonSteps(
            stage=self.stage,
            count=self.value,
            rank=self.rank,
            prior=self.prior,
            seed=self.settings["seed"],
            precision=precision or self.settings["precision"],
            validates=observed.held_out,
            accelerates=True,
        )

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        """Shape and rate. The rows of a fitted side have one rate, those of a fold-in may have others."""
        return TableColumn("shape", self.rank), TableColumn("rate", self.rank, same_for_all=True)

    def table_of(self, memory: Arrays, is_user: bool, shared: Any = NOTHING_SHARED) -> dict[str, Array]:
        """Return the posterior of each row."""
        return {"shape": memory["shape"], "rate": np.broadcast_to(memory["rate"], memory["shape"].shape)}

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        """Return the posterior of each row."""
        return {"shape": columns["shape"], "rate": columns["rate"]}

    def at_prior(self, users: Arrays, items: Arrays, observed: Observed) -> Array:
        """By the users' shapes: posterior means never vanish."""
        return at_prior(self.prior, users, observed.n_users, self._total(observed))

    def variation(self, observed: Observed) -> float:
        """All pairs, each as large as the mean count of all."""
        return self._total(observed) ** 2 / observed.n_pairs

    def _total(self, observed: Observed) -> float:
        return observed.means[self.value] * observed.nonzeros
