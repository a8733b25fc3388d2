"""Fits that a search tries: those that fail end no other, and workers import nothing of the jobs."""

import sys

import numpy as np

from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.local.attempts import Measured, try_exposure, try_outcome
from dcrec_spark.local.data import Gathered
from dcrec_spark.local.fits import Ratings
from tests.spark.standalone import finished

SETTINGS = MetricSettings(replications=3)


def test_a_fit_that_fails_is_returned_in_its_place_and_ends_no_other() -> None:
    """More factors than a user has ratings, and nothing that holds them; an exposure model fails all that need it."""
    rng = np.random.default_rng(4)
    user, item = np.nonzero(rng.random((30, 20)) < 0.4)
    rating, is_test = rng.integers(1, 6, len(user)).astype(float), rng.random(len(user)) < 0.3
    columns = {"user": user, "item": item, "rating": rating}
    train = Ratings(*(column[~is_test] for column in columns.values()), np.arange(30), np.arange(20))
    ratings = Gathered(train, {name: column[is_test] for name, column in columns.items()})
    exposure = try_exposure(train, {"rank": 2, "maxIter": 5})
    exposures = {"one": exposure, "failed": FitError("no exposure model")}
    outcome = {"outcome": "weighted", "rank": 2, "maxIter": 2}
    unheld = dict.fromkeys(("regParam", "confounderReg", "unobservedWeight"), 0.0)
    errors = {
        ("one", "user factors are NaN or infinite"): {**outcome, **unheld, "outcome": "probabilistic", "rank": 50},
        ("one", "all factors are zero"): {**outcome, "regParam": 1e12},
        ("failed", "no exposure model"): outcome,
    }
    for (stage_one, words), params in errors.items():
        found = try_outcome((ratings, exposures), (params, stage_one), settings=SETTINGS, length=0)
        assert isinstance(found, FitError)
        assert words in str(found)
    for stage_one, params in (("one", outcome), ("", {**outcome, "adjustment": "none"})):
        fitted = try_outcome((ratings, exposures), (params, stage_one), settings=SETTINGS, length=3)
        assert isinstance(fitted, Measured)
        assert {"mse", "catalogue_ndcg@3"} <= fitted.metrics.estimates().keys()


def test_workers_need_no_package_of_the_jobs() -> None:
    """They have what spark/preflight.py looks for, and import the module of a function that they run."""
    of_jobs = "sys.modules.keys() & {'dcrec_spark.jobs', 'pydantic', 'rich', 'structlog'}"
    code = f"import sys, {try_outcome.__module__}, {try_exposure.__module__}; sys.exit(' '.join({of_jobs}) or None)"
    assert finished(sys.executable, "-c", code).returncode == 0
