"""The rows that the extended least-squares model is compared by, and the settings that each chooses from.

All rows draw the same settings of the preference, rank and regularisers, from the grid of MLlib's ALS; those with
biases or a term for the exposure draw their settings beside them, and placebos draw the same. None is tuned harder than
another.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcrec_spark.local.trial import Confounder
from studies.rows import Budget

RANKS = (2, 5, 10, 20)
# Times the number of a row's ratings, which is MLlib's way.
REGULARISERS = (0.03, 0.1, 0.2, 0.3, 0.5)
_BIAS_REGULARISERS = (0.03, 0.1, 0.3)
_CONFOUNDER_REGULARISERS = (0.01, 1.0, 10.0, 100.0)
_SHARED = {"outcome": "probabilistic", "unobservedWeight": 0.0, "regByCount": True}
_PLAIN = {"adjustment": "none"}
_POOLED = {"adjustment": "deconfounded", "confounderWeight": "pooled", "standardizeConfounder": True}


@dataclass(frozen=True)
class ExtendedRow:
    """A line of the tables.

    fixed : what all of its settings share. confounder : what takes the place of a_hat. links : those it chooses from.
    """

    name: str
    fixed: Mapping[str, Any]
    confounder: Confounder = "fitted"
    links: tuple[str, ...] = ("identity",)

    @property
    def has_confounder(self) -> bool:
        """Whether there is a stage 1."""
        return bool(self.fixed["adjustment"] == "deconfounded")

    def settings(self, budget: Budget, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Sample settings: parameters of DeconfoundedMF, and of PoissonFactorization or None."""
        ours, theirs = (np.random.default_rng((seed, purpose)) for purpose in (0, 1))
        fit = {"maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}
        for _ in range(budget.draws):
            preference, confounder = _preference(ours), self._confounder(theirs)
            exposure = {"rank": confounder.pop("exposure_rank"), "seed": seed}
            outcome = {**_SHARED, **fit, **preference, **self.fixed}
            if not outcome.get("fitBiases"):
                outcome = {name: value for name, value in outcome.items() if not name.endswith("BiasReg")}
            yield (outcome | confounder, exposure) if self.has_confounder else (outcome, None)

    def _confounder(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "exposure_rank": _one_of(rng, (2, 5, 10)),
            "confounderReg": _one_of(rng, _CONFOUNDER_REGULARISERS),
            "leaveOneOut": bool(rng.integers(2)),
            "confounderVariance": bool(rng.integers(2)),
            "confounderLink": self.links[int(rng.integers(12)) % len(self.links)],
        }


ROWS = (
    ExtendedRow("intercept-free (the paper's classical)", {**_PLAIN, "fitIntercept": False}),
    ExtendedRow("classical", _PLAIN),
    ExtendedRow("biased", {**_PLAIN, "fitBiases": True}),
    ExtendedRow("biased, intercept-free", {**_PLAIN, "fitBiases": True, "fitIntercept": False}),
    ExtendedRow("biased + popularity", {**_POOLED, "fitBiases": True}, "popularity"),
    ExtendedRow("deconfounded", _POOLED),
    ExtendedRow("biased deconfounded", {**_POOLED, "fitBiases": True}),
    ExtendedRow("biased deconfounded, items shuffled", {**_POOLED, "fitBiases": True}, "permuted"),
    ExtendedRow("biased deconfounded, any link", {**_POOLED, "fitBiases": True}, links=("identity", "sqrt", "log")),
    ExtendedRow(
        "biased deconfounded, intercept-free, any link",
        {**_POOLED, "fitBiases": True, "fitIntercept": False},
        links=("identity", "sqrt", "log"),
    ),
)
BIASED, DECONFOUNDED, SHUFFLED = "biased", "biased deconfounded", "biased deconfounded, items shuffled"


def _preference(rng: np.random.Generator) -> dict[str, Any]:
    strength, bias = _one_of(rng, REGULARISERS), _one_of(rng, _BIAS_REGULARISERS)
    regularisers = dict.fromkeys(("userReg", "itemReg"), strength) | dict.fromkeys(("userBiasReg", "itemBiasReg"), bias)
    return {"rank": _one_of(rng, RANKS), **regularisers}


def _one_of(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]
