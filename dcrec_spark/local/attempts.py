"""Fits that a search tries, each by one task. Workers import this module, and have no packages of the jobs."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.local.data import Gathered
from dcrec_spark.local.fits import Exposure, Ratings, fit_exposure, fit_outcome
from dcrec_spark.local.lists import judge, rank_unseen
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.fitting.facts import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF

VANISHED = "outcome: all factors are zero: less regularisation, or more data"


class Measured(NamedTuple):
    """Metrics of the held-out ratings, sweeps, and seconds of stage 2."""

    metrics: Metrics
    sweeps: int
    seconds: float


def try_exposure(train: Ratings, params: dict[str, Any]) -> Exposure | FitError:
    """Fit stage 1. A FitError is returned: raised, it would end the other fits too."""
    try:
        return fit_exposure(train, PoissonFactorization(**params))
    except FitError as error:
        return error


def try_outcome(
    shared: tuple[Gathered, Mapping[str, Exposure | FitError]],
    work: tuple[dict[str, Any], str],
    *,
    settings: MetricSettings,
    length: int,
) -> Measured | FitError:
    """Fit stage 2 and measure it, with lists of ``length`` places. A FitError is returned, that of stage 1 too.

    shared : the ratings, and stage 1 by the name that the work has for it. work : Params, and that name.
    """
    (ratings, exposures), (params, stage_one) = shared, work
    exposure = exposures[stage_one] if stage_one else None
    if isinstance(exposure, FitError):
        return exposure
    start = time.perf_counter()
    try:
        model = fit_outcome(ratings.train, DeconfoundedMF(**params), exposure)
    except FitError as error:
        return error
    seconds = time.perf_counter() - start
    if vanished(model.facts.degeneracies):
        return FitError(VANISHED)
    held_out = ratings.held_out
    metrics = ratings.evaluate({"prediction": model.scores(held_out["user"], held_out["item"])}, settings)
    if length:
        lists, of_length = rank_unseen(model, ratings.train, length), replace(settings, ks=(length,))
        metrics = metrics.join(judge(lists, held_out, ratings.train, of_length, "prediction"))
    return Measured(metrics, len(model.objective), seconds)
