"""History and convergence of the objective and of the held-out loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from dcrec_spark.errors import FitError

Listener = Callable[[str, int, float], None]

# Relative movement in the wrong direction that rounding may cause.
SLACK = {"float64": 1e-9, "float32": 1e-4}


@dataclass
class History:
    """Objectives of one stage, reported to a listener as they come.

    rises : True for an ELBO, False for a loss. slack : relative movement in the wrong direction, by rounding.
    enough : how many gains in succession below ``tol``, relatively, mean that the objective has converged.
    converged : whether it has. small_gains : how many there were in succession, up to the last value.
    """

    stage: str
    rises: bool
    tol: float
    slack: float
    listener: Listener
    values: list[float] = field(default_factory=list)
    enough: int = 1
    converged: bool = False
    small_gains: int = 0

    def improved_by(self, value: float) -> bool:
        """Whether a value that is not recorded yet is better than the last one that is."""
        return not self.values or (value > self.values[-1] if self.rises else value < self.values[-1])

    def worsened_by(self, value: float) -> bool:
        """Whether a value that is not recorded is worse than the last one that is, by more than rounding explains."""
        before = self.values[-1]
        loss = before - value if self.rises else value - before
        return loss > self.slack * abs(before)

    def record(self, value: float) -> bool:
        """Record one more value, and return whether the objective has converged.

        Raises FitError: the value is not finite, or moved the wrong way by more than rounding explains.
        """
        iteration = len(self.values) + 1
        if not math.isfinite(value):
            raise FitError(
                f"{self.stage}: the objective is {value} at iteration {iteration}: look for extreme ratings or weights"
            )
        before = self.values[-1] if self.values else None
        self.values.append(value)
        self.listener(self.stage, iteration, value)
        if before is None:
            return False
        gain = value - before if self.rises else before - value
        if gain < -self.slack * abs(before):
            word = "fell" if self.rises else "rose"
            raise FitError(
                f"{self.stage}: the objective {word} from {before:.10g} to {value:.10g} at iteration "
                f"{iteration}, which exact updates cannot do; with "
                "precision float32 try float64, else report it with your data's shape"
            )
        self.small_gains = self.small_gains + 1 if gain < self.tol * abs(before) else 0
        self.converged = self.small_gains >= self.enough
        return self.converged


@dataclass
class Patience:
    """Losses of held-out pairs, and how long to wait for a better one."""

    sweeps: int
    losses: list[float] = field(default_factory=list)

    def improved_by(self, loss: float) -> bool:
        """Record one more loss, and return whether it is the smallest so far."""
        self.losses.append(loss)
        return loss < min(self.losses[:-1], default=math.inf)

    @property
    def exhausted(self) -> bool:
        """Whether the smallest loss is ``sweeps`` sweeps old."""
        return bool(self.losses) and len(self.losses) - 1 - self.losses.index(min(self.losses)) >= self.sweeps
