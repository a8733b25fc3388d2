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

    Attributes
    ----------
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
    def start_users(self) -> Kernel:
        """Make the first state, from the memory where there is one."""

    @abstractmethod
    def start_items(self) -> Kernel:
        """Make the first state, from the memory where there is one."""

    @abstractmethod
    def users(self, shared: Any) -> Kernel:
        """Update the users, given the items."""

    @abstractmethod
    def items(self, shared: Any) -> Kernel:
        """Update the items, given the users, and add up over the observed pairs the sums for :meth:`conclude`."""

    @abstractmethod
    def converge(self, shared: Any, is_user: bool = True) -> Kernel:
        """Solve one side, given the other, from a fixed start: the users at the end of a fit, and what is folded in."""

    @abstractmethod
    def conclude(self, users: Arrays, items: Arrays, shared: Any) -> tuple[float, Any]:
        """Return the objective of the sweep, and the shared terms of the next one."""

    def held_out_loss(self, items: Arrays, shared: Any) -> float | None:
        """Return the loss of the held-out pairs, if there are any. Smaller is better."""
        return None

    # ---- what only some models have

    def converge_and_score(self, shared: Any) -> Kernel:
        """Solve the users, and add up over the observed pairs the sums for :meth:`converged_objective`."""
        return self.converge(shared)

    def converged_objective(self, users: Arrays, items: Arrays, shared: Any) -> float | None:
        """Return the objective with the users of :meth:`converge_and_score`. None where it is that of the sweeps."""
        return None

    def movement(self, items: Arrays) -> float | None:
        """Return a bound of the largest relative change of the items' numbers by their last step, from its sums.

        None where rows have one optimum: solved users are then those of the sweeps.
        """
        return None

    def with_stride(self, stride: Stride) -> Self:
        """Return the same steps with another stride."""
        return self

    def balanced(self, users: Arrays, items: Arrays) -> Self:
        """Return the same steps, which start from the best scale of each factor, by the sums of both sides."""
        return self

    def heavy_parts(self, shared: Any) -> PartsOf | None:
        """Return the function that adds up, for the update of heavy items, the pairs of a block of users.

        None if items can't be heavy: sums over their pairs do not determine their update.
        """
        return None

    def heavy_scores(self, shared: Any) -> ScoresOf | None:
        """Return the function that adds up, over pairs with heavy items, what the items' kernel adds up over pairs."""
        return None
