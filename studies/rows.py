"""Rows of the comparisons: what is fitted, and the settings among which it may choose.

Every row of an outcome model draws as many settings, and those of the outcome are the same draws for all of its rows:
none is tuned harder than another. A deconfounded row, and its placebos, draw settings of the confounder as well.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcrec_spark.local.trial import Confounder, Trial
from studies.paper import ADJUSTMENTS, OUTCOMES

Settings = dict[str, Any]
# Parameters of DeconfoundedMF, and of PoissonFactorization or None.
Sample = tuple[Settings, Settings | None]
# Budget, seed, and the chosen settings of the row that is followed -> samples.
Draw = Callable[["Budget", int, Sample | None], Iterator[Sample]]

# The paper's grid: ranks of both stages, prior standard deviations 1 and 0.1; a step between, and whether to fit an
# intercept, are ours: with them probabilistic MF can do what MLlib's ALS does.
RANKS = (1, 2, 5, 10, 20, 50, 100)
REGULARISERS = (1.0, 10.0, 100.0)
_INTERCEPT: Mapping[str, tuple[Any, ...]] = {"fitIntercept": (True, False)}
_SPACE: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "weighted": {"regParam": REGULARISERS, **_INTERCEPT, "alpha": (0.1, 1.0, 10.0, 40.0)},
    "probabilistic": {"regParam": REGULARISERS, **_INTERCEPT},
    "poisson": {"gammaShape": (0.1, 0.3, 1.0), **_INTERCEPT},
}
_WEIGHT: Mapping[str, tuple[Any, ...]] = {"confounderWeight": ("user", "global")}
_CONFOUNDER: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "weighted": {"confounderReg": REGULARISERS, **_WEIGHT},
    # Whether gamma a_hat is to explain the pairs without a rating too.
    "probabilistic": {"confounderReg": REGULARISERS, **_WEIGHT, "unobservedWeight": (0.0, 1.0)},
    "poisson": _WEIGHT,
}
PLACEBOS: tuple[Confounder, ...] = ("permuted", "popularity")
# Plain settings: rows of an outcome differ in the confounder alone, or in the intercept. One strength of the priors is
# chosen.
PLAIN: dict[str, list[Settings]] = {
    "weighted": [{"regParam": r, "alpha": 1.0} for r in (1.0, 3.0, 10.0, 30.0)],
    "probabilistic": [{"regParam": r, "unobservedWeight": 0.0} for r in (1.0, 3.0, 10.0, 30.0)],
    "poisson": [{"gammaShape": a} for a in (0.1, 0.3, 1.0, 3.0)],
}
PLAIN_RANK = 10
# The paper's models: a_hat as it is, no biases. Their trials also leave the confounder without standardisation.
_PAPERS = {"fitBiases": False, "leaveOneOut": False}


@dataclass(frozen=True)
class Budget:
    """Effort for each row: number of draws, of ranks up to ``most_rank``, fits of at most so many sweeps.

    plain : nothing is drawn, and each row has the settings of PLAIN.
    """

    draws: int
    most_rank: int = 100
    max_iter: int = 50
    tol: float = 1e-4
    plain: bool = False


@dataclass(frozen=True)
class Row:
    """A line of a table.

    confounder : "fitted", or a placebo in the place of a_hat. follows : the row whose chosen settings it takes, to
    choose only what it adds. standardize : whether a_hat is standardised.
    """

    name: str
    draw: Draw
    confounder: Confounder = "fitted"
    follows: str | None = None
    standardize: bool = True

    def trial(self, sample: Sample, **parts: Any) -> Trial:
        """Make the trial of one sample of settings on some parts of a data set."""
        return Trial(*sample, confounder=self.confounder, standardize=self.standardize, **parts)


def paper_row(
    outcome: str, adjustment: str, confounder: Confounder = "fitted", weight: str | None = None, intercept: bool = True
) -> Row:
    """Make a row of the paper's models: weighted-none, poisson-deconfounded-global-popularity, ...

    weight : whose gamma; None: drawn. intercept : False for models without one, as the paper's classical models are.
    """
    placebo = None if confounder == "fitted" else confounder
    name = "-".join(filter(None, (outcome, adjustment, weight, placebo, None if intercept else "no-intercept")))
    fixed = {"outcome": outcome, "adjustment": adjustment, **_PAPERS} | ({} if intercept else {"fitIntercept": False})
    fixed |= {} if weight is None else {"confounderWeight": weight}
    return Row(name, partial(_draw, fixed), confounder, standardize=False)


def rows(placebos: bool = True) -> list[Row]:
    """List the paper's nine rows; with ``placebos`` also those, and the classical rows without an intercept."""
    nine = [paper_row(outcome, adjustment) for outcome in OUTCOMES for adjustment in ADJUSTMENTS]
    more = [paper_row(outcome, "none", intercept=False) for outcome in OUTCOMES]
    more += [paper_row(outcome, "deconfounded", kind) for outcome in OUTCOMES for kind in PLACEBOS]
    return nine + (more if placebos else [])


def plain_rows() -> list[Row]:
    """Of each outcome: classical, a gamma for each user, one for all, the placebos with that; two without intercept."""
    return [
        row
        for outcome in OUTCOMES
        for row in (
            paper_row(outcome, "none"),
            paper_row(outcome, "deconfounded", weight="user"),
            paper_row(outcome, "deconfounded", weight="global"),
            *(paper_row(outcome, "deconfounded", kind, "global") for kind in PLACEBOS),
            paper_row(outcome, "none", intercept=False),
            paper_row(outcome, "deconfounded", weight="global", intercept=False),
        )
    ]


def describe(name: str) -> str:
    """Name a row for readers: which classical rows may have an intercept, and which one is the paper's.

    >>> describe("weighted-none-no-intercept")
    'weighted-none-no-intercept (the paper\'s classical model)'
    """
    if name.endswith("-none-no-intercept"):
        return f"{name} (the paper's classical model)"
    return f"{name} (an intercept is a choice)" if name.endswith("-none") else name


def _draw(fixed: Settings, budget: Budget, seed: int, chosen: Sample | None = None) -> Iterator[Sample]:
    outcome, deconfounded = fixed["outcome"], fixed["adjustment"] == "deconfounded"
    fit = {**fixed, "maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}
    if budget.plain:
        for given in PLAIN[outcome]:
            exposure = {"rank": PLAIN_RANK, "seed": seed} if deconfounded else None
            yield {"rank": PLAIN_RANK, "fitIntercept": True, **given, **fit}, exposure
        return
    ranks = tuple(rank for rank in RANKS if rank <= budget.most_rank)
    ours, theirs = (np.random.default_rng((seed, OUTCOMES.index(outcome), stream)) for stream in (0, 1))
    for _ in range(budget.draws):
        drawn = _sample(ours, {"rank": ranks, **_SPACE[outcome]}) | fit
        more = _sample(theirs, {"exposure_rank": ranks, **_CONFOUNDER[outcome]})
        exposure = {"rank": more.pop("exposure_rank"), "seed": seed}
        yield (more | drawn, exposure) if deconfounded else (drawn, None)


def _sample(rng: np.random.Generator, space: Mapping[str, tuple[Any, ...]]) -> Settings:
    return {name: one_of(rng, choices) for name, choices in space.items()}


def one_of(rng: np.random.Generator, choices: tuple[Any, ...]) -> Any:
    """Draw one of some choices."""
    return choices[int(rng.integers(len(choices)))]
