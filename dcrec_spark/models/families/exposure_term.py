"""What a family wants of the exposure model's a_hat before it meets the ratings."""

from typing import NamedTuple


class ExposureTerm(NamedTuple):
    """How the confounder of each pair is made from a_hat.

    link : "identity", "sqrt" or "log", of a_hat + offset; None: the mean of a_hat over all pairs.
    standardize : to mean 0 and standard deviation 1.
    leave_one_out : whether the pairs of a fit lose their own vote. variance : whether its variance is asked for.
    over_all_pairs : whether sums over all pairs have it too, in which no pair loses its vote.
    """

    link: str = "identity"
    offset: float | None = None
    standardize: bool = False
    leave_one_out: bool = False
    variance: bool = False
    over_all_pairs: bool = True

    @property
    def needs_posterior(self) -> bool:
        """Whether the exposure factors' means are not enough."""
        return self.leave_one_out or self.variance

    def of_means(self) -> "ExposureTerm":
        """Return what is left of it for an a_hat without a posterior, which has seen no pair."""
        return self._replace(leave_one_out=False, variance=False)
