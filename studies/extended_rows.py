"""Rows of the extended least-squares model, and the settings from which each chooses.

All rows without a confounder draw the same settings from the grid of MLlib's ALS. A row with one takes what was chosen
for its baseline model, and draws as many settings of the confounder alone; placebos draw the same. So what differs is
the confounder. Of a joint draw the preference would decide, because validation sees little of confounding.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from dcrec_spark.local.trial import Confounder
from studies.rows import Budget, Row, Sample, Settings, one_of

RANKS = (2, 5, 10, 20)
# Times the number of a row's ratings, as in MLlib.
REGULARISERS = (0.03, 0.1, 0.2, 0.3, 0.5)
_BIAS_REGULARISERS = (0.03, 0.1, 0.3)
EXPOSURE_RANKS = (2, 5, 10)
# One gamma for all; and departures from it, with three priors.
_GAMMAS: tuple[Settings, ...] = (
    {"confounderWeight": "global", "confounderReg": 1.0},
    *({"confounderWeight": "pooled", "confounderReg": reg} for reg in (1.0, 10.0, 100.0, 10.0)),
)
_CAPS = (2.0, 5.0, 10.0, 30.0)
# Of Poisson factorization: both shapes, and the weight of an unrated pair; 1 is the paper's.
_SHAPES = (0.1, 0.3, 1.0)
_ZEROS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
_LINKS = ("identity", "log")
_CLASSICAL = {"adjustment": "none"}
_CONFOUNDED = {"adjustment": "deconfounded"}
_NO_INTERCEPT = {"fitIntercept": False}
_BARE = {**_CONFOUNDED, **_NO_INTERCEPT}

CLASSICAL, BIASED, WITHOUT_INTERCEPT = "classical", "biased", "biased, intercept-free"
PAPERS = "intercept-free (the paper's classical)"
DECONFOUNDED, SHUFFLED = "biased deconfounded", "biased deconfounded, items shuffled"
POISSON = "Poisson, weight of zeros chosen"


def _row(
    name: str,
    fixed: Mapping[str, Any],
    follows: str | None = None,
    confounder: Confounder = "fitted",
    links: tuple[str, ...] = ("identity",),
    biases: bool = False,
) -> Row:
    """Make a row; without links it is one of Poisson factorization."""
    least_squares = {
        "outcome": "probabilistic",
        "regByCount": True,
        "fitBiases": biases,
        "confounder": "reconstruction",
    }
    shared = least_squares if links else {"outcome": "poisson"}
    return Row(name, partial(_draw, {**shared, **fixed}, links), confounder, follows)


def _draw(
    fixed: Settings, links: tuple[str, ...], budget: Budget, seed: int, chosen: Sample | None = None
) -> Iterator[Sample]:
    rng = np.random.default_rng((seed, int(chosen is not None)))
    fit = {"maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}
    for _ in range(budget.draws):
        if chosen is None:
            yield {**fit, **_preference(rng, fixed), **fixed}, None
        elif fixed["adjustment"] == "ipw":
            yield {**chosen[0], **fixed, "weightCap": one_of(rng, _CAPS)}, None
        else:
            outcome = {**chosen[0], **fixed, **_confounder(rng, links)}
            yield outcome, {"rank": one_of(rng, EXPOSURE_RANKS), "seed": seed}


def _preference(rng: np.random.Generator, fixed: Settings) -> Settings:
    if fixed["outcome"] == "poisson":
        rank, shape, zeros = (one_of(rng, grid) for grid in (RANKS, _SHAPES, _ZEROS))
        return {"rank": rank, "gammaShape": shape, "unobservedWeight": zeros}
    rank, strength, bias = (one_of(rng, grid) for grid in (RANKS, REGULARISERS, _BIAS_REGULARISERS))
    return {"rank": rank, "regParam": strength} | ({"biasReg": bias} if fixed["fitBiases"] else {})


def _confounder(rng: np.random.Generator, links: tuple[str, ...]) -> Settings:
    if not links:
        return {"confounderWeight": one_of(rng, ("user", "global"))}
    leave_one_out = {**one_of(rng, _GAMMAS), "leaveOneOut": bool(rng.integers(2))}
    return {**leave_one_out, "confounderLink": links[int(rng.integers(12)) % len(links)]}


_biased = partial(_row, biases=True)
ROWS = (
    _row(PAPERS, {**_CLASSICAL, **_NO_INTERCEPT}),
    _row(CLASSICAL, _CLASSICAL),
    _biased(BIASED, _CLASSICAL),
    _biased(WITHOUT_INTERCEPT, {**_CLASSICAL, **_NO_INTERCEPT}),
    _biased("biased + popularity", _CONFOUNDED, BIASED, "popularity"),
    _row("deconfounded", _CONFOUNDED, CLASSICAL),
    _biased(DECONFOUNDED, _CONFOUNDED, BIASED),
    _biased(SHUFFLED, _CONFOUNDED, BIASED, "permuted"),
    _biased("biased deconfounded, any link", _CONFOUNDED, BIASED, links=_LINKS),
    _biased("biased deconfounded, intercept-free, any link", _BARE, WITHOUT_INTERCEPT, links=_LINKS),
)
FURTHER_ROWS = (_biased("biased, inverse propensities of ratings", {"adjustment": "ipw"}, BIASED),)
# The confounder with the paper's classical model, which has neither biases nor an intercept.
WITHOUT_BIASES_ROWS = (
    _row("intercept-free deconfounded", _BARE, PAPERS),
    _row("intercept-free deconfounded, items shuffled", _BARE, PAPERS, "permuted"),
    _row("intercept-free deconfounded, any link", _BARE, PAPERS, links=_LINKS),
)
POISSON_ROWS = (
    _row("Poisson, all zeros (the paper's)", {**_CLASSICAL, "unobservedWeight": 1.0}, links=()),
    _row(POISSON, _CLASSICAL, links=()),
    _row("Poisson deconfounded", _CONFOUNDED, POISSON, links=()),
    _row("Poisson deconfounded, items shuffled", _CONFOUNDED, POISSON, "permuted", ()),
)
ALL_ROWS = (*ROWS, *FURTHER_ROWS, *WITHOUT_BIASES_ROWS, *POISSON_ROWS)
