"""Params of the exposure model."""

from pyspark.ml.param.shared import HasCheckpointInterval, HasMaxIter, HasSeed, HasTol

from dcrec_spark.models.params import ExposureSource, HasIds, inherited, optional, param
from dcrec_spark.settings.tables import EXPOSURE, params

_SETTINGS = params(EXPOSURE)


class ExposureParams(HasIds, ExposureSource, HasCheckpointInterval, HasMaxIter, HasSeed, HasTol):
    """Params of the exposure model."""

    countCol, getCountCol, setCountCol = optional(str, _SETTINGS["countCol"])
    rank, getRank, setRank = param(int, _SETTINGS["rank"])
    maxIter, getMaxIter, setMaxIter = inherited(_SETTINGS["maxIter"])
    tol, getTol, setTol = inherited(_SETTINGS["tol"])
    shapePrior, getShapePrior, setShapePrior = param(float, _SETTINGS["shapePrior"])
    ratePrior, getRatePrior, setRatePrior = param(float, _SETTINGS["ratePrior"])
    seed, getSeed, setSeed = inherited(_SETTINGS["seed"])
    exposureCol, getExposureCol, setExposureCol = param(str, _SETTINGS["exposureCol"])
    numBlocks, getNumBlocks, setNumBlocks = optional(int, _SETTINGS["numBlocks"])
    exchange, getExchange, setExchange = param(str, _SETTINGS["exchange"])
    checkpointInterval, getCheckpointInterval, setCheckpointInterval = inherited(_SETTINGS["checkpointInterval"])
    precision, getPrecision, setPrecision = param(str, _SETTINGS["precision"])
    validationIndicatorCol, getValidationIndicatorCol, setValidationIndicatorCol = optional(
        str, _SETTINGS["validationIndicatorCol"]
    )
    patience, getPatience, setPatience = param(int, _SETTINGS["patience"])
    initialModel, getInitialModel, setInitialModel = optional(object, _SETTINGS["initialModel"])
