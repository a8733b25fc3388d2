"""Setters of the exposure stage's estimator, as MLlib's estimators have them.

Generated from settings/tables.py by ``python -m dcrec_spark.settings.generate``; not to be edited.
"""

from typing import Any, Self

from dcrec_spark.models.exposure.params import ExposureParams
from dcrec_spark.models.params import keyword_only


class ExposureSetters(ExposureParams):
    """A setter for each Param, and one for several."""

    @keyword_only
    def setParams(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        countCol: str | None = None,
        rank: int = 10,
        maxIter: int = 300,
        tol: float = 1e-05,
        acceleration: bool = True,
        userShapePrior: float = 0.3,
        userRatePrior: float = 0.3,
        itemShapePrior: float = 0.3,
        itemRatePrior: float = 0.3,
        seed: int = 0,
        exposureCol: str = "a_hat",
        numUserBlocks: int | None = None,
        numItemBlocks: int | None = None,
        exchange: str = "auto",
        checkpointInterval: int = 10,
        precision: str = "float64",
        validationIndicatorCol: str | None = None,
        patience: int = 3,
        restarts: int = 1,
        initialModel: Any = None,
    ) -> Self:
        """Set the Params that are given; the others stay as they are."""
        return self._set(**self._input_kwargs)

    def setCountCol(self, value: str | None) -> Self:
        """Set ``countCol``: column of exposure counts; None: each pair counts once."""
        return self._set(countCol=value)

    def setRank(self, value: int) -> Self:
        """Set ``rank``: number of exposure factors."""
        return self._set(rank=value)

    def setMaxIter(self, value: int) -> Self:
        """Set ``maxIter``: iterations at most."""
        return self._set(maxIter=value)

    def setTol(self, value: float) -> Self:
        """Set ``tol``: relative change of the objective below which a fit ends."""
        return self._set(tol=value)

    def setAcceleration(self, value: bool) -> Self:
        """Set ``acceleration``: whether steps go beyond each side's optimum while the objective improves."""
        return self._set(acceleration=value)

    def setUserShapePrior(self, value: float) -> Self:
        """Set ``userShapePrior``: shape of the Gamma prior of the users' factors."""
        return self._set(userShapePrior=value)

    def setUserRatePrior(self, value: float) -> Self:
        """Set ``userRatePrior``: rate of the Gamma prior of the users' factors."""
        return self._set(userRatePrior=value)

    def setItemShapePrior(self, value: float) -> Self:
        """Set ``itemShapePrior``: shape of the Gamma prior of the items' factors."""
        return self._set(itemShapePrior=value)

    def setItemRatePrior(self, value: float) -> Self:
        """Set ``itemRatePrior``: rate of the Gamma prior of the items' factors."""
        return self._set(itemRatePrior=value)

    def setSeed(self, value: int) -> Self:
        """Set ``seed``: what the start depends on, besides the ids."""
        return self._set(seed=value)

    def setNumUserBlocks(self, value: int | None) -> Self:
        """Set ``numUserBlocks``: blocks of users; None: from the cores and the number of ratings."""
        return self._set(numUserBlocks=value)

    def setNumItemBlocks(self, value: int | None) -> Self:
        """Set ``numItemBlocks``: blocks of items; None: from the cores and the number of ratings."""
        return self._set(numItemBlocks=value)

    def setExchange(self, value: str) -> Self:
        """Set ``exchange``: where a fit is computed, and how factors reach the blocks that need them."""
        return self._set(exchange=value)

    def setCheckpointInterval(self, value: int) -> Self:
        """Set ``checkpointInterval``: iterations from one reliable checkpoint of the factors to the next."""
        return self._set(checkpointInterval=value)

    def setPrecision(self, value: str) -> Self:
        """Set ``precision``: numbers that the factors are held in."""
        return self._set(precision=value)

    def setValidationIndicatorCol(self, value: str | None) -> Self:
        """Set ``validationIndicatorCol``: boolean column, true for held-out rows."""
        return self._set(validationIndicatorCol=value)

    def setPatience(self, value: int) -> Self:
        """Set ``patience``: sweeps without a better held-out loss before a fit ends."""
        return self._set(patience=value)

    def setRestarts(self, value: int) -> Self:
        """Set ``restarts``: fits from so many seeds, of which the best is taken."""
        return self._set(restarts=value)

    def setInitialModel(self, value: Any) -> Self:
        """Set ``initialModel``: fitted model to start from: known ids at its factors, new ones from the seed."""
        return self._set(initialModel=value)
