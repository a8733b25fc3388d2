"""Metrics of a run in Prometheus' text format, whatever its end and whatever its texts."""

import re
from pathlib import Path
from typing import Any

import pytest

from dcrec_spark.errors import AuditError
from dcrec_spark.jobs.prometheus import text_of, write_metrics

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
LINE = re.compile(r"[a-z_]+\{[a-z]+=\"(\\.|[^\"\\])*\"(,[a-z]+=\"(\\.|[^\"\\])*\")*\} -?[0-9.e+-]+")


class FakeRun:
    def facts(self, status: str, exit_code: int, error: str | None) -> dict[str, Any]:
        return {**FACTS, "status": status, "exit_code": exit_code}

    def success_record(self) -> dict[str, Any]:
        return self.facts("published", 0, None)


def value(text: str, name: str, label: str = "") -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name}{{") and label in line]
    return float(line.rpartition(" ")[2])


def test_each_value_stands_on_a_line_of_its_own_under_what_it_is() -> None:
    text = text_of(FACTS)
    assert text.endswith("\n")
    assert [line for line in text.splitlines() if not line.startswith("#") and not LINE.fullmatch(line)] == []
    assert r'name="night \"ly\"\\"' in text
    assert value(text, "dcrec_run_step_seconds", 'step="rank and publish"') == 3.0
    assert value(text, "dcrec_run_count", 'of="ratings"') == 100_000
    assert value(text, "dcrec_run_finished_timestamp_seconds") == 1795140900.0
    assert value(text, "dcrec_audit_passed", 'check="max_churn"') == 1.0


def test_the_file_is_replaced_after_a_run_and_after_one_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "collector" / "dcrec.prom"
    with write_metrics(FakeRun(), str(path)):  # type: ignore[arg-type]
        pass
    assert value(path.read_text(), "dcrec_run_published") == 1.0
    with pytest.raises(AuditError), write_metrics(FakeRun(), str(path)):  # type: ignore[arg-type]
        raise AuditError("too much churn")
    assert value(path.read_text(), "dcrec_run_published") == 0.0
    assert value(path.read_text(), "dcrec_run_exit_code") == 4.0
    assert [file.name for file in path.parent.iterdir()] == ["dcrec.prom"]


def test_a_file_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with write_metrics(FakeRun(), str(tmp_path / "taken")):  # type: ignore[arg-type]
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
