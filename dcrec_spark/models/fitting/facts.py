"""Results of a fit: the plain numbers that a saved model keeps, and what is wrong with its factors."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import numpy as np

from dcrec_spark.engine.ascent import Fit
from dcrec_spark.engine.cells import Array
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.families.base import Family, OutcomeFamily
from dcrec_spark.models.fitting.attach import NO_COVARIATES, Covariates
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.propensity import Propensity
from dcrec_spark.models.persistence.mlio import as_json, from_json

# Factors have vanished when their squares are this share of the largest; two are copies of one another when their
# correlation is this near to 1.
NOTHING, THE_SAME = 1e-12, 1e-9


class Defect(StrEnum):
    """What is wrong with some factors of a fit."""

    VANISHED = "vanished"
    ZERO = "zero"
    AT_PRIOR = "at_prior"
    COPIES = "copies"


@dataclass(frozen=True)
class Degeneracy:
    """One thing that is wrong with the factors of a fit.

    stage : "exposure" or "outcome". factors : numbers of the factors, from 0. All of them where they vanished.
    """

    stage: str
    kind: Defect
    factors: tuple[int, ...]

    def __str__(self) -> str:
        """Return what is wrong, and what might help."""
        named = ("factor " if len(self.factors) == 1 else "factors ") + ", ".join(map(str, self.factors))
        is_or_are = "is" if len(self.factors) == 1 else "are"
        what = {
            Defect.VANISHED: f"all {len(self.factors)} factors are zero: less regularisation, or more data",
            Defect.ZERO: f"{named} {is_or_are} zero: a smaller rank would do",
            Defect.AT_PRIOR: f"{named} {is_or_are} left at the prior: a smaller rank would do",
            Defect.COPIES: f"{named} are copies of one another: a smaller rank, or another seed",
        }
        return f"{self.stage}: {what[self.kind]}"

    def __repr__(self) -> str:  # for a notebook's list of facts
        return f"<{self}>"


def find_degeneracies(
    stage: str, user_gram: Array, item_gram: Array, size: float = 0.0, at_prior: Array | None = None
) -> list[Degeneracy]:
    """Return what is wrong with the factors of a fit. Empty for a sound one.

    Component k is as strong as the product of its squares on both sides. Two are copies where they are parallel on
    both.

    size : the sum of squares, over all pairs, of what they should explain.
    at_prior : (K,) whether a Gamma factor is left at its prior. Posterior means never vanish.
    """
    strength = np.diag(user_gram) * np.diag(item_gram)
    gone = strength <= NOTHING * strength.max() if at_prior is None else at_prior
    if not np.vdot(user_gram, item_gram) > NOTHING * size or gone.all():
        return [Degeneracy(stage, Defect.VANISHED, tuple(range(len(strength))))]
    facts = []
    if gone.any():
        kind = Defect.ZERO if at_prior is None else Defect.AT_PRIOR
        facts.append(Degeneracy(stage, kind, tuple(map(int, np.flatnonzero(gone)))))
    alike = _parallel(user_gram) & _parallel(item_gram) & ~gone[:, None] & ~gone[None, :]
    first = alike.argmax(axis=0)  # the first of each factor's copies, itself if there is none
    for j in np.unique(first[~gone]):
        copies = np.flatnonzero((first == j) & ~gone)
        if len(copies) > 1:
            facts.append(Degeneracy(stage, Defect.COPIES, tuple(map(int, copies))))
    return facts


def vanished(facts: Iterable[Degeneracy]) -> bool:
    """Whether nothing at all is left of the factors of some stage."""
    return any(fact.kind is Defect.VANISHED for fact in facts)


def _parallel(gram: Array) -> Array:
    length = np.sqrt(np.diag(gram))
    with np.errstate(divide="ignore", invalid="ignore"):
        parallel: Array = np.abs(gram) / np.outer(length, length) > 1.0 - THE_SAME
    return parallel


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FitFacts:
    """How one stage's fit went.

    objective, held_out : after each sweep, the second empty without held-out pairs.
    converged : whether the objective converged, or the held-out loss ended the fit, else the sweeps ran out.
    degeneracies : what is wrong with the factors.
    final_objective : of the model itself, whose users were solved last.
    """

    objective: list[float]
    held_out: list[float] = field(default_factory=list)
    converged: bool = True
    degeneracies: list[Degeneracy] = field(default_factory=list)
    final_objective: float | None = None

    @classmethod
    def of(cls, family: Family, layout: Layout, fit: Fit) -> Self:
        """Look at a fit. :meth:`warn` logs what is wrong with it."""
        users, items = fit.users.sums, fit.items.sums
        at_prior = family.at_prior(users, items, layout)
        degenerate = find_degeneracies(family.stage, users["gram"], items["gram"], family.variation(layout), at_prior)
        return cls(fit.objective, fit.held_out, fit.converged, degenerate, fit.final_objective)

    def warn(self) -> Self:
        """Log what is wrong, once for each fact."""
        for fact in self.degeneracies:
            _log.warning("degenerate fit: %s", fact)
        return self


@dataclass(frozen=True)
class OutcomeFacts:
    """What the fit of an outcome model finds out.

    shared : the terms that all pairs share, as the family's steps take them. mean_rating : of the training ratings.
    propensity : of adjustment="ipw", else None. form : of the confounder. None without one.
    covariates : how those of users and items were scaled.
    """

    shared: Any
    mean_rating: float
    fit: FitFacts
    propensity: Propensity | None = None
    form: Form | None = None
    covariates: Covariates = NO_COVARIATES

    def as_json(self, family: type[OutcomeFamily]) -> dict[str, Any]:
        """Return the facts as JSON holds them, those of the fit among them."""
        facts = {name: as_json(value) for name, value in vars(self).items() if name != "fit"}
        return {**as_json(self.fit), **facts, "shared": family.shared_as_json(self.shared)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], family: type[OutcomeFamily]) -> Self:
        """Return the facts that :meth:`as_json` gave. Other names are passed over."""
        shared = family.shared_from_json(values["shared"])
        facts: Self = from_json(cls, {**values, "fit": values, "shared": shared})
        return facts
