"""What is compared, and from which settings each row may choose.

Every row of an outcome model draws as many settings, and those of the outcome are the same draws for all of its rows:
none is tuned harder than another. A deconfounded row, and its placebos, draw settings of the confounder beside them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dcrec_spark.local.trial import Confounder, Trial
from studies.paper import ADJUSTMENTS, OUTCOMES

# The paper's grid: ranks of both stages, prior standard deviations 1 and 0.1; a step between, and whether to fit an
# intercept, are ours: with them probabilistic MF can do what MLlib's ALS does.
RANKS = (1, 2, 5, 10, 20, 50, 100)
REGULARISERS = (1.0, 10.0, 100.0)
_LEAST_SQUARES: dict[str, tuple[Any, ...]] = {"regParam": REGULARISERS}
_INTERCEPT: dict[str, tuple[Any, ...]] = {"fitIntercept": (True, False)}
SPACE: dict[str, dict[str, tuple[Any, ...]]] = {
    "weighted": {**_LEAST_SQUARES, **_INTERCEPT, "alpha": (0.1, 1.0, 10.0, 40.0)},
    "probabilistic": {**_LEAST_SQUARES, **_INTERCEPT},
    "poisson": {"gammaShape": (0.1, 0.3, 1.0), **_INTERCEPT},
}
_WEIGHT: dict[str, tuple[Any, ...]] = {"confounderWeight": ("user", "global")}
CONFOUNDER: dict[str, dict[str, tuple[Any, ...]]] = {
    "weighted": {"confounderReg": REGULARISERS, **_WEIGHT},
    # Whether gamma a_hat is to explain the pairs without a rating too.
    "probabilistic": {"confounderReg": REGULARISERS, **_WEIGHT, "unobservedWeight": (0.0, 1.0)},
    "poisson": _WEIGHT,
}
PLACEBOS: tuple[Confounder, ...] = ("permuted", "popularity")
# Plain settings: rows of an outcome differ in the confounder alone, or in the intercept. Only what was rated speaks of
# probabilistic MF's ratings and confounder; one strength of the priors is chosen.
PLAIN: dict[str, list[dict[str, Any]]] = {
    "weighted": [{"regParam": r, "alpha": 1.0} for r in (1.0, 3.0, 10.0, 30.0)],
    "probabilistic": [{"regParam": r, "unobservedWeight": 0.0} for r in (1.0, 3.0, 10.0, 30.0)],
    "poisson": [{"gammaShape": a} for a in (0.1, 0.3, 1.0, 3.0)],
}
PLAIN_RANK = 10
# Parameters of DeconfoundedMF, and of PoissonFactorization or None.
Sample = tuple[Mapping[str, Any], Mapping[str, Any] | None]
# The paper's models: a_hat as it is, no biases. Their trials also leave the confounder without standardisation.
PAPERS = {"fitBiases": False, "leaveOneOut": False}


class AnyRow(Protocol):
    """A line of a table, as a comparison needs it."""

    @property
    def name(self) -> str:
        """What the tables call it."""

    @property
    def confounder(self) -> Confounder:
        """What takes the place of a_hat."""

    @property
    def follows(self) -> str | None:
        """The row whose chosen settings it takes, to choose what it adds alone; None: it chooses all of its own."""

    def settings(
        self, budget: "Budget", seed: int, chosen: Sample | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Sample settings; chosen : those of the row that it follows."""


@dataclass(frozen=True)
class Row:
    """A line of a table.

    confounder : "fitted" unless a placebo. weight : whose gamma, where that is not drawn. intercept : False where the
    row goes without one, as the paper's classical models do.
    """

    outcome: str
    adjustment: str
    confounder: Confounder = "fitted"
    weight: str | None = None
    intercept: bool = True
    follows: str | None = None

    @property
    def name(self) -> str:
        """probabilistic-none, weighted-deconfounded-permuted, poisson-deconfounded-global-popularity, ..."""
        placebo = None if self.confounder == "fitted" else self.confounder
        without = None if self.intercept else "no-intercept"
        return "-".join(filter(None, (self.outcome, self.adjustment, self.weight, placebo, without)))

    def settings(
        self, budget: "Budget", seed: int, chosen: Sample | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Sample settings: parameters of DeconfoundedMF, and of PoissonFactorization or None."""
        return settings(self, budget, seed)


@dataclass(frozen=True)
class Budget:
    """How hard each row is tuned: so many draws, of ranks up to ``most_rank``, fits of so many sweeps at most.

    rank : the one of all outcome models, where it is given; that of the exposure model is drawn all the same. plain :
    nothing is drawn, and each row has the settings of PLAIN.
    """

    draws: int
    most_rank: int = 100
    max_iter: int = 50
    tol: float = 1e-4
    rank: int | None = None
    plain: bool | None = None


def described(name: str) -> str:
    """Name a row for readers: which classical rows may have an intercept, and which one is the paper's.

    >>> described("weighted-none-no-intercept")
    'weighted-none-no-intercept (the paper\'s classical model)'
    """
    if name in {row.name for row in classical_rows(intercept=False)}:
        return f"{name} (the paper's classical model)"
    return f"{name} (an intercept is a choice)" if name in {row.name for row in classical_rows()} else name


def classical_rows(intercept: bool = True) -> list[Row]:
    """List the classical row of each outcome."""
    return [Row(outcome, "none", intercept=intercept) for outcome in OUTCOMES]


def plain_rows() -> list[Row]:
    """Of each outcome: classical, a gamma for each user, one for all, the placebos with that; two without intercept."""
    return [
        row
        for outcome in OUTCOMES
        for row in (
            Row(outcome, "none"),
            Row(outcome, "deconfounded", weight="user"),
            Row(outcome, "deconfounded", weight="global"),
            *(Row(outcome, "deconfounded", kind, "global") for kind in PLACEBOS),
            Row(outcome, "none", intercept=False),
            Row(outcome, "deconfounded", weight="global", intercept=False),
        )
    ]


def rows(placebos: bool = True) -> list[Row]:
    """List the paper's nine rows; with ``placebos`` those, and the paper's own classical rows, without an intercept."""
    nine = [Row(outcome, adjustment) for outcome in OUTCOMES for adjustment in ADJUSTMENTS]
    if placebos:
        nine += classical_rows(intercept=False)
    return nine + [Row(o, "deconfounded", kind) for o in OUTCOMES for kind in PLACEBOS if placebos]


def settings(row: Row, budget: Budget, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Sample settings for a row: parameters of DeconfoundedMF, and of PoissonFactorization or None."""
    if budget.plain:
        yield from _plain(row, budget, seed)
        return
    ranks = tuple(rank for rank in RANKS if rank <= budget.most_rank)
    fit = {"maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}
    ours = np.random.default_rng((seed, OUTCOMES.index(row.outcome), 0))
    theirs = np.random.default_rng((seed, OUTCOMES.index(row.outcome), 1))
    for _ in range(budget.draws):
        allowed = ranks if budget.rank is None else (budget.rank,)
        outcome = _sampled(ours, {"rank": allowed, **SPACE[row.outcome]})
        outcome |= {"outcome": row.outcome, "adjustment": row.adjustment, **PAPERS, **fit}
        if not row.intercept:
            outcome["fitIntercept"] = False
        more = _sampled(theirs, {"exposure_rank": ranks, **CONFOUNDER[row.outcome]})
        if row.adjustment != "deconfounded":
            yield outcome, None
            continue
        exposure = {"rank": more.pop("exposure_rank"), "seed": seed}
        yield outcome | more, exposure


def _plain(row: Row, budget: Budget, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    exposure = {"rank": PLAIN_RANK, "seed": seed} if row.adjustment == "deconfounded" else None
    shared = {"outcome": row.outcome, "adjustment": row.adjustment, "rank": PLAIN_RANK, **PAPERS}
    shared |= {"fitIntercept": row.intercept} | ({} if row.weight is None else {"confounderWeight": row.weight})
    for given in PLAIN[row.outcome]:
        yield {**shared, **given, "maxIter": budget.max_iter, "tol": budget.tol, "seed": seed}, exposure


def trial(row: AnyRow, of: Sample, **parts: Any) -> Trial:
    """One of a row's draws on some parts of a data set."""
    return Trial(dict(of[0]), of[1], confounder=row.confounder, standardize=not isinstance(row, Row), **parts)


def _sampled(rng: np.random.Generator, space: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {name: choices[int(rng.integers(len(choices)))] for name, choices in space.items()}
