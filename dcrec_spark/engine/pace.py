"""How long the steps of a sweep are: coordinate ascent that goes beyond the optimum of each coordinate.

A step of length 1 takes a row to its optimum given the other side. Near the end of a fit such steps are tiny, for each
side waits for the other. Steps up to twice as long still climb (successive over-relaxation; for bounds like the ELBO,
Salakhutdinov and Roweis 2003), and pass a valley in a fraction of the sweeps::

    sweep    1   2     3     ...  8     9     10
    length   1   1.1   1.21       1.9   1.9   1.9        longer while the objective improves
    ...
    sweep    30  30 again  31    32                      a sweep that made it worse is undone, and taken at length 1
    length   1.9 1         1.1   1.21

The objective is exact, so that nothing is left to chance: it never moves the wrong way, as in plain ascent.
"""

import math
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from dcrec_spark.engine.cells import Arrays

GROWTH = 1.1


def sweeps_to(longest: float) -> int:
    """Return how many sweeps in succession have one among them that was of the longest kind, or undone."""
    return 1 + math.ceil(math.log(longest) / math.log(GROWTH))


@runtime_checkable
class Paced(Protocol):
    """Steps of a model whose length can be chosen."""

    @property
    def accelerates(self) -> bool:
        """Whether it is to be chosen: else all steps have length 1."""

    @property
    def longest(self) -> float:
        """How long they may be: below 2, where over-relaxation ceases to converge."""

    def at_pace(self, length: float) -> Self:
        """Return the same steps, each so many times as long as the one to the optimum."""


@runtime_checkable
class Balanced(Protocol):
    """Steps of a model of products, whose sides have a scale of each factor between them."""

    def balanced(self, users: Arrays, items: Arrays) -> Self:
        """Return the same steps from where each factor has its best scale; the sums are those of both sides so far."""


@dataclass
class Pace:
    """The length of the next sweep's steps."""

    longest: float = 1.0
    length: float = 1.0

    @classmethod
    def of(cls, steps: object) -> Self:
        """Begin with plain steps, which stay plain where the model has no others."""
        return cls(steps.longest if isinstance(steps, Paced) and steps.accelerates else 1.0)

    @property
    def accelerates(self) -> bool:
        """Whether steps may be long."""
        return self.longest > 1.0

    @property
    def is_long(self) -> bool:
        """Whether the steps go beyond the optimum, so that the objective may get worse by them."""
        return self.length > 1.0

    @property
    def gains_to_settle(self) -> int:
        """How many small gains in succession mean that the objective has settled.

        One of the longest steps says so, for they gain most; shorter ones gain little long before the end.
        """
        return 1 if self.length == self.longest else sweeps_to(self.longest)

    def improved(self) -> None:
        """Go further next time: the objective improved."""
        self.length = min(GROWTH * self.length, self.longest)

    def undone(self) -> None:
        """Take the sweep at length 1, which can't fail."""
        self.length = 1.0
