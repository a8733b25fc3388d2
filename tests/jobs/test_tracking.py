"""What an MLflow server is told of a run; and that one which is slow, broken or away costs a warning and no run."""

import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.config import RetrainConfig, load_config
from dcrec_spark.jobs import tracking
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.tracking import Figure, Tracker, figures_of, flat, told_how_it_ends, within
from dcrec_spark.jobs.verdicts import Verdict


class Pair(NamedTuple):
    """As much of MLflow's Param as is needed."""

    key: str
    value: str


class Server:
    """A client of MLflow's that keeps what it is told; ``failing`` are methods that raise, ``slow`` never return."""

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.slow: set[str] = set()
        self.params: dict[str, str] = {}
        self.metrics: list[Any] = []
        self.calls: list[str] = []
        self.opened: dict[str, Any] = {}
        self.end = threading.Event()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name in self.slow:
                self.end.wait(60)
            if name in self.failing:
                raise OSError(f"{name} at http://bob:hunter2@host failed\nand more")
            return self._answer(name, given, named)

        return call

    def _answer(self, name: str, given: Any, named: Any) -> Any:
        if name == "get_experiment_by_name":
            return None
        if name == "create_run":
            self.opened = {"experiment": given[0], **named}
            return SimpleNamespace(info=SimpleNamespace(run_id="a run"))
        if name == "log_batch":
            assert len(named.get("params", [])) <= 100
            self.params |= {param.key: param.value for param in named.get("params", [])}
            self.metrics += named.get("metrics", [])
        return f"{name} {given[-1]}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """MLflow, as if it were installed."""
    known, mlflow, entities = Server(), ModuleType("mlflow"), ModuleType("mlflow.entities")
    mlflow.MlflowClient = lambda tracking_uri: known  # type: ignore[attr-defined]
    entities.Param = Pair  # type: ignore[attr-defined]
    entities.Metric = lambda *given: Figure(given[0], given[1], given[3])  # type: ignore[attr-defined]
    monkeypatch.setattr(tracking, "require_extra", lambda _extra: None)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    for name in tracking._ENVIRONMENT:
        monkeypatch.setenv(name, "set by the test")
    yield known
    known.end.set()


@pytest.fixture
def run(spark: SparkSession) -> Run:
    """A run that has got as far as its audit."""
    config = load_config(RetrainConfig, None, ["run.mlflow_uri=http://tracking", "run.run_date=2026-01-31"])
    made = Run.begin("retrain", config, spark, {"fit": 2.5})
    made.counts = {"users": 30}
    made.verdicts.all.append(Verdict("max_churn", 0.25, 0.5, True, "a quarter"))
    made.compared = {"metric": "catalogue_ndcg@10", "models": {"this model": {"value": 0.2}}}
    return made


def test_settings_figures_and_the_end_are_told(server: Server, run: Run) -> None:
    tracker = Tracker(run)
    with told_how_it_ends(tracker):
        tracker.tell()

    assert run.warnings == []
    assert server.opened["experiment"] == "create_experiment dcrec"
    assert server.opened["tags"] == {"run_id": run.run_id, "job": "retrain", "run_date": "2026-01-31"}
    assert server.params["outcome.alpha"] == "40.0"
    assert Figure("audit/max_churn", 0.25) in server.metrics
    assert Figure("catalogue_ndcg_at_10/this model", 0.2) in server.metrics
    assert Figure("seconds/fit", 2.5) in server.metrics
    assert server.calls[-1] == "set_terminated"


def test_a_run_that_fails_is_told_as_failed_and_fails_as_before(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[object] = []
    monkeypatch.setattr(server, "set_terminated", lambda _run, status: ends.append(status), raising=False)
    with pytest.raises(ValueError, match="its own failure"), told_how_it_ends(Tracker(run)):
        raise ValueError("its own failure")
    assert ends == ["FAILED"]


@pytest.mark.parametrize("method", ["create_run", "log_batch", "get_experiment_by_name"])
def test_a_server_that_fails_is_a_warning_without_secrets_and_is_asked_no_more(
    method: str, server: Server, run: Run
) -> None:
    server.failing = {method}
    tracker = Tracker(run)
    with told_how_it_ends(tracker):
        tracker.tell()
    assert run.warnings == [
        f"MLflow (setting run.mlflow_uri) does not have this run: OSError: {method} at http://bob:***@host failed"
    ]
    assert server.calls[-1] == method


def test_one_that_fails_after_the_commit_leaves_the_record_as_it_is(server: Server, run: Run) -> None:
    server.failing = {"set_terminated"}
    with told_how_it_ends(Tracker(run)):
        pass
    assert run.warnings == []


def test_one_that_does_not_answer_is_not_waited_for(server: Server, run: Run) -> None:
    server.slow = {"create_run"}
    begun = time.monotonic()
    with told_how_it_ends(Tracker(run, seconds=0.2)):
        pass
    assert time.monotonic() - begun < 10
    assert run.warnings == ["MLflow (setting run.mlflow_uri) does not have this run: no answer within 0.2 s"]


def test_without_the_package_the_warning_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setattr("dcrec_spark.errors.find_spec", lambda name: None)
    with told_how_it_ends(Tracker(run)):
        pass
    (warning,) = run.warnings
    assert "pip install 'dcrec-spark[mlflow]'" in warning


def test_without_an_address_nothing_is_told(server: Server, spark: SparkSession) -> None:
    with told_how_it_ends(Tracker(Run.begin("retrain", RetrainConfig(), spark, {}))):
        pass
    assert server.calls == []


def test_answers_and_errors_come_back() -> None:
    assert within(10, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 / 0)


def test_settings_have_their_full_names_and_figures_their_iterations(run: Run) -> None:
    assert flat({"a": {"b@c": "x" * 600}, "d": None}) == {"a.b_at_c": "x" * 500, "d": "None"}
    facts = {**run.facts("published", 0, None), "objectives": {"outcome": [3.0, 2.0]}}
    told = figures_of(facts)
    assert [each for each in told if each.name == "objective/outcome"] == [
        Figure("objective/outcome", 3.0, 1),
        Figure("objective/outcome", 2.0, 2),
    ]
