"""How far the steps of a sweep go: coordinate ascent that goes beyond the optimum of each coordinate.

A step to its optimum takes a row there given the other side. Near the end of a fit such steps are tiny, for each side
waits for the other. So a sweep may go further, in two ways that a model has one or both of:

* **Longer steps**, up to twice as long, still climb (successive over-relaxation; for bounds like the ELBO,
  Salakhutdinov and Roweis 2003), and need nothing but where a row was.
* **Momentum** goes on from each step in the direction of the last one (Nesterov 1983), and needs the step before. It
  passes long valleys sooner, but from a bad start it runs into the next best one: longer steps lead, momentum follows::

    sweep      1   2     3     ...  10     11   12    13   ...  30     30 again   31
    length     1   1.1   1.21       1.9    1    1     1         1      1          1
    momentum   0   0     0          0      0    .25   .4        .86    0          .25

Either grows while the objective improves. A sweep that made it worse is undone, and taken to the optimum instead. The
objective is exact, so that nothing is left to chance: it never moves the wrong way, as in plain ascent.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, runtime_checkable

from dcrec_spark.engine.cells import Arrays

GROWTH = 1.1
# Sweeps of longer steps before momentum takes over.
LEAD = 10
# Momentum is n / (n + DELAY) in the n-th sweep after a plain one.
DELAY = 3
# So many small gains in succession, with momentum, are the end: gains are small about an undone sweep too.
SETTLED_BY_MOMENTUM = 5
# The name of what a block remembers of its rows before momentum took them further.
REACHED = "reached"


class Stride(NamedTuple):
    """How far rows go in a sweep: so many steps to the optimum, and so much of the movement since the last one."""

    length: float = 1.0
    momentum: float = 0.0

    @property
    def is_long(self) -> bool:
        """Whether it goes beyond the optimum, so that the objective may get worse by it."""
        return self.length > 1.0 or self.momentum > 0.0


TO_THE_OPTIMUM = Stride()


def sweeps_to(longest: float) -> int:
    """Return how many sweeps in succession have one among them that was of the longest kind, or undone."""
    return 1 + math.ceil(math.log(longest) / math.log(GROWTH))


@runtime_checkable
class Paced(Protocol):
    """Steps of a model whose strides can be chosen."""

    @property
    def accelerates(self) -> bool:
        """Whether they are to be chosen: else all steps end at the optimum."""

    @property
    def longest(self) -> Stride:
        """How long they may be: lengths below 2, where over-relaxation ceases to converge, and momentum below 1."""

    def at_pace(self, stride: Stride) -> Self:
        """Return the same steps, going so far."""


@runtime_checkable
class Balanced(Protocol):
    """Steps of a model of products, whose sides have a scale of each factor between them."""

    def balanced(self, users: Arrays, items: Arrays) -> Self:
        """Return the same steps from where each factor has its best scale; the sums are those of both sides so far."""


@dataclass
class Pace:
    """How far the next sweep goes.

    longest : strides of the model. sweeps : that were made so far. streak : in succession without one that was undone.
    """

    longest: Stride = TO_THE_OPTIMUM
    sweeps: int = 0
    streak: int = 0

    @classmethod
    def of(cls, steps: object, sweeps: int, streak: int) -> Self:
        """Go on after so many sweeps; steps stay plain where the model has no others."""
        return cls(steps.longest if isinstance(steps, Paced) and steps.accelerates else TO_THE_OPTIMUM, sweeps, streak)

    @property
    def accelerates(self) -> bool:
        """Whether steps may be long."""
        return self.longest.is_long

    @property
    def stride(self) -> Stride:
        """Return that of the next sweep."""
        if self._leads:
            return Stride(length=min(GROWTH**self.streak, self.longest.length))
        n = min(self.streak, self.sweeps - LEAD)
        return Stride(momentum=min(n / (n + DELAY), self.longest.momentum))

    @property
    def gains_to_settle(self) -> int:
        """How many small gains in succession mean that the objective has settled.

        One of the longest steps says so, for they gain most; shorter ones gain little long before the end. With
        momentum gains are small before a sweep that is undone too, and after it, until momentum has grown again.
        """
        if not self._leads:
            return SETTLED_BY_MOMENTUM
        return 1 if self.stride.length == self.longest.length else sweeps_to(self.longest.length)

    @property
    def _leads(self) -> bool:
        return not self.longest.momentum or self.sweeps < LEAD

    def improved(self) -> None:
        """Go further next time: the objective improved."""
        self.sweeps += 1
        self.streak += 1

    def undone(self) -> None:
        """Take the sweep to the optimum, which can't fail."""
        self.streak = 0
