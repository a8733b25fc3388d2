"""The predictive check gates what a retraining publishes: off, with a warning, or not at all."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.config import RetrainConfig, load_config
from dcrec_spark.errors import AuditError
from dcrec_spark.jobs.exposure_check import check_exposures
from dcrec_spark.models.exposure import predictive_check
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import SMALL, failure_of, record_of, run_directory, run_retrain

pytestmark = pytest.mark.job

PAIRS = [(user, item) for user in range(8) for item in range(6) if (user + item) % 3]


class FakeRun:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.figures: list[Any] = []

    def checked(self, check: Any) -> None:
        self.figures.append(check)


class Stage:
    """Stands for the exposure model: answers a check, and remembers what it was asked."""

    def __init__(self, passed: bool) -> None:
        self.answer = SimpleNamespace(passed=passed, summary="p 0.001", release=lambda: None)
        self.asked: list[tuple[Any, ...]] = []

    def predictiveCheck(self, *given: Any) -> Any:
        self.asked.append(given)
        return self.answer


def checked(stage: Stage, *settings: str) -> FakeRun:
    run, config = FakeRun(), load_config(RetrainConfig, None, ["run.seed=4", *settings])
    reporter = SimpleNamespace(step=lambda name: nullcontext())
    context: Any = SimpleNamespace(config=config, run=run, reporter=reporter)
    frame: Any = "ratings"
    exposure: Any = stage
    check_exposures(context, frame, exposure)
    return run


def test_off_and_models_without_a_confounder_check_nothing() -> None:
    """YAML reads a bare off as false."""
    for settings in (["exposure_check.action=off"], ["exposure_check.action=refuse", "outcome.adjustment=none"]):
        stage = Stage(passed=False)
        run = checked(stage, *settings)
        assert (stage.asked, run.figures, run.warnings) == ([], [], [])


def test_a_model_that_passes_is_noted_and_nothing_else() -> None:
    stage = Stage(passed=True)
    run = checked(stage, "exposure_check.action=refuse", "exposure_check.held_out_share=0.3")
    assert stage.asked == [("ratings", 0.3, 100, 4)]
    assert (run.figures, run.warnings) == ([stage.answer], [])


def test_a_model_that_fails_is_warned_of_or_refused() -> None:
    (warning,) = checked(Stage(passed=False), "exposure_check.action=warn").warnings
    assert warning.startswith("p 0.001; another exposure.rank may pass")
    with pytest.raises(AuditError, match=r"exposure_check\.action=refuse: p 0\.001; another exposure\.rank may pass"):
        checked(Stage(passed=False), "exposure_check.action=refuse")


@pytest.fixture
def nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictive_check, "MIDDLE", (2.0, 2.0))


def test_a_failed_check_is_published_with_a_warning_or_keeps_the_old_tables(
    spark: SparkSession, nothing_passes: None, tmp_path: Path
) -> None:
    source, output = tmp_path / "ratings.csv", tmp_path / "out"
    rows = [f"u{user},i{item},{1 + user * item % 5}" for user, item in PAIRS]
    source.write_text("\n".join(["user,item,rating", *rows]) + "\n", encoding="utf-8")
    settings = {**SMALL, "exposure.rank": 1, "input.format": "csv", "input.path": source, "output.path": output}
    settings |= {"validation.scale_min": 1, "validation.scale_max": 5, "exposure_check.replications": 20}

    warned = run_retrain({**settings, "exposure_check.action": "warn"})
    assert warned.code == 0, warned
    assert "do not trust a_hat" in " ".join(warned.printed.split())
    before = run_directory(output)
    record = record_of(before)
    assert any("do not trust a_hat" in warning for warning in record["warnings"])
    figures = record["exposure_check"]
    assert not figures["passed"]
    assert 0 < figures["p_value"] <= 1
    assert 0 < figures["held_out"] < len(PAIRS)

    refused = run_retrain({**settings, "exposure_check.action": "refuse"})
    assert (refused.code, refused.error["kind"]) == (4, "AuditError")
    assert "do not trust a_hat" in refused.message
    assert failure_of(output)["exposure_check"].keys() == figures.keys()
    assert run_directory(output) == before
    verify(str(before))
