"""What all jobs share, shown by a job that fits nothing: records, refusals, dry runs, and the order of its steps."""

import errno
import io
import json
import os
import re
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from dcrec_spark.config.sections import JobConfig
from dcrec_spark.errors import ConflictError, DataError
from dcrec_spark.jobs.cli import _interrupt_handler, configure_logging
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.job import Context, Job, Outputs
from dcrec_spark.jobs.tables import text_file
from dcrec_spark.publish.current import current_run_id
from dcrec_spark.storage.local import LocalFiles
from tests.jobs.job import failure_of, names_in, publish, read_table, record_of, run_directory, run_job

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


class GreetConfig(JobConfig):
    job: ClassVar[str] = "greet"


class Greet(Job[GreetConfig, list[str], str]):
    config_type = GreetConfig
    steps: ClassVar[list[str]] = []
    released: ClassVar[list[str]] = []

    def check(self, config: GreetConfig) -> None:
        self.steps.append("check")

    def extract(self, context: Context[GreetConfig]) -> list[str]:
        self.steps.append("extract")
        return ["ann", "bob"]

    def transform(self, context: Context[GreetConfig], inputs: list[str]) -> Outputs[str]:
        self.steps.append("transform")
        context.resources.callback(lambda: self.released.append("cached"))
        context.run.counts |= {"users": len(inputs), "items": 1}
        return Outputs({"recommendations": self.table(context.spark, inputs)}, "hello")

    def table(self, spark: SparkSession, users: list[str]) -> DataFrame:
        rows = [(user, 1, "i", 1.0, 1.0, 0.0) for user in users]
        columns = "user_id string, rank int, item_id string, score double, preference double, confounder double"
        return spark.createDataFrame(rows, columns)

    def plan(self, context: Context[GreetConfig], inputs: list[str]) -> list[str]:
        self.steps.append("plan")
        return [f"greet   {', '.join(inputs)}"]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    Greet.steps.clear()
    Greet.released.clear()


@pytest.fixture
def output(tmp_path: Path) -> Path:
    publish(Greet, {"output.path": tmp_path / "out"})
    return tmp_path / "out"


def test_a_job_runs_its_steps_in_order_and_publishes(tmp_path: Path) -> None:
    outcome = run_job(Greet, {"output.path": tmp_path / "out"})
    assert Greet.steps == ["check", "extract", "transform"]
    assert Greet.released == ["cached"]
    run = run_directory(tmp_path / "out")
    record = record_of(run)
    assert (record["job"], record["status"], record["exit_code"]) == ("greet", "published", 0)
    assert record["configuration"].keys() == {"run", "spark", "output"}
    assert record["timings"].keys() == {"start Spark"}  # what comes later is not over when the record is written
    assert list(read_table(run, "recommendations").user_id) == ["ann", "bob"]
    assert dict(read_table(run, "runs")["counts"][0]) == record["counts"] == {"users": 2, "items": 1}
    assert f"run {record['run_id']} published" in outcome.printed


def test_a_dry_run_shows_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    outcome = run_job(Greet, {"output.path": tmp_path / "out"}, "--dry-run")
    assert Greet.steps == ["check", "extract", "plan"]
    printed = outcome.printed.replace("\n", " ")
    assert "nothing was written" in printed
    assert "greet   ann, bob" in printed
    assert re.search(r"workers \S+ +with dcrec-spark", printed)  # one task has run there, and imported what fits need
    assert os.listdir(tmp_path) == []


def test_settings_are_refused_before_spark_is_asked_for_anything(tmp_path: Path) -> None:
    run_job(Greet, {}, code=2, words="add --set output.path=DIR, or --config FILE")
    (tmp_path / "file").touch()
    run_job(Greet, {"output.path": tmp_path / "file" / "below"}, code=2, words="where this user can not write")
    assert "extract" not in Greet.steps


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def ask_the_jvm(_job: Greet, spark: SparkSession, _users: list[str]) -> DataFrame:
    return spark._jvm.java.net.URI("a b")  # type: ignore[union-attr, no-any-return]


def rank_from_two(_job: Greet, spark: SparkSession, users: list[str]) -> DataFrame:
    return RIGHT(_job, spark, users).withColumn("rank", F.col("rank") + 1)


RIGHT = Greet.table
LOAD = Greet.load
WRITE = LocalFiles.write
LOST = RuntimeError("lost jdbc:postgresql://me:hunter2@db/x?password=hunter3")
STOPPED = KeyboardInterrupt("stopped by SIGTERM")
FAILURES: dict[str, tuple[str, Callable[..., Any], int, str]] = {
    "the JVM, in one line": ("table", ask_the_jvm, 1, "Py4JJavaError: Illegal character in path at index 1: a b"),
    "another publisher was faster": ("load", failing(ConflictError("too late")), 5, "ConflictError: too late"),
    "a signal": ("table", failing(STOPPED), 6, "KeyboardInterrupt: stopped by SIGTERM"),
    "input is refused": ("extract", failing(DataError("nobody is there")), 3, "DataError: nobody is there"),
    "a secret": ("table", failing(LOST), 1, "RuntimeError: lost jdbc:postgresql://me:***@db/x?password=***"),
    "the audit refuses": ("table", rank_from_two, 4, "AuditError: the recommendations were not published: 2 users"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILURES)
def test_a_run_that_fails_leaves_its_record_and_the_old_tables(what: str, output: Path) -> None:
    method, broken, code, message = FAILURES[what]
    before = run_directory(output)
    job = type("Broken", (Greet,), {method: broken})
    run_job(job, {"output.path": output}, code=code)
    record = failure_of(output)
    assert (record["status"], record["job"]) == ("interrupted" if code == 6 else "failed", "greet")
    assert record["error"].startswith(message)
    assert record["exit_code"] == code
    assert run_directory(output) == before
    assert names_in(output) == {"CURRENT", before.name}
    assert Greet.released == ["cached"] * Greet.steps.count("transform")


def test_a_run_that_another_overtakes_is_not_published_over_it(output: Path) -> None:
    def overtake(job: Greet, spark: SparkSession, users: list[str]) -> DataFrame:
        if not (output / "again").exists():
            (output / "again").mkdir()
            run_job(Greet, {"output.path": output})
        return RIGHT(job, spark, users)

    stale = type("Stale", (Greet,), {"table": overtake})
    run_job(stale, {"output.path": output}, code=5)
    assert "after this one began" in failure_of(output)["error"]
    assert failure_of(output)["run_id"] != current_run_id(str(output))


def test_a_damaged_run_and_a_clock_that_ran_ahead_are_told_and_the_next_run_is_published(output: Path) -> None:
    record = run_directory(output) / "run.json"
    record.write_text(record.read_text().replace("greet", "great"))
    (output / "run_id=20990101T000000-5f3c1a").mkdir()
    published = record_of(publish(Greet, {"output.path": output, "output.keep": 2}))
    assert published["run_id"].startswith("20990101T000001-")
    for words in ("is damaged and compared with nothing: ", "a clock ran ahead or runs behind"):
        assert len([warning for warning in published["warnings"] if words in warning]) == 1
    assert names_in(output) == {"CURRENT", "run_id=20990101T000000-5f3c1a", f"run_id={published['run_id']}"}


def test_three_runs_that_keep_two_leave_nothing_of_a_user_who_is_gone(output: Path) -> None:
    """As docs/how-to/forget-a-user.md has it."""

    def holds_bob(path: Path) -> bool:
        return path.is_file() and b"bob" in path.read_bytes()

    assert any(map(holds_bob, output.rglob("*")))
    without = type("Without", (Greet,), {"extract": lambda *_: ["ann", "eve"]})
    for _ in range(3):
        run_job(without, {"output.path": output, "output.keep": 2})
    assert [path for path in output.rglob("*") if holds_bob(path)] == []


@pytest.mark.parametrize("when", ["as CURRENT is replaced", "after the commit"])
def test_a_signal_after_the_commit_leaves_a_run_that_is_done(
    when: str, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_stop(files: LocalFiles, path: str, content: bytes) -> None:
        WRITE(files, path, content)
        if path.endswith("/CURRENT"):
            raise KeyboardInterrupt("stopped by SIGTERM")

    def load_and_stop(job: Greet, context: Context[GreetConfig], outputs: Outputs[str]) -> str:
        LOAD(job, context, outputs)
        raise KeyboardInterrupt("stopped by SIGTERM")

    before = run_directory(output)
    if when == "after the commit":
        monkeypatch.setattr(Greet, "load", load_and_stop)
    else:
        monkeypatch.setattr(LocalFiles, "write", write_and_stop)
    outcome = run_job(Greet, {"output.path": output})
    monkeypatch.undo()

    assert run_directory(output) != before
    assert not (output / "failed").exists()
    assert f"run {current_run_id(str(output))} published" in outcome.printed
    run_job(Greet, {"output.path": output})  # cleans up what was left


def test_secrets_of_the_environment_are_in_nothing_that_a_run_leaves(
    output: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:

    def talk(job: Greet, context: Context[GreetConfig], outputs: Outputs[str]) -> str:
        context.run.warnings.append("connected as hunter2")
        warnings.warn("hunter2 will expire", stacklevel=1)
        folder = text_file(context.spark, "page.html", "<p>hunter2</p>")
        directory = LOAD(job, context, Outputs(outputs.tables, outputs.result, {"report": folder}))
        if failing:
            raise RuntimeError("the server said: hunter2")
        return directory

    monkeypatch.setenv("SECRET_IN_ENV", "hunter2")
    monkeypatch.setattr(Greet, "load", talk)
    for failing in (False, True):
        with warnings.catch_warnings():
            warnings.filterwarnings("default", "hunter2")
            settings = {"output.path": output, "spark.conf.x": "${env:SECRET_IN_ENV}"}
            outcome = run_job(Greet, settings, code=int(failing))
        assert "hunter2" not in json.dumps(outcome.error) + outcome.printed
    assert "RuntimeError: the server said: ***" in outcome.message
    assert "hunter2" not in "".join(capfd.readouterr())
    left = [path for path in output.rglob("*") if path.is_file()]
    assert any(path.name == "page.html" and "***" in path.read_text() for path in left)
    assert [path for path in left if b"hunter2" in path.read_bytes()] == []


def test_a_full_disk_has_an_exit_code_of_its_own_and_names_the_places(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(_files: LocalFiles, path: str, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    before = run_directory(output)
    monkeypatch.setattr(LocalFiles, "write", fail)
    outcome = run_job(Greet, {"output.path": output}, code=7, words="nothing was published")
    monkeypatch.undo()
    assert outcome.error["kind"] == "DiskFullError"
    assert re.search(rf"output\.path {output} \([\d,]+ MB free\); spark\.local\.dir \S+ \([\d,]+ MB", outcome.message)
    assert run_directory(output) == before
    assert names_in(output) == {"CURRENT", before.name}


@pytest.mark.parametrize("for_people", [True, False])
def test_the_log_masks_secrets_by_address_and_by_name_at_any_depth(
    for_people: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(for_people)
    options = {"url": "jdbc:x://me:lion@h/db", "each": [{"password": "tiger"}, ("token=puma", 7)]}
    structlog.get_logger().warning("opened ftp://me:jaguar@h", api_key="lynx", options=options)
    structlog.reset_defaults()
    log = capsys.readouterr().err
    assert "jdbc:x://me:***@h/db" in log
    assert [secret for secret in ("lion", "tiger", "puma", "jaguar", "lynx") if secret in log] == []


def test_signals_stop_a_run_once_and_a_published_one_never() -> None:
    reporter = Reporter()
    interrupt = _interrupt_handler(reporter)
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGTERM"):
        interrupt(signal.SIGTERM, None)
    interrupt(signal.SIGTERM, None)
    reporter.done = True
    _interrupt_handler(reporter)(signal.SIGINT, None)


@pytest.mark.parametrize("for_people", [True, False])
def test_an_error_on_a_terminal_is_told_once_and_broken_between_words(
    for_people: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(for_people)
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=38, color_system=None)
    Reporter(console, for_people).failed(DataError("abcdefghi " * 9))
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert lines[:2] == ["DataError: abcdefghi abcdefghi", "abcdefghi abcdefghi abcdefghi"]
    assert ("abcdefghi" in capsys.readouterr().err) != for_people
