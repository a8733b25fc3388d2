"""An objective that goes the wrong way, or is no number, ends the fit; one that has converged ends it in peace."""

import math

import pytest

from dcrec_spark.engine.convergence import History, Patience
from dcrec_spark.errors import FitError


def history(rises: bool, tol: float = 0.0, slack: float = 1e-9) -> tuple[History, list[tuple[str, int, float]]]:
    told: list[tuple[str, int, float]] = []
    return History("stage", rises, tol, slack, lambda *heard: told.append(heard)), told


@pytest.mark.parametrize(
    ("rises", "sign", "moved"), [(False, 1, "rose from 4 to 4.01"), (True, -1, "fell from -4 to -4.01")]
)
def test_an_objective_that_goes_the_wrong_way_is_an_error(rises: bool, sign: int, moved: str) -> None:
    kept, _ = history(rises)
    kept.record(4.0 * sign)
    with pytest.raises(FitError, match=f"stage: the objective {moved} at iteration 2"):
        kept.record(4.01 * sign)


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
def test_converged_is_a_relative_change_below_the_tolerance(rises: bool, sign: float) -> None:
    kept, _ = history(rises, tol=0.01)
    assert not kept.record(-100.0)
    assert not kept.record(-100.0 + sign * 1.5)
    assert kept.record(-100.0 + sign * 2.0)


def test_patience_counts_from_the_best() -> None:
    patience = Patience(2)
    assert [patience.improved_by(loss) for loss in (3.0, 2.0, 2.5, 1.0, 1.5)] == [True, True, False, True, False]
    assert not patience.exhausted
    assert not patience.improved_by(1.0)
    assert patience.exhausted
