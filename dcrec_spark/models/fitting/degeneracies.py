"""Fits that ended somewhere useless, as facts: factors that vanished, factors that are copies of one another."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from dcrec_spark.engine.cells import Array

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

    @property
    def sentence(self) -> str:
        """What is wrong, and what might help, for a log or a report."""
        named = ("factor " if len(self.factors) == 1 else "factors ") + ", ".join(map(str, self.factors))
        is_or_are = "is" if len(self.factors) == 1 else "are"
        what = {
            Defect.VANISHED: f"all {len(self.factors)} factors are zero: less regularisation, or more data",
            Defect.ZERO: f"{named} {is_or_are} zero: a smaller rank would do",
            Defect.AT_PRIOR: f"{named} {is_or_are} left at the prior: a smaller rank would do",
            Defect.COPIES: f"{named} are copies of one another: a smaller rank, or another seed",
        }
        return f"{self.stage}: {what[self.kind]}"

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:  # for a notebook's list of facts
        return f"<{self.sentence}>"


def find_degeneracies(
    stage: str, user_gram: Array, item_gram: Array, size: float = 0.0, at_prior: Array | None = None
) -> list[Degeneracy]:
    """Return what is wrong with the factors of a fit. Empty for a sound one.

    Component k is as strong as the product of its squares on both sides. Two are copies where they are parallel on
    both.

    user_gram, item_gram : (K, K) Gram matrices of the factors.
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
