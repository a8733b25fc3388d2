"""Of several fits, from a seed each, the best is kept and the others are let go."""

from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.engine.ascent import Fit
from dcrec_spark.engine.turn import Kernel
from dcrec_spark.errors import FitError
from dcrec_spark.kernels.ridge_terms import Shared
from dcrec_spark.models.families.gaussian import GaussianSteps
from dcrec_spark.models.fitting.restarts import best_of
from tests.models.outcome.test_extended import KINDS
from tests.models.world import (
    NUMBERS,
    cached,
    exposure,
    outcome,
)


def test_of_several_seeds_the_best_objective_is_kept(spark: SparkSession) -> None:
    data = NUMBERS.frame(spark)
    stages = [outcome(adjustment="none", restarts=2), exposure(restarts=2)]
    histories = [stages[0].fit(data).objectiveHistory, stages[1].fit(data).elboHistory]
    alone = [outcome(adjustment="none", seed=seed).fit(data).objectiveHistory for seed in (5, 7)]
    assert histories[0] == min(alone, key=lambda history: history[-1])
    alone = [exposure(seed=seed).fit(data).elboHistory for seed in (17, 19)]
    assert histories[1] == max(alone, key=lambda history: history[-1])


def test_of_several_seeds_of_the_extended_model_the_best_is_kept(spark: SparkSession) -> None:
    """By the objective of the model itself, whose users have settled after the last sweep."""
    data = NUMBERS.frame(spark)
    extended = {**KINDS["rated"], "exposureModel": exposure().fit(data)}
    kept = outcome(**extended, restarts=3).fit(data)
    alone = [outcome(**extended, seed=seed).fit(data) for seed in (5, 7, 9)]
    best = min(alone, key=lambda model: float(model.objective or 0.0))
    assert (kept.objective, kept.objectiveHistory) == (best.objective, best.objectiveHistory)
    assert len({model.objective for model in alone}) == 3


@pytest.mark.parametrize("astray", [{7}, {5, 7}])
def test_a_seed_that_goes_astray_is_left_out(
    spark: SparkSession, astray: set[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After half a sweep. Without any other its error is the fit's. Placed states would stay cached."""
    items = GaussianSteps.items

    def strays(steps: GaussianSteps, shared: Shared) -> Kernel:
        if steps.seed in astray:
            raise FitError(f"{steps.seed} went astray")
        return items(steps, shared)

    monkeypatch.setattr(GaussianSteps, "items", strays)
    data, before = NUMBERS.frame(spark), cached(spark)
    estimator = outcome(adjustment="none", restarts=2, maxIter=1, exchange="blocks")
    if len(astray) == 2:
        with pytest.raises(FitError, match="7 went astray"):
            estimator.fit(data)
    else:
        model = estimator.fit(data)
        assert len(model.objectiveHistory) == 1
        model.release()
    first = min(astray)
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING" and "astray" in r.getMessage()] == [
        f"seed {first}, one of 2 restarts, is left out: {first} went astray"
    ]
    assert cached(spark) == before


def test_an_error_of_another_kind_lets_go_of_the_best() -> None:
    states: list[Mock] = []

    def fit(again: int) -> Fit:
        if again == 2:
            raise KeyboardInterrupt
        states.append(Mock(needs=frozenset()))
        return Fit(states[-1], states[-1], None, [float(again)])

    with pytest.raises(KeyboardInterrupt):
        best_of(3, fit, seed_of=lambda restart: restart, rises=False)
    assert all(state.release.called for state in states)
