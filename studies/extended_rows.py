"""The rows that the extended least-squares model is compared by, and the settings that each chooses from.

All rows without a confounder draw the same settings, ranks and regularisers, from the grid of MLlib's ALS. A row with
one takes what was chosen for its twin without it, and draws as many settings of the confounder alone; placebos draw the
same. So what differs between twins is the confounder. Of a joint draw the preference would decide, for validation sees
little of confounding. A row of inverse propensities draws its cap in the same way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dcrec_spark.local.trial import Confounder
from studies.rows import Budget, Sample

RANKS = (2, 5, 10, 20)
# Times the number of a row's ratings, which is MLlib's way.
REGULARISERS = (0.03, 0.1, 0.2, 0.3, 0.5)
_BIAS_REGULARISERS = (0.03, 0.1, 0.3)
EXPOSURE_RANKS = (2, 5, 10)
# One gamma for all; and departures from it, with three priors.
_GAMMAS: tuple[dict[str, Any], ...] = (
    {"confounderWeight": "global", "confounderReg": 1.0},
    {"confounderWeight": "pooled", "confounderReg": 1.0},
    {"confounderWeight": "pooled", "confounderReg": 10.0},
    {"confounderWeight": "pooled", "confounderReg": 100.0},
    {"confounderWeight": "pooled", "confounderReg": 10.0},
)
_CAPS = (2.0, 5.0, 10.0, 30.0)
# Of Poisson factorization: both shapes, and how much an unrated pair counts as a zero; 1 is the paper's.
_SHAPES = (0.1, 0.3, 1.0)
_ZEROS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
_SHARED = {"outcome": "probabilistic", "regByCount": True, "fitBiases": False}
_PLAIN = {"adjustment": "none"}
_CONFOUNDED = {"adjustment": "deconfounded"}


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

    def settings(
        self, budget: Budget, seed: int, chosen: Sample | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Sample settings: parameters of DeconfoundedMF, and of PoissonFactorization or None.

        chosen : those of the row that it follows.
        """
        rng = np.random.default_rng((seed, int(self.follows is not None)))
        fit = {"maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}
        for _ in range(budget.draws):
            if chosen is None:
                yield {**self._shared(), **fit, **self._preference(rng), **self.fixed}, None
            elif self.fixed["adjustment"] == "ipw":
                yield {**chosen[0], **self.fixed, "weightCap": _one_of(rng, _CAPS)}, None
            else:
                yield (
                    {**chosen[0], **self.fixed, **self._confounder(rng)},
                    {"rank": _one_of(rng, EXPOSURE_RANKS), "seed": seed},
                )

    def _shared(self) -> dict[str, Any]:
        return _SHARED

    def _preference(self, rng: np.random.Generator) -> dict[str, Any]:
        rank, strength, bias = (_one_of(rng, grid) for grid in (RANKS, REGULARISERS, _BIAS_REGULARISERS))
        biases = {"biasReg": bias} if self.fixed.get("fitBiases") else {}
        return {"rank": rank, "regParam": strength, **biases}

    def _confounder(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            **_one_of(rng, _GAMMAS),
            "leaveOneOut": bool(rng.integers(2)),
            "confounderLink": self.links[int(rng.integers(12)) % len(self.links)],
        }


class PoissonRow(ExtendedRow):
    """A line of Poisson factorization, which has Gamma priors in the place of regularisers, and no biases."""

    def _shared(self) -> dict[str, Any]:
        return {}

    def _preference(self, rng: np.random.Generator) -> dict[str, Any]:
        rank, shape, zeros = (_one_of(rng, grid) for grid in (RANKS, _SHAPES, _ZEROS))
        return {"rank": rank, "gammaShape": shape, "unobservedWeight": zeros}

    def _confounder(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"confounderWeight": _one_of(rng, ("user", "global"))}


CLASSICAL, BIASED, WITHOUT_INTERCEPT = "classical", "biased", "biased, intercept-free"
PAPERS = "intercept-free (the paper's classical)"
DECONFOUNDED, SHUFFLED = "biased deconfounded", "biased deconfounded, items shuffled"
_BIASES, _NO_INTERCEPT, _LINKS = {"fitBiases": True}, {"fitIntercept": False}, ("identity", "log")
ROWS = (
    ExtendedRow(PAPERS, {**_PLAIN, **_NO_INTERCEPT}),
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
# Another estimate of the same preference, next to the model with a confounder.
FURTHER_ROWS = (ExtendedRow("biased, inverse propensities of ratings", {"adjustment": "ipw"}, BIASED),)
# The confounder beside the paper's classical model, which has neither biases nor an intercept.
WITHOUT_BIASES_ROWS = (
    ExtendedRow("intercept-free deconfounded", {**_CONFOUNDED, **_NO_INTERCEPT}, PAPERS),
    ExtendedRow("intercept-free deconfounded, items shuffled", {**_CONFOUNDED, **_NO_INTERCEPT}, PAPERS, "permuted"),
    ExtendedRow("intercept-free deconfounded, any link", {**_CONFOUNDED, **_NO_INTERCEPT}, PAPERS, links=_LINKS),
)
# Poisson factorization, the weight of whose zeros is a choice, beside the paper's, where it is 1.
_POISSON, POISSON = {"outcome": "poisson"}, "Poisson, weight of zeros chosen"
_POISSON_CONFOUNDED = {**_POISSON, "adjustment": "deconfounded"}
POISSON_ROWS = (
    PoissonRow("Poisson, all zeros (the paper's)", {**_POISSON, **_PLAIN, "unobservedWeight": 1.0}),
    PoissonRow(POISSON, {**_POISSON, **_PLAIN}),
    PoissonRow("Poisson deconfounded", _POISSON_CONFOUNDED, POISSON),
    PoissonRow("Poisson deconfounded, items shuffled", _POISSON_CONFOUNDED, POISSON, "permuted"),
)
ALL_ROWS = (*ROWS, *FURTHER_ROWS, *WITHOUT_BIASES_ROWS, *POISSON_ROWS)


def _one_of(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    return choices[int(rng.integers(len(choices)))]
