"""Params of the outcome models. Fitted models have all of them but those of the fit's inputs."""

from pyspark.ml.param.shared import HasPredictionCol
from pyspark.sql import DataFrame

from dcrec_spark.models.params import HasFit, SetsParams, inherited, optional, param
from dcrec_spark.settings.tables import OUTCOME, params

_SETTINGS = params(OUTCOME)


class OutcomeParams(HasFit, HasPredictionCol):
    """Params of an outcome model and of its fit."""

    ratingCol, getRatingCol, setRatingCol = param(str, _SETTINGS["ratingCol"])
    predictionCol, getPredictionCol, setPredictionCol = inherited(_SETTINGS["predictionCol"])
    coldStartStrategy, getColdStartStrategy, setColdStartStrategy = param(str, _SETTINGS["coldStartStrategy"])

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
    solver, getSolver, setSolver = param(str, _SETTINGS["solver"])


class OutcomeFitParams(SetsParams, OutcomeParams):
    """Params of the estimator."""

    exposureModel, getExposureModel, setExposureModel = optional(object, _SETTINGS["exposureModel"])
    userFeatures, getUserFeatures, setUserFeatures = optional(DataFrame, _SETTINGS["userFeatures"])
    itemFeatures, getItemFeatures, setItemFeatures = optional(DataFrame, _SETTINGS["itemFeatures"])
