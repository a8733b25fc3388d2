"""Params of the exposure model, with their getters.

Generated from settings/tables.py by ``python -m dcrec_spark.settings.generate``; not to be edited.
"""

from typing import Any, Self

from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasSeed, HasTol

from dcrec_spark.models.params import ExposureSource, HasIds, declared
from dcrec_spark.settings.setting import params
from dcrec_spark.settings.tables import EXPOSURE

_OF = params(EXPOSURE)


class ExposureParams(HasIds, ExposureSource, HasCheckpointInterval, HasMaxIter, HasSeed, HasTol):
    """Params of the exposure model."""

    userCol: Param[str] = declared(_OF["userCol"])
    itemCol: Param[str] = declared(_OF["itemCol"])
    countCol: Param[str | None] = declared(_OF["countCol"])
    rank: Param[int] = declared(_OF["rank"])
    maxIter: Param[int] = declared(_OF["maxIter"])
    tol: Param[float] = declared(_OF["tol"])
    acceleration: Param[bool] = declared(_OF["acceleration"])
    userShapePrior: Param[float] = declared(_OF["userShapePrior"])
    userRatePrior: Param[float] = declared(_OF["userRatePrior"])
    itemShapePrior: Param[float] = declared(_OF["itemShapePrior"])
    itemRatePrior: Param[float] = declared(_OF["itemRatePrior"])
    seed: Param[int] = declared(_OF["seed"])
    exposureCol: Param[str] = declared(_OF["exposureCol"])
    numUserBlocks: Param[int | None] = declared(_OF["numUserBlocks"])
    numItemBlocks: Param[int | None] = declared(_OF["numItemBlocks"])
    exchange: Param[str] = declared(_OF["exchange"])
    checkpointInterval: Param[int] = declared(_OF["checkpointInterval"])
    precision: Param[str] = declared(_OF["precision"])
    validationIndicatorCol: Param[str | None] = declared(_OF["validationIndicatorCol"])
    patience: Param[int] = declared(_OF["patience"])
    restarts: Param[int] = declared(_OF["restarts"])
    initialModel: Param[Any] = declared(_OF["initialModel"])

    def getUserCol(self) -> str:
        """Value of ``userCol``: column of user ids: integers or strings."""
        return self.getOrDefault(self.userCol)

    def setUserCol(self, value: str) -> Self:
        """Set ``userCol``: column of user ids: integers or strings."""
        return self._set(userCol=value)

    def getItemCol(self) -> str:
        """Value of ``itemCol``: column of item ids: integers or strings."""
        return self.getOrDefault(self.itemCol)

    def setItemCol(self, value: str) -> Self:
        """Set ``itemCol``: column of item ids: integers or strings."""
        return self._set(itemCol=value)

    def getCountCol(self) -> str | None:
        """Value of ``countCol``: column of exposure counts; None: each pair counts once."""
        return self.getOrDefault(self.countCol)

    def getRank(self) -> int:
        """Value of ``rank``: number of exposure factors."""
        return self.getOrDefault(self.rank)

    def getMaxIter(self) -> int:
        """Value of ``maxIter``: iterations at most."""
        return self.getOrDefault(self.maxIter)

    def getTol(self) -> float:
        """Value of ``tol``: relative change of the objective below which a fit ends."""
        return self.getOrDefault(self.tol)

    def getAcceleration(self) -> bool:
        """Value of ``acceleration``: whether steps go beyond each side's optimum while the objective improves."""
        return self.getOrDefault(self.acceleration)

    def getUserShapePrior(self) -> float:
        """Value of ``userShapePrior``: shape of the Gamma prior of the users' factors."""
        return self.getOrDefault(self.userShapePrior)

    def getUserRatePrior(self) -> float:
        """Value of ``userRatePrior``: rate of the Gamma prior of the users' factors."""
        return self.getOrDefault(self.userRatePrior)

    def getItemShapePrior(self) -> float:
        """Value of ``itemShapePrior``: shape of the Gamma prior of the items' factors."""
        return self.getOrDefault(self.itemShapePrior)

    def getItemRatePrior(self) -> float:
        """Value of ``itemRatePrior``: rate of the Gamma prior of the items' factors."""
        return self.getOrDefault(self.itemRatePrior)

    def getSeed(self) -> int:
        """Value of ``seed``: what the start depends on, besides the ids."""
        return self.getOrDefault(self.seed)

    def getExposureCol(self) -> str:
        """Value of ``exposureCol``: output column: the reconstructed exposure a_hat."""
        return self.getOrDefault(self.exposureCol)

    def setExposureCol(self, value: str) -> Self:
        """Set ``exposureCol``: output column: the reconstructed exposure a_hat."""
        return self._set(exposureCol=value)

    def getNumUserBlocks(self) -> int | None:
        """Value of ``numUserBlocks``: blocks of users; None: from the cores and the number of ratings."""
        return self.getOrDefault(self.numUserBlocks)

    def getNumItemBlocks(self) -> int | None:
        """Value of ``numItemBlocks``: blocks of items; None: from the cores and the number of ratings."""
        return self.getOrDefault(self.numItemBlocks)

    def getExchange(self) -> str:
        """Value of ``exchange``: where a fit is computed, and how factors reach the blocks that need them."""
        return self.getOrDefault(self.exchange)

    def getCheckpointInterval(self) -> int:
        """Value of ``checkpointInterval``: iterations from one reliable checkpoint of the factors to the next."""
        return self.getOrDefault(self.checkpointInterval)

    def getPrecision(self) -> str:
        """Value of ``precision``: numbers that the factors are held in."""
        return self.getOrDefault(self.precision)

    def getValidationIndicatorCol(self) -> str | None:
        """Value of ``validationIndicatorCol``: boolean column, true for held-out rows."""
        return self.getOrDefault(self.validationIndicatorCol)

    def getPatience(self) -> int:
        """Value of ``patience``: sweeps without a better held-out loss before a fit ends."""
        return self.getOrDefault(self.patience)

    def getRestarts(self) -> int:
        """Value of ``restarts``: fits from so many seeds, of which the best is taken."""
        return self.getOrDefault(self.restarts)

    def getInitialModel(self) -> Any:
        """Value of ``initialModel``: fitted model to start from: known ids at its factors, new ones from the seed."""
        return self.getOrDefault(self.initialModel)
