"""Setters of the outcome stage's estimator, as MLlib's estimators have them.

Generated from settings/tables.py by ``python -m dcrec_spark.settings.generate``; not to be edited.
"""

from typing import Any, Self

from pyspark.ml.param import Param

from dcrec_spark.models.outcome.params import OutcomeParams
from dcrec_spark.models.params import declared, keyword_only
from dcrec_spark.settings.setting import params
from dcrec_spark.settings.tables import OUTCOME

_OF = params(OUTCOME)


class OutcomeSetters(OutcomeParams):
    """A setter for each Param, and one for several."""

    exposureModel: Param[Any] = declared(_OF["exposureModel"])

    @keyword_only
    def setParams(
        self,
        *,
        userCol: str = "user",
        itemCol: str = "item",
        ratingCol: str = "rating",
        outcome: str = "weighted",
        adjustment: str = "deconfounded",
        confounderWeight: str = "user",
        rank: int = 10,
        exposureRank: int = 10,
        alpha: float = 40.0,
        unobservedWeight: float | None = None,
        userReg: float = 1.0,
        itemReg: float = 1.0,
        confounderReg: float = 1.0,
        interceptReg: float = 1.0,
        globalConfounderReg: float | None = None,
        confounderLink: str = "identity",
        confounderLinkOffset: float | None = None,
        standardizeConfounder: bool = False,
        leaveOneOut: bool = False,
        confounderVariance: bool = False,
        estimateConfounderReg: bool = False,
        fitBiases: bool = False,
        userBiasReg: float = 1.0,
        itemBiasReg: float = 1.0,
        regByCount: bool = False,
        userShapePrior: float = 0.3,
        userRatePrior: float = 0.3,
        itemShapePrior: float = 0.3,
        itemRatePrior: float = 0.3,
        confounderShapePrior: float = 1.0,
        confounderRatePrior: float = 1.0,
        interceptShapePrior: float = 0.3,
        interceptRatePrior: float = 0.3,
        fitIntercept: bool = True,
        propensityCol: str | None = None,
        propensitySource: str = "ratings",
        propensityMean: float = 0.05,
        propensityDecay: float = 0.25,
        propensityPivot: float = 4.0,
        weightCap: float | None = None,
        refit: str = "none",
        refitWeightCap: float | None = None,
        exposureModel: Any = None,
        maxIter: int = 20,
        tol: float = 0.0001,
        acceleration: bool = False,
        solver: str = "cholesky",
        cgSteps: int = 3,
        validationIndicatorCol: str | None = None,
        patience: int = 3,
        restarts: int = 1,
        initialModel: Any = None,
        seed: int = 0,
        predictionCol: str = "prediction",
        preferenceCol: str | None = None,
        confounderCol: str | None = None,
        coldStartStrategy: str = "nan",
        numUserBlocks: int | None = None,
        numItemBlocks: int | None = None,
        exchange: str = "auto",
        checkpointInterval: int = 10,
        precision: str = "float64",
    ) -> Self:
        """Set the Params that are given; the others stay as they are."""
        return self._set(**self._input_kwargs)

    def setRatingCol(self, value: str) -> Self:
        """Set ``ratingCol``: column of ratings."""
        return self._set(ratingCol=value)

    def setOutcome(self, value: str) -> Self:
        """Set ``outcome``: the outcome model, and the pairs that it is fitted to."""
        return self._set(outcome=value)

    def setAdjustment(self, value: str) -> Self:
        """Set ``adjustment``: what is done about confounding."""
        return self._set(adjustment=value)

    def setConfounderWeight(self, value: str) -> Self:
        """Set ``confounderWeight``: whose weight of the confounder is fitted."""
        return self._set(confounderWeight=value)

    def setRank(self, value: int) -> Self:
        """Set ``rank``: number of preference factors."""
        return self._set(rank=value)

    def setExposureRank(self, value: int) -> Self:
        """Set ``exposureRank``: number of exposure factors, where exposureModel is None."""
        return self._set(exposureRank=value)

    def setAlpha(self, value: float) -> Self:
        """Set ``alpha``: how much an observed rating y weighs, 1 + alpha y."""
        return self._set(alpha=value)

    def setUnobservedWeight(self, value: float | None) -> Self:
        """Set ``unobservedWeight``: weight w0 of a pair without a rating."""
        return self._set(unobservedWeight=value)

    def setUserReg(self, value: float) -> Self:
        """Set ``userReg``: 1 / prior variance of the users' factors, with unit noise."""
        return self._set(userReg=value)

    def setItemReg(self, value: float) -> Self:
        """Set ``itemReg``: 1 / prior variance of the items' factors, with unit noise."""
        return self._set(itemReg=value)

    def setConfounderReg(self, value: float) -> Self:
        """Set ``confounderReg``: 1 / prior variance of gamma, with unit noise."""
        return self._set(confounderReg=value)

    def setInterceptReg(self, value: float) -> Self:
        """Set ``interceptReg``: 1 / prior variance of the intercept, with unit noise."""
        return self._set(interceptReg=value)

    def setGlobalConfounderReg(self, value: float | None) -> Self:
        """Set ``globalConfounderReg``: 1 / prior variance of the gamma of all users."""
        return self._set(globalConfounderReg=value)

    def setConfounderLink(self, value: str) -> Self:
        """Set ``confounderLink``: what is made of a_hat; all but identity need unobservedWeight=0."""
        return self._set(confounderLink=value)

    def setConfounderLinkOffset(self, value: float | None) -> Self:
        """Set ``confounderLinkOffset``: what is added to a_hat before its logarithm is taken."""
        return self._set(confounderLinkOffset=value)

    def setStandardizeConfounder(self, value: bool) -> Self:
        """Set ``standardizeConfounder``: whether the confounder is given mean 0 and spread 1."""
        return self._set(standardizeConfounder=value)

    def setLeaveOneOut(self, value: bool) -> Self:
        """Set ``leaveOneOut``: whether a rated pair's own exposure is left out of its a_hat."""
        return self._set(leaveOneOut=value)

    def setConfounderVariance(self, value: bool) -> Self:
        """Set ``confounderVariance``: whether the variance of a_hat counts, and shrinks gamma."""
        return self._set(confounderVariance=value)

    def setEstimateConfounderReg(self, value: bool) -> Self:
        """Set ``estimateConfounderReg``: whether the gammas' variance is estimated."""
        return self._set(estimateConfounderReg=value)

    def setFitBiases(self, value: bool) -> Self:
        """Set ``fitBiases``: whether each user and each item has a bias, part of the preference."""
        return self._set(fitBiases=value)

    def setUserBiasReg(self, value: float) -> Self:
        """Set ``userBiasReg``: 1 / prior variance of the users' biases, with unit noise."""
        return self._set(userBiasReg=value)

    def setItemBiasReg(self, value: float) -> Self:
        """Set ``itemBiasReg``: 1 / prior variance of the items' biases, with unit noise."""
        return self._set(itemBiasReg=value)

    def setRegByCount(self, value: bool) -> Self:
        """Set ``regByCount``: whether each row's number of ratings multiplies its regularisers."""
        return self._set(regByCount=value)

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

    def setConfounderShapePrior(self, value: float) -> Self:
        """Set ``confounderShapePrior``: shape of the Gamma prior of gamma."""
        return self._set(confounderShapePrior=value)

    def setConfounderRatePrior(self, value: float) -> Self:
        """Set ``confounderRatePrior``: rate of the Gamma prior of gamma."""
        return self._set(confounderRatePrior=value)

    def setInterceptShapePrior(self, value: float) -> Self:
        """Set ``interceptShapePrior``: shape of the Gamma prior of the intercept."""
        return self._set(interceptShapePrior=value)

    def setInterceptRatePrior(self, value: float) -> Self:
        """Set ``interceptRatePrior``: rate of the Gamma prior of the intercept."""
        return self._set(interceptRatePrior=value)

    def setFitIntercept(self, value: bool) -> Self:
        """Set ``fitIntercept``: whether there is an intercept."""
        return self._set(fitIntercept=value)

    def setPropensityCol(self, value: str | None) -> Self:
        """Set ``propensityCol``: column of propensities, in (0, 1]; None: from the ratings."""
        return self._set(propensityCol=value)

    def setPropensitySource(self, value: str) -> Self:
        """Set ``propensitySource``: what propensities come from, where there is no column of them."""
        return self._set(propensitySource=value)

    def setPropensityMean(self, value: float) -> Self:
        """Set ``propensityMean``: mean propensity of all pairs, where propensities come from the ratings."""
        return self._set(propensityMean=value)

    def setPropensityDecay(self, value: float) -> Self:
        """Set ``propensityDecay``: factor of the propensity for each rating step below propensityPivot."""
        return self._set(propensityDecay=value)

    def setPropensityPivot(self, value: float) -> Self:
        """Set ``propensityPivot``: rating from which on the propensity is largest."""
        return self._set(propensityPivot=value)

    def setWeightCap(self, value: float | None) -> Self:
        """Set ``weightCap``: largest inverse propensity, before they are normalised to mean 1; None: no cap."""
        return self._set(weightCap=value)

    def setRefit(self, value: str) -> Self:
        """Set ``refit``: whether a second fit follows, to the first one's predictions of all pairs."""
        return self._set(refit=value)

    def setRefitWeightCap(self, value: float | None) -> Self:
        """Set ``refitWeightCap``: largest 1 / p of a refit, p being 1 - exp(-a_hat); None: no cap."""
        return self._set(refitWeightCap=value)

    def getExposureModel(self) -> Any:
        """Value of ``exposureModel``: fitted PoissonFactorizationModel, or a PoissonFactorization to fit first."""
        return self.getOrDefault(self.exposureModel)

    def setExposureModel(self, value: Any) -> Self:
        """Set ``exposureModel``: fitted PoissonFactorizationModel, or a PoissonFactorization to fit first."""
        return self._set(exposureModel=value)

    def setMaxIter(self, value: int) -> Self:
        """Set ``maxIter``: iterations at most."""
        return self._set(maxIter=value)

    def setTol(self, value: float) -> Self:
        """Set ``tol``: relative change of the objective below which a fit ends."""
        return self._set(tol=value)

    def setAcceleration(self, value: bool) -> Self:
        """Set ``acceleration``: whether steps go beyond each side's optimum while the objective improves."""
        return self._set(acceleration=value)

    def setSolver(self, value: str) -> Self:
        """Set ``solver``: how each row's least squares are solved in a sweep."""
        return self._set(solver=value)

    def setCgSteps(self, value: int) -> Self:
        """Set ``cgSteps``: steps of conjugate gradients that a row takes in a sweep."""
        return self._set(cgSteps=value)

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
