"""The steps of a model: the kernels of both sides, and what becomes of their sums. The loop of a fit runs them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

from dcrec_spark.engine.acceleration import PLAIN_STEP, Stride
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update

# Of a block of users and its update: (H, ...) each, sums over its pairs with the heavy items.
PartsOf = Callable[[KernelInput, Update], Arrays]
# Of a block of users and the new rows of the heavy items: sums over the pairs of both.
ScoresOf = Callable[[KernelInput, Array], Arrays]


class Steps(ABC):
    """Coordinate ascent of one model.

    stage : its name in logs and errors.
    rises : whether the objective is a bound to raise, not a loss to lower.
    accelerates : whether strides may be long, else all steps are plain.
    longest : the largest length, below 2, where over-relaxation ceases to converge, and momentum, below 1.
    """

    stage: str
    rises: ClassVar[bool]
    accelerates: bool = False
    longest: ClassVar[Stride] = PLAIN_STEP

    @property
    def shared(self) -> Any:
        """Initial shared terms: the intercept, a global gamma."""
        return None

    @abstractmethod
    def start(self, is_user: bool) -> Kernel:
        """Make the first state of a side, from its memory where there is one."""

    @abstractmethod
    def update(self, shared: Any, is_user: bool) -> Kernel:
        """Update one side, given the other. Items also add up what :meth:`conclude` needs of the observed pairs."""

    @abstractmethod
    def converge(self, shared: Any, is_user: bool = True, scores: bool = False) -> Kernel:
        """Solve one side, given the other, from a fixed start: the users at the end of a fit, and what is folded in.

        scores : whether to add up, over the observed pairs, what :meth:`converged_objective` needs.
        """

    @abstractmethod
    def conclude(self, users: Arrays, items: Arrays, shared: Any) -> tuple[float, Any]:
        """Return the objective of the sweep, and the shared terms of the next one."""

    def held_out_loss(self, items: Arrays, shared: Any) -> float | None:
        """Return the loss of the held-out pairs, if there are any. Smaller is better."""
        return None

    # ---- what only some models have

    def converged_objective(self, users: Arrays, items: Arrays, shared: Any) -> float | None:
        """Return the objective with users that have converged. None where it is that of the sweeps."""
        return None

    def movement(self, items: Arrays) -> float | None:
        """Return a bound of the largest relative change of the items' numbers by their last step, from its sums.

        None where rows have one optimum: solved users are then those of the sweeps.
        """
        return None

    def accelerated(self, stride: Stride, users: Arrays, items: Arrays) -> Self:
        """Return the same steps with another stride. They may also move a scale of each factor between the sides.

        users, items : the sums of both sides, where the steps begin.
        """
        return self

    def heavy_parts(self, shared: Any) -> PartsOf | None:
        """Return the function that adds up, for the update of heavy items, the pairs of a block of users.

        None if items can't be heavy: sums over their pairs do not determine their update.
        """
        return None

    def heavy_scores(self, shared: Any) -> ScoresOf | None:
        """Return the function that adds up, over pairs with heavy items, what the items' kernel adds up over pairs."""
        return None
