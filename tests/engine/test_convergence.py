"""An objective that goes the wrong way, or is no number, ends the fit; one that has settled ends it in peace."""

import math

import pytest

from dcrec_spark.engine.convergence import SLACK, History, Patience
from dcrec_spark.errors import FitError


def history(rises: bool, tol: float = 0.0, slack: float = 1e-9) -> tuple[History, list[tuple[str, int, float]]]:
    told: list[tuple[str, int, float]] = []
    return History("stage", rises, tol, slack, lambda *heard: told.append(heard)), told


def test_it_keeps_and_tells_what_it_is_given() -> None:
    kept, told = history(rises=False)
    assert [kept.record(value) for value in (9.0, 4.0, 1.0)] == [False, False, False]
    assert kept.values == [9.0, 4.0, 1.0]
    assert told == [("stage", 1, 9.0), ("stage", 2, 4.0), ("stage", 3, 1.0)]


def test_a_loss_that_rises_is_an_error() -> None:
    kept, _ = history(rises=False)
    kept.record(4.0)
    with pytest.raises(FitError, match=r"stage: the objective rose from 4 to 4\.01 at iteration 2"):
        kept.record(4.01)


def test_an_evidence_bound_that_falls_is_an_error() -> None:
    kept, _ = history(rises=True)
    kept.record(-4.0)
    with pytest.raises(FitError, match=r"stage: the objective fell from -4 to -4\.01 at iteration 2"):
        kept.record(-4.01)


@pytest.mark.parametrize("rises", [True, False])
def test_what_rounding_explains_is_an_end_and_no_error(rises: bool) -> None:
    kept, _ = history(rises, slack=1e-3)
    kept.record(-4.0)
    assert kept.record(-4.0 + (-0.003 if rises else 0.003))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_is_an_error_at_once(value: float) -> None:
    kept, told = history(rises=True)
    with pytest.raises(FitError, match=f"the objective is {value} at iteration 1"):
        kept.record(value)
    assert told == []


@pytest.mark.parametrize(("rises", "sign"), [(True, 1.0), (False, -1.0)])
def test_settled_is_a_relative_change_below_the_tolerance(rises: bool, sign: float) -> None:
    kept, _ = history(rises, tol=0.01)
    assert not kept.record(-100.0)
    assert not kept.record(-100.0 + sign * 1.5)
    assert kept.record(-100.0 + sign * 2.0)


def test_single_precision_is_given_more_slack() -> None:
    assert SLACK["float64"] < SLACK["float32"] < 1e-3


def test_patience_counts_from_the_best() -> None:
    patience = Patience(2)
    assert [patience.improved_by(loss) for loss in (3.0, 2.0, 2.5, 1.0, 1.5)] == [True, True, False, True, False]
    assert not patience.exhausted
    assert not patience.improved_by(1.0)
    assert patience.exhausted
