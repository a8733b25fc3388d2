"""Params of the outcome models. Fitted models have all of them but those of the fit's inputs."""

from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasPredictionCol, HasSeed, HasTol
from pyspark.sql import DataFrame

from dcrec_spark.models.params import HasIds, SetsParams, inherited, optional, param
from dcrec_spark.settings.tables import OUTCOME, params

_SETTINGS = params(OUTCOME)


class OutcomeParams(HasIds, HasCheckpointInterval, HasMaxIter, HasPredictionCol, HasSeed, HasTol):
    """Params of an outcome model and of its fit."""

    ratingCol, getRatingCol, setRatingCol = param(str, _SETTINGS["ratingCol"])
    predictionCol, getPredictionCol, setPredictionCol = inherited(_SETTINGS["predictionCol"])
    coldStartStrategy, getColdStartStrategy, setColdStartStrategy = param(str, _SETTINGS["coldStartStrategy"])
    seed, getSeed, setSeed = inherited(_SETTINGS["seed"])

    outcome, getOutcome, setOutcome = param(str, _SETTINGS["outcome"])
    adjustment, getAdjustment, setAdjustment = param(str, _SETTINGS["adjustment"])
    confounder, getConfounder, setConfounder = param(str, _SETTINGS["confounder"])
    confounderWeight, getConfounderWeight, setConfounderWeight = param(str, _SETTINGS["confounderWeight"])
    confounderLink, getConfounderLink, setConfounderLink = param(str, _SETTINGS["confounderLink"])
    leaveOneOut, getLeaveOneOut, setLeaveOneOut = param(bool, _SETTINGS["leaveOneOut"])
    rank, getRank, setRank = param(int, _SETTINGS["rank"])
    exposureRank, getExposureRank, setExposureRank = param(int, _SETTINGS["exposureRank"])
    alpha, getAlpha, setAlpha = param(float, _SETTINGS["alpha"])
    unobservedWeight, getUnobservedWeight, setUnobservedWeight = optional(float, _SETTINGS["unobservedWeight"])
    fitBiases, getFitBiases, setFitBiases = param(bool, _SETTINGS["fitBiases"])
    fitIntercept, getFitIntercept, setFitIntercept = param(bool, _SETTINGS["fitIntercept"])

    regParam, getRegParam, setRegParam = param(float, _SETTINGS["regParam"])
    biasReg, getBiasReg, setBiasReg = param(float, _SETTINGS["biasReg"])
    confounderReg, getConfounderReg, setConfounderReg = param(float, _SETTINGS["confounderReg"])
    regByCount, getRegByCount, setRegByCount = param(bool, _SETTINGS["regByCount"])
    gammaShape, getGammaShape, setGammaShape = param(float, _SETTINGS["gammaShape"])
    gammaRate, getGammaRate, setGammaRate = param(float, _SETTINGS["gammaRate"])
    propensityCol, getPropensityCol, setPropensityCol = optional(str, _SETTINGS["propensityCol"])
    weightCap, getWeightCap, setWeightCap = optional(float, _SETTINGS["weightCap"])

    exposureWeight, getExposureWeight, setExposureWeight = param(float, _SETTINGS["exposureWeight"])
    initialModel, getInitialModel, setInitialModel = optional(object, _SETTINGS["initialModel"])
    maxIter, getMaxIter, setMaxIter = inherited(_SETTINGS["maxIter"])
    tol, getTol, setTol = inherited(_SETTINGS["tol"])
    validationIndicatorCol, getValidationIndicatorCol, setValidationIndicatorCol = optional(
        str, _SETTINGS["validationIndicatorCol"]
    )
    patience, getPatience, setPatience = param(int, _SETTINGS["patience"])
    solver, getSolver, setSolver = param(str, _SETTINGS["solver"])
    numBlocks, getNumBlocks, setNumBlocks = optional(int, _SETTINGS["numBlocks"])
    exchange, getExchange, setExchange = param(str, _SETTINGS["exchange"])
    checkpointInterval, getCheckpointInterval, setCheckpointInterval = inherited(_SETTINGS["checkpointInterval"])
    precision, getPrecision, setPrecision = param(str, _SETTINGS["precision"])


class OutcomeFitParams(SetsParams, OutcomeParams):
    """Params of the estimator."""

    exposureModel, getExposureModel, setExposureModel = optional(object, _SETTINGS["exposureModel"])
    userFeatures, getUserFeatures, setUserFeatures = optional(DataFrame, _SETTINGS["userFeatures"])
    itemFeatures, getItemFeatures, setItemFeatures = optional(DataFrame, _SETTINGS["itemFeatures"])
