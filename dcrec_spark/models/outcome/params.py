"""Params of the outcome models, and of how they answer, with their getters.

Generated from settings/tables.py by ``python -m dcrec_spark.settings.generate``; not to be edited.
"""

from typing import Any, Self

from pyspark.ml.param import Param
from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasPredictionCol, HasSeed, HasTol

from dcrec_spark.models.params import HasIds, declared
from dcrec_spark.settings.setting import params
from dcrec_spark.settings.tables import OUTCOME

_OF = params(OUTCOME)


class OutcomeParams(HasIds, HasCheckpointInterval, HasMaxIter, HasPredictionCol, HasSeed, HasTol):
    """Params of the outcome models, and of how they answer."""

    userCol: Param[str] = declared(_OF["userCol"])
    itemCol: Param[str] = declared(_OF["itemCol"])
    ratingCol: Param[str] = declared(_OF["ratingCol"])
    outcome: Param[str] = declared(_OF["outcome"])
    adjustment: Param[str] = declared(_OF["adjustment"])
    confounderWeight: Param[str] = declared(_OF["confounderWeight"])
    rank: Param[int] = declared(_OF["rank"])
    exposureRank: Param[int] = declared(_OF["exposureRank"])
    alpha: Param[float] = declared(_OF["alpha"])
    unobservedWeight: Param[float | None] = declared(_OF["unobservedWeight"])
    userReg: Param[float] = declared(_OF["userReg"])
    itemReg: Param[float] = declared(_OF["itemReg"])
    confounderReg: Param[float] = declared(_OF["confounderReg"])
    interceptReg: Param[float] = declared(_OF["interceptReg"])
    globalConfounderReg: Param[float | None] = declared(_OF["globalConfounderReg"])
    confounderLink: Param[str] = declared(_OF["confounderLink"])
    confounderLinkOffset: Param[float | None] = declared(_OF["confounderLinkOffset"])
    standardizeConfounder: Param[bool] = declared(_OF["standardizeConfounder"])
    leaveOneOut: Param[bool] = declared(_OF["leaveOneOut"])
    confounderVariance: Param[bool] = declared(_OF["confounderVariance"])
    estimateConfounderReg: Param[bool] = declared(_OF["estimateConfounderReg"])
    fitBiases: Param[bool] = declared(_OF["fitBiases"])
    userBiasReg: Param[float] = declared(_OF["userBiasReg"])
    itemBiasReg: Param[float] = declared(_OF["itemBiasReg"])
    regByCount: Param[bool] = declared(_OF["regByCount"])
    userShapePrior: Param[float] = declared(_OF["userShapePrior"])
    userRatePrior: Param[float] = declared(_OF["userRatePrior"])
    itemShapePrior: Param[float] = declared(_OF["itemShapePrior"])
    itemRatePrior: Param[float] = declared(_OF["itemRatePrior"])
    confounderShapePrior: Param[float] = declared(_OF["confounderShapePrior"])
    confounderRatePrior: Param[float] = declared(_OF["confounderRatePrior"])
    interceptShapePrior: Param[float] = declared(_OF["interceptShapePrior"])
    interceptRatePrior: Param[float] = declared(_OF["interceptRatePrior"])
    fitIntercept: Param[bool] = declared(_OF["fitIntercept"])
    propensityCol: Param[str | None] = declared(_OF["propensityCol"])
    propensitySource: Param[str] = declared(_OF["propensitySource"])
    propensityMean: Param[float] = declared(_OF["propensityMean"])
    propensityDecay: Param[float] = declared(_OF["propensityDecay"])
    propensityPivot: Param[float] = declared(_OF["propensityPivot"])
    weightCap: Param[float | None] = declared(_OF["weightCap"])
    refit: Param[str] = declared(_OF["refit"])
    refitWeightCap: Param[float | None] = declared(_OF["refitWeightCap"])
    maxIter: Param[int] = declared(_OF["maxIter"])
    tol: Param[float] = declared(_OF["tol"])
    acceleration: Param[bool] = declared(_OF["acceleration"])
    solver: Param[str] = declared(_OF["solver"])
    cgSteps: Param[int] = declared(_OF["cgSteps"])
    validationIndicatorCol: Param[str | None] = declared(_OF["validationIndicatorCol"])
    patience: Param[int] = declared(_OF["patience"])
    restarts: Param[int] = declared(_OF["restarts"])
    initialModel: Param[Any] = declared(_OF["initialModel"])
    seed: Param[int] = declared(_OF["seed"])
    predictionCol: Param[str] = declared(_OF["predictionCol"])
    preferenceCol: Param[str | None] = declared(_OF["preferenceCol"])
    confounderCol: Param[str | None] = declared(_OF["confounderCol"])
    coldStartStrategy: Param[str] = declared(_OF["coldStartStrategy"])
    numUserBlocks: Param[int | None] = declared(_OF["numUserBlocks"])
    numItemBlocks: Param[int | None] = declared(_OF["numItemBlocks"])
    exchange: Param[str] = declared(_OF["exchange"])
    checkpointInterval: Param[int] = declared(_OF["checkpointInterval"])
    precision: Param[str] = declared(_OF["precision"])

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

    def getRatingCol(self) -> str:
        """Value of ``ratingCol``: column of ratings."""
        return self.getOrDefault(self.ratingCol)

    def getOutcome(self) -> str:
        """Value of ``outcome``: the outcome model, and the pairs that it is fitted to."""
        return self.getOrDefault(self.outcome)

    def getAdjustment(self) -> str:
        """Value of ``adjustment``: what is done about confounding."""
        return self.getOrDefault(self.adjustment)

    def getConfounderWeight(self) -> str:
        """Value of ``confounderWeight``: whose weight of the confounder is fitted."""
        return self.getOrDefault(self.confounderWeight)

    def getRank(self) -> int:
        """Value of ``rank``: number of preference factors."""
        return self.getOrDefault(self.rank)

    def getExposureRank(self) -> int:
        """Value of ``exposureRank``: number of exposure factors, where exposureModel is None."""
        return self.getOrDefault(self.exposureRank)

    def getAlpha(self) -> float:
        """Value of ``alpha``: how much an observed rating y weighs, 1 + alpha y."""
        return self.getOrDefault(self.alpha)

    def getUnobservedWeight(self) -> float | None:
        """Value of ``unobservedWeight``: weight w0 of a pair without a rating."""
        return self.getOrDefault(self.unobservedWeight)

    def getUserReg(self) -> float:
        """Value of ``userReg``: 1 / prior variance of the users' factors, with unit noise."""
        return self.getOrDefault(self.userReg)

    def getItemReg(self) -> float:
        """Value of ``itemReg``: 1 / prior variance of the items' factors, with unit noise."""
        return self.getOrDefault(self.itemReg)

    def getConfounderReg(self) -> float:
        """Value of ``confounderReg``: 1 / prior variance of gamma, with unit noise."""
        return self.getOrDefault(self.confounderReg)

    def getInterceptReg(self) -> float:
        """Value of ``interceptReg``: 1 / prior variance of the intercept, with unit noise."""
        return self.getOrDefault(self.interceptReg)

    def getGlobalConfounderReg(self) -> float | None:
        """Value of ``globalConfounderReg``: 1 / prior variance of the gamma of all users."""
        return self.getOrDefault(self.globalConfounderReg)

    def getConfounderLink(self) -> str:
        """Value of ``confounderLink``: what is made of a_hat; all but identity need unobservedWeight=0."""
        return self.getOrDefault(self.confounderLink)

    def getConfounderLinkOffset(self) -> float | None:
        """Value of ``confounderLinkOffset``: what is added to a_hat before its logarithm is taken."""
        return self.getOrDefault(self.confounderLinkOffset)

    def getStandardizeConfounder(self) -> bool:
        """Value of ``standardizeConfounder``: whether the confounder is given mean 0 and spread 1."""
        return self.getOrDefault(self.standardizeConfounder)

    def getLeaveOneOut(self) -> bool:
        """Value of ``leaveOneOut``: whether a rated pair's own exposure is left out of its a_hat."""
        return self.getOrDefault(self.leaveOneOut)

    def getConfounderVariance(self) -> bool:
        """Value of ``confounderVariance``: whether the variance of a_hat counts, and shrinks gamma."""
        return self.getOrDefault(self.confounderVariance)

    def getEstimateConfounderReg(self) -> bool:
        """Value of ``estimateConfounderReg``: whether the gammas' variance is estimated."""
        return self.getOrDefault(self.estimateConfounderReg)

    def getFitBiases(self) -> bool:
        """Value of ``fitBiases``: whether each user and each item has a bias, part of the preference."""
        return self.getOrDefault(self.fitBiases)

    def getUserBiasReg(self) -> float:
        """Value of ``userBiasReg``: 1 / prior variance of the users' biases, with unit noise."""
        return self.getOrDefault(self.userBiasReg)

    def getItemBiasReg(self) -> float:
        """Value of ``itemBiasReg``: 1 / prior variance of the items' biases, with unit noise."""
        return self.getOrDefault(self.itemBiasReg)

    def getRegByCount(self) -> bool:
        """Value of ``regByCount``: whether each row's number of ratings multiplies its regularisers."""
        return self.getOrDefault(self.regByCount)

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

    def getConfounderShapePrior(self) -> float:
        """Value of ``confounderShapePrior``: shape of the Gamma prior of gamma."""
        return self.getOrDefault(self.confounderShapePrior)

    def getConfounderRatePrior(self) -> float:
        """Value of ``confounderRatePrior``: rate of the Gamma prior of gamma."""
        return self.getOrDefault(self.confounderRatePrior)

    def getInterceptShapePrior(self) -> float:
        """Value of ``interceptShapePrior``: shape of the Gamma prior of the intercept."""
        return self.getOrDefault(self.interceptShapePrior)

    def getInterceptRatePrior(self) -> float:
        """Value of ``interceptRatePrior``: rate of the Gamma prior of the intercept."""
        return self.getOrDefault(self.interceptRatePrior)

    def getFitIntercept(self) -> bool:
        """Value of ``fitIntercept``: whether there is an intercept."""
        return self.getOrDefault(self.fitIntercept)

    def getPropensityCol(self) -> str | None:
        """Value of ``propensityCol``: column of propensities, in (0, 1]; None: from the ratings."""
        return self.getOrDefault(self.propensityCol)

    def getPropensitySource(self) -> str:
        """Value of ``propensitySource``: what propensities come from, where there is no column of them."""
        return self.getOrDefault(self.propensitySource)

    def getPropensityMean(self) -> float:
        """Value of ``propensityMean``: mean propensity of all pairs, where propensities come from the ratings."""
        return self.getOrDefault(self.propensityMean)

    def getPropensityDecay(self) -> float:
        """Value of ``propensityDecay``: factor of the propensity for each rating step below propensityPivot."""
        return self.getOrDefault(self.propensityDecay)

    def getPropensityPivot(self) -> float:
        """Value of ``propensityPivot``: rating from which on the propensity is largest."""
        return self.getOrDefault(self.propensityPivot)

    def getWeightCap(self) -> float | None:
        """Value of ``weightCap``: largest inverse propensity, before they are normalised to mean 1; None: no cap."""
        return self.getOrDefault(self.weightCap)

    def getRefit(self) -> str:
        """Value of ``refit``: whether a second fit follows, to the first one's predictions of all pairs."""
        return self.getOrDefault(self.refit)

    def getRefitWeightCap(self) -> float | None:
        """Value of ``refitWeightCap``: largest 1 / p of a refit, p being 1 - exp(-a_hat); None: no cap."""
        return self.getOrDefault(self.refitWeightCap)

    def getMaxIter(self) -> int:
        """Value of ``maxIter``: iterations at most."""
        return self.getOrDefault(self.maxIter)

    def getTol(self) -> float:
        """Value of ``tol``: relative change of the objective below which a fit ends."""
        return self.getOrDefault(self.tol)

    def getAcceleration(self) -> bool:
        """Value of ``acceleration``: whether steps go beyond each side's optimum while the objective improves."""
        return self.getOrDefault(self.acceleration)

    def getSolver(self) -> str:
        """Value of ``solver``: how each row's least squares are solved in a sweep."""
        return self.getOrDefault(self.solver)

    def getCgSteps(self) -> int:
        """Value of ``cgSteps``: steps of conjugate gradients that a row takes in a sweep."""
        return self.getOrDefault(self.cgSteps)

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

    def getSeed(self) -> int:
        """Value of ``seed``: what the start depends on, besides the ids."""
        return self.getOrDefault(self.seed)

    def getPredictionCol(self) -> str:
        """Value of ``predictionCol``: output column: the potential rating."""
        return self.getOrDefault(self.predictionCol)

    def setPredictionCol(self, value: str) -> Self:
        """Set ``predictionCol``: output column: the potential rating."""
        return self._set(predictionCol=value)

    def getPreferenceCol(self) -> str | None:
        """Value of ``preferenceCol``: output column: theta . beta and the biases, the preference."""
        return self.getOrDefault(self.preferenceCol)

    def setPreferenceCol(self, value: str | None) -> Self:
        """Set ``preferenceCol``: output column: theta . beta and the biases, the preference."""
        return self._set(preferenceCol=value)

    def getConfounderCol(self) -> str | None:
        """Value of ``confounderCol``: output column: gamma * a_hat, the confounder's part; None: no such column."""
        return self.getOrDefault(self.confounderCol)

    def setConfounderCol(self, value: str | None) -> Self:
        """Set ``confounderCol``: output column: gamma * a_hat, the confounder's part; None: no such column."""
        return self._set(confounderCol=value)

    def getColdStartStrategy(self) -> str:
        """Value of ``coldStartStrategy``: what is predicted for unknown ids."""
        return self.getOrDefault(self.coldStartStrategy)

    def setColdStartStrategy(self, value: str) -> Self:
        """Set ``coldStartStrategy``: what is predicted for unknown ids."""
        return self._set(coldStartStrategy=value)

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
