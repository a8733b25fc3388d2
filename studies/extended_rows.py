"""The rows that the extended least-squares model is compared by, and the settings that each chooses from.

All rows without a confounder draw the same settings, ranks and regularisers, from the grid of MLlib's ALS. A row with
one takes what was chosen for its twin without it, and draws as many settings of the confounder alone; placebos draw the
same. So what differs between twins is the confounder. Of a joint draw the preference would decide, for validation sees
little of confounding.
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
EXPOSURE_RANKS = (2, 5, 10)
# One gamma for all; and departures from it, with three priors and with one that is estimated.
_GAMMAS: tuple[dict[str, Any], ...] = (
    {"confounderWeight": "global", "confounderReg": 1.0},
    {"confounderWeight": "pooled", "confounderReg": 1.0},
    {"confounderWeight": "pooled", "confounderReg": 10.0},
    {"confounderWeight": "pooled", "confounderReg": 100.0},
    {"confounderWeight": "pooled", "confounderReg": 10.0, "estimateConfounderReg": True},
)
_SHARED = {"outcome": "probabilistic", "unobservedWeight": 0.0, "regByCount": True}
_PLAIN = {"adjustment": "none"}
_CONFOUNDED = {"adjustment": "deconfounded", "standardizeConfounder": True}


@dataclass(frozen=True)
class ExtendedRow:
    """A line of the tables.

    fixed : what all of its settings share. follows : its twin without a confounder. confounder : what takes the place
    of a_hat. links : those it chooses from.
    """

    name: str
    fixed: Mapping[str, Any]
    follows: str | None = None
    confounder: Confounder = "fitted"
    links: tuple[str, ...] = ("identity",)

    @property
    def has_confounder(self) -> bool:
        """Whether there is a stage 1."""
        return bool(self.fixed["adjustment"] == "deconfounded")

    def settings(
        self, budget: Budget, seed: int, chosen: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Sample settings: parameters of DeconfoundedMF, and of PoissonFactorization or None.

        chosen : parameters of the row that it follows.
        """
        rng = np.random.default_rng((seed, int(self.has_confounder)))
        fit = {"maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}
        for _ in range(budget.draws):
            if self.has_confounder:
                yield (
                    {**(chosen or {}), **self.fixed, **self._confounder(rng)},
                    {"rank": _one_of(rng, EXPOSURE_RANKS), "seed": seed},
                )
            else:
                yield {**_SHARED, **fit, **self._preference(rng), **self.fixed}, None

    def _preference(self, rng: np.random.Generator) -> dict[str, Any]:
        rank, strength, bias = (_one_of(rng, grid) for grid in (RANKS, REGULARISERS, _BIAS_REGULARISERS))
        biases = {"userBiasReg": bias, "itemBiasReg": bias} if self.fixed.get("fitBiases") else {}
        return {"rank": rank, "userReg": strength, "itemReg": strength, **biases}

    def _confounder(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            **_one_of(rng, _GAMMAS),
            "leaveOneOut": bool(rng.integers(2)),
            "confounderVariance": bool(rng.integers(2)),
            "confounderLink": self.links[int(rng.integers(12)) % len(self.links)],
        }


CLASSICAL, BIASED, WITHOUT_INTERCEPT = "classical", "biased", "biased, intercept-free"
DECONFOUNDED, SHUFFLED = "biased deconfounded", "biased deconfounded, items shuffled"
_BIASES, _NO_INTERCEPT, _LINKS = {"fitBiases": True}, {"fitIntercept": False}, ("identity", "sqrt", "log")
ROWS = (
    ExtendedRow("intercept-free (the paper's classical)", {**_PLAIN, **_NO_INTERCEPT}),
    ExtendedRow(CLASSICAL, _PLAIN),
    ExtendedRow(BIASED, {**_PLAIN, **_BIASES}),
    ExtendedRow(WITHOUT_INTERCEPT, {**_PLAIN, **_BIASES, **_NO_INTERCEPT}),
    ExtendedRow("biased + popularity", {**_CONFOUNDED, **_BIASES}, BIASED, "popularity"),
    ExtendedRow("deconfounded", _CONFOUNDED, CLASSICAL),
    ExtendedRow(DECONFOUNDED, {**_CONFOUNDED, **_BIASES}, BIASED),
    ExtendedRow(SHUFFLED, {**_CONFOUNDED, **_BIASES}, BIASED, "permuted"),
    ExtendedRow("biased deconfounded, any link", {**_CONFOUNDED, **_BIASES}, BIASED, links=_LINKS),
    ExtendedRow(
        "biased deconfounded, intercept-free, any link",
        {**_CONFOUNDED, **_BIASES, **_NO_INTERCEPT},
        WITHOUT_INTERCEPT,
        links=_LINKS,
    ),
)


def _one_of(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]
