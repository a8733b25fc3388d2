"""What a run records, shows and leaves for Prometheus, whatever its end and whatever its texts."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.jobs.job import run_summary
from dcrec_spark.jobs.prometheus import text_of, write_metrics
from dcrec_spark.jobs.run_record import Run, StageFit, Verdict

REMEDY = ": raise outcome.max_iter, or outcome.tol if this is near enough"


@pytest.mark.parametrize(
    ("fit", "tol", "expected"),
    [
        (StageFit([4.0, 0.8], False), 1e-4, "2 iterations, the objective still falling by 80% an iteration"),
        (StageFit([-10.0, -9.0, -8.82], False), 1e-4, "3 iterations, the objective still rising by 2% an iteration"),
        (StageFit([5.0], False), 1e-4, "1 iteration, too few to see whether it converged"),
        (StageFit([100.0, 50.0], True), 1e-4, None),
        (StageFit([100.0, 50.0], False), 0.0, None),
        (StageFit([], False), 1e-4, None),
    ],
)
def test_a_fit_that_did_not_converge_is_named_with_its_remedy(fit: StageFit, tol: float, expected: str | None) -> None:
    sentence = None if expected is None else f"outcome stopped after {expected}{REMEDY}"
    assert fit.warning("outcome", tol) == sentence


def test_the_summary_shows_counts_fits_times_and_warnings() -> None:
    run = Run("r1", "retrain", RetrainConfig(), datetime.now(UTC), {}, {"exposure": 0.75, "fit": 1.25})
    run.counts |= {"rows_in": 1000, "accepted": 990, "rejected": 10, "users": 30, "items": 20}
    run.reasons = {"unparsable_rating": 10}
    run.fits |= {"exposure": StageFit([-9.0, -8.0], True), "outcome": StageFit([5.0], False)}
    run.exposure_check = {"passed": False, "p_value": 0.995, "spread_p_value": 0.5}
    run.compared = {"metric": None, "models": {}, "skipped": "more than 2,000,000 ratings"}
    run.warnings.append("outcome stopped after 1 iteration, too few to see")
    run.since = {"run_id": "r0", "counts": {"accepted": 1000, "rejected": 0, "users": 30}}
    for check, found, limit in (("max_churn", 0.45, 0.5), ("min_coverage", 0.9, 0.5), ("min_share", 0.55, 0.5)):
        run.verdicts.append(Verdict(check, found, limit, True, f"it is {found}"))
    printed = io.StringIO()
    Console(file=printed, width=120).print(run_summary(run, "file:///tables/run_id=r1"))
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    assert lines[0].startswith("run r1 published")
    for fact in (
        "ratings  990 of 1,000 rows, 10 rejected (unparsable_rating; see the table rejects)",
        "users x items  30 x 20",
        "exposure  2 iterations in 0.8 s, objective -9 -> -8",
        "exposure check  failed (p 0.995): published, because audit.exposure_check is warn",
        "held out  not compared with popularity: more than 2,000,000 ratings",
        "since  run r0: accepted -10, rejected +10, users +0",
        "near a limit  it is 0.45 (audit.max_churn=0.5); it is 0.55 (audit.min_share=0.5)",
        "time  fit 1.2 s",
        "note  outcome stopped after 1 iteration, too few to see",
        "tables  /tables/run_id=r1",
    ):
        assert fact in lines


FACTS: dict[str, Any] = {
    "job": "retrain",
    "name": 'night "ly"\\',
    "status": "published",
    "exit_code": 0,
    "finished_at": "2026-11-20T02:15:00+00:00",
    "timings": {"fit": 12.5, "rank and publish": 3.0},
    "counts": {"ratings": 100_000},
    "iterations": {"outcome": 7},
    "warnings": ["one"],
    "audit": {"verdicts": [{"check": "max_churn", "found": 0.25, "limit": 0.5, "passed": True}]},
}


def value(text: str, name: str, label: str = "") -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name}{{") and label in line]
    return float(line.rpartition(" ")[2])


def test_the_file_is_replaced_after_each_run_and_keeps_the_time_of_the_last_success(tmp_path: Path) -> None:
    path = tmp_path / "collector" / "dcrec.prom"
    write_metrics(str(path), FACTS)
    assert value(path.read_text(), "dcrec_run_published", r'{job="retrain",name="night \"ly\"\\"}') == 1.0
    for code in (4, 2):
        write_metrics(str(path), {**FACTS, "exit_code": code, "finished_at": "2026-11-21T02:15:00+00:00"})
        text = path.read_text()
        assert value(text, "dcrec_run_published") == 0.0
        assert value(text, "dcrec_run_exit_code") == code
        assert value(text, "dcrec_run_finished_timestamp_seconds") == 1795140900.0 + 86400
        assert value(text, "dcrec_run_success_timestamp_seconds") == 1795140900.0
    assert [file.name for file in path.parent.iterdir()] == ["dcrec.prom"]
    path.unlink()
    path.symlink_to(tmp_path / "gone")
    write_metrics(str(path), FACTS)
    assert value(path.read_text(), "dcrec_run_published") == 1.0
    write_metrics(str(path.parent), FACTS)  # cannot be written, and fails no run


def test_each_value_stands_on_a_line_of_its_own_under_what_it_is() -> None:
    text = text_of(FACTS)
    assert text.endswith("\n")
    assert [line for line in text.splitlines() if not line.startswith("#") and not LINE.fullmatch(line)] == []
    assert value(text, "dcrec_run_step_seconds", 'step="rank and publish"') == 3.0
    assert value(text, "dcrec_run_count", 'of="ratings"') == 100_000
    assert value(text, "dcrec_run_finished_timestamp_seconds") == 1795140900.0
    assert value(text, "dcrec_audit_passed", 'check="max_churn"') == 1.0


LINE = re.compile(r"[a-z_]+\{[a-z]+=\"(\\.|[^\"\\])*\"(,[a-z]+=\"(\\.|[^\"\\])*\")*\} -?[0-9.e+-]+")
