"""What a run records and shows: fits that did not converge, verdicts of the audit, the summary."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.errors import AuditError, DataError
from dcrec_spark.jobs.job import run_summary
from dcrec_spark.jobs.run_record import Run, StageFit, Verdict, Verdicts

GOOD = Verdict("max_churn", 0.1, 0.2, True, "10 places changed")
BAD = Verdict("min_coverage", 0.1, 0.2, False, "2 of 20 items are in some list")


@pytest.mark.parametrize(
    ("objective", "values", "expected"),
    [
        ("J", [491_553.0, 99_008.0], "outcome stopped after 2 iterations, J still falling by 80 % an iteration"),
        ("ELBO", [-10.0, -9.0, -8.82], "outcome stopped after 3 iterations, ELBO still rising by 2 % an iteration"),
        ("J", [5.0], "outcome stopped after 1 iteration, too few to see whether J converged"),
    ],
)
def test_a_fit_that_did_not_converge_is_named_with_its_remedy(
    objective: str, values: list[float], expected: str
) -> None:
    sentence = StageFit(objective, values, converged=False).warning("outcome", 1e-4)
    assert sentence == f"{expected}: raise outcome.max_iter, or outcome.tol if this is near enough"


@pytest.mark.parametrize(
    ("fit", "tol"),
    [
        (StageFit("J", [100.0, 50.0], converged=True), 1e-4),
        (StageFit("J", [100.0, 50.0], converged=False), 0.0),
        (StageFit("J", [], converged=False), 1e-4),
    ],
    ids=["converged", "a fixed number of iterations", "no iteration"],
)
def test_other_fits_are_not_mentioned(fit: StageFit, tol: float) -> None:
    assert fit.warning("exposure", tol) is None


def test_a_failed_check_names_its_setting_and_the_way_out() -> None:
    verdicts = Verdicts()
    with pytest.raises(AuditError, match=r"2 of 20 items are in some list \(setting audit.min_coverage=0.2\).*--force"):
        verdicts.enforce([GOOD, BAD], force=False)
    assert (verdicts.all, verdicts.forced) == ([GOOD, BAD], [])
    with pytest.raises(DataError):
        verdicts.enforce([BAD], force=False, error=DataError)


def test_a_forced_check_is_recorded() -> None:
    verdicts = Verdicts()
    (warning,) = verdicts.enforce([GOOD, BAD], force=True)
    assert warning.startswith("published although a limit is exceeded (--force): 2 of 20 items")
    assert verdicts.forced == ["min_coverage"]


def test_the_summary_shows_counts_fits_times_and_warnings() -> None:
    run = Run("r1", "retrain", RetrainConfig(), datetime.now(UTC), {}, {"fit": 1.25})
    run.counts |= {"rows_in": 1000, "accepted": 990, "rejected": 10, "users": 30, "items": 20}
    run.fits |= {"exposure": StageFit("ELBO", [-9.0, -8.0], True), "outcome": StageFit("J", [5.0], False)}
    run.warnings.append("outcome stopped after 1 iteration, too few to see")
    printed = io.StringIO()
    Console(file=printed, width=100).print(run_summary(run, "file:///tables/run_id=r1"))
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    assert lines[0].startswith("run r1 published")
    for fact in (
        "ratings  990 of 1,000 rows, 10 rejected",
        "users x items  30 x 20",
        "exposure  2 iterations, ELBO -9 -> -8",
        "time  fit 1.2 s",
        "note  outcome stopped after 1 iteration, too few to see",
        "tables  /tables/run_id=r1",
    ):
        assert fact in lines
