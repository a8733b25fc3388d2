"""Step lengths of a sweep: coordinate ascent with over-relaxation and momentum.

A plain step takes each row to its optimum given the other side. Near the end of a fit such steps are tiny, because each
side waits for the other. A sweep may go further in two ways. A model supports one or both:

* **Longer steps**, up to twice as long, still climb (successive over-relaxation, for bounds like the ELBO,
  Salakhutdinov and Roweis 2003). They need only the previous rows.
* **Momentum** continues each step in the direction of the last one (Nesterov 1983), and needs the step before. It
  passes long valleys sooner, but from a bad start it converges to the nearest bad optimum. So longer steps come first::

    sweep      1   2     3     ...  10     11   12    13   ...  30     30 again   31
    length     1   1.1   1.21       1.9    1    1     1         1      1          1
    momentum   0   0     0          0      0    0.25  0.4       0.86   0          0.25

Both grow while the objective improves. A sweep that makes it worse is undone and repeated with plain steps. The
objective is exact, so it never moves the wrong way, as in plain ascent.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

GROWTH = 1.1
# Sweeps of longer steps before momentum takes over.
LEAD = 10
# Momentum is n / (n + DELAY) in the n-th sweep after a plain one.
DELAY = 3
# With momentum, this many small gains in succession end a fit: gains are small near an undone sweep too.
SMALL_GAINS_WITH_MOMENTUM = 5
# Name of the array in a block's memory with its rows before momentum was added.
REACHED = "reached"


class Stride(NamedTuple):
    """Step length relative to a plain step, and the share of the last movement that is added."""

    length: float = 1.0
    momentum: float = 0.0

    @property
    def is_long(self) -> bool:
        """Whether it goes beyond the optimum, so that the objective may get worse."""
        return self.length > 1.0 or self.momentum > 0.0


PLAIN_STEP = Stride()


@dataclass
class Acceleration:
    """The stride of the next sweep.

    longest : the model's, plain where it supports no other. sweeps : made so far. streak : sweeps in succession without
    one that was undone.
    """

    longest: Stride = PLAIN_STEP
    sweeps: int = 0
    streak: int = 0

    @property
    def stride(self) -> Stride:
        """Return that of the next sweep."""
        if self._leads:
            return Stride(length=min(GROWTH**self.streak, self.longest.length))
        n = min(self.streak, self.sweeps - LEAD)
        return Stride(momentum=min(n / (n + DELAY), self.longest.momentum))

    @property
    def gains_to_converge(self) -> int:
        """How many small gains in succession mean that the objective has converged.

        One of the longest steps is enough, because they gain most. Shorter ones gain little long before the end. With
        momentum, gains are also small before an undone sweep, and after it until momentum has grown again.
        """
        if not self._leads:
            return SMALL_GAINS_WITH_MOMENTUM
        # In so many sweeps at least one is of the longest kind, or is undone.
        to_longest = 1 + math.ceil(math.log(self.longest.length) / math.log(GROWTH))
        return 1 if self.stride.length == self.longest.length else to_longest

    @property
    def _leads(self) -> bool:
        return not self.longest.momentum or self.sweeps < LEAD

    def grow(self) -> None:
        """Go further next time: the objective improved."""
        self.sweeps += 1
        self.streak += 1

    def reset(self) -> None:
        """Repeat the sweep with plain steps, which can't fail."""
        self.streak = 0
