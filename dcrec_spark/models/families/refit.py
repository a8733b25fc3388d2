"""Matrix factorization with biases of another model's predictions of all pairs, put right by the ratings.

    sum_{all u,i} (y~_ui - theta_u . beta_i - b_u - c_i - beta_0)^2 + regularisers
    y~_ui = y^_ui + a_ui weight_ui (y_ui - y^_ui)                      y^: the other model's prediction

The predictions are of low rank: they stand where the confounder stands, with gamma = -1. All pairs weigh 1, so that all
rows share one matrix.
"""

from dataclasses import replace

import numpy as np

from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.kernels.ridge_terms import Design
from dcrec_spark.models.families.base import Observed, TableColumn
from dcrec_spark.models.families.gaussian import GaussianSteps, LeastSquares


class Refit(LeastSquares):
    """Least squares over all pairs, each of weight 1, with biases and without a confounder of its own."""

    stage = "refit"
    everywhere = True
    unrated_are_zeros = False

    @property
    def alpha(self) -> float:
        """Every pair weighs 1."""
        return 0.0

    @property
    def default_unobserved_weight(self) -> float:
        """Every pair weighs 1."""
        return 1.0

    @property
    def unobserved_weight(self) -> float:
        """Every pair weighs 1, whatever is set."""
        return 1.0

    @property
    def has_biases(self) -> bool:
        """Always."""
        return True

    @property
    def has_confounder(self) -> bool:
        """Only the predictions stand in its place."""
        return False

    def steps(self, observed: Observed, restart: int = 0, precision: str | None = None) -> GaussianSteps:
        """Alternating least squares from the mean rating on, the predictions with gamma = -1.

        Rows of one matrix are solved together, for less than conjugate gradients take.
        """
        steps = super().steps(observed, restart, precision)
        design = Design(1.0, True, per_user=False, biases=True)
        reg = steps.reg._replace(common=0.0)
        return replace(steps, design=design, reg=reg, refits=True, estimates_reg=False, gradients=0)

    def first_intercept(self, observed: Observed, unobserved_weight: float) -> float:
        """About the mean of the predictions."""
        return observed.means[self.value]


class Predictions:
    """The vectors whose products are a model's predictions, in the place of an exposure model's means.

    widths : of "preference" and "confounder" in the vectors. intercept : of the predictions.
    """

    def __init__(self, widths: tuple[int, int], intercept: float) -> None:
        self._widths, self._intercept = widths, intercept

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        """Return the parts of the vectors."""
        names = ("preference", "confounder")
        return tuple(TableColumn(name, width) for name, width in zip(names, self._widths, strict=True))

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        """Return the vectors, with the intercept, as means."""
        last = np.full((len(columns["preference"]), 1), self._intercept if is_user else 1.0)
        vectors = np.hstack([columns["preference"], columns["confounder"], last])
        return {"shape": vectors, "rate": np.ones_like(vectors)}
