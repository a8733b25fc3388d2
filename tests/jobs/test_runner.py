"""What all jobs share, shown by a job that fits nothing: records, refusals, dry runs, and the order of its steps."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import JobConfig
from dcrec_spark.errors import DataError
from dcrec_spark.jobs.job import Context, Job, Outputs
from dcrec_spark.publish.current import current_run_id
from tests.jobs.job import Outcome, failure_of, names_in, read_table, record_of, run_directory, run_job

pytestmark = pytest.mark.usefixtures("spark")


class GreetConfig(JobConfig):
    """Nothing but what every job has."""

    job: ClassVar[str] = "greet"


class Greet(Job[GreetConfig, list[str], str]):
    """Recommends one item to each of the users that it reads from nowhere."""

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
    """An output directory that holds one good run."""
    assert run_job(Greet, {"output.path": tmp_path / "out"}).code == 0
    return tmp_path / "out"


def assert_nothing_published(outcome: Outcome, output: Path, before: Path) -> None:
    """The run of before is still the current one, and run.json of the failed one says what the exit code says."""
    assert run_directory(output) == before
    assert names_in(output) == {"CURRENT", before.name}
    assert failure_of(output)["exit_code"] == outcome.code


def test_a_job_runs_its_steps_in_order_and_publishes(tmp_path: Path) -> None:
    outcome = run_job(Greet, {"output.path": tmp_path / "out"})
    assert outcome.code == 0, outcome
    assert Greet.steps == ["check", "extract", "transform"]
    assert Greet.released == ["cached"]
    run = run_directory(tmp_path / "out")
    record = record_of(run)
    assert (record["job"], record["status"], record["exit_code"]) == ("greet", "published", 0)
    assert record["timings"].keys() == {"start Spark"}  # what comes later is not over when the record is written
    assert list(read_table(run, "recommendations").user_id) == ["ann", "bob"]
    assert dict(read_table(run, "runs")["counts"][0]) == record["counts"] == {"users": 2, "items": 1}
    assert f"run {record['run_id']} published" in outcome.printed


def test_a_dry_run_shows_the_plan_and_writes_nothing(tmp_path: Path) -> None:
    outcome = run_job(Greet, {"output.path": tmp_path / "out"}, "--dry-run")
    assert outcome.code == 0, outcome
    assert Greet.steps == ["check", "extract", "plan"]
    printed = outcome.printed.replace("\n", " ")
    assert "nothing was written" in printed
    assert "greet   ann, bob" in printed
    assert os.listdir(tmp_path) == []


def test_settings_are_refused_before_spark_is_asked_for_anything(tmp_path: Path) -> None:
    assert run_job(Greet, {}).message.startswith("setting output.path: found null")
    (tmp_path / "file").touch()
    outcome = run_job(Greet, {"output.path": tmp_path / "file" / "below"})
    assert outcome.code == 2
    assert "where this user can not write" in outcome.message
    assert "extract" not in Greet.steps


def refuse_inputs(_job: Greet, _context: Context[GreetConfig]) -> list[str]:
    raise DataError("nobody is there")


def lose_connection(*_: object) -> DataFrame:
    raise RuntimeError("lost jdbc:postgresql://me:hunter2@db/x?password=hunter3")


def rank_from_two(_job: Greet, spark: SparkSession, users: list[str]) -> DataFrame:
    return RIGHT(_job, spark, users).withColumn("rank", F.col("rank") + 1)


RIGHT = Greet.table
FAILURES: dict[str, tuple[str, Callable[..., Any], int, str]] = {
    "input is refused": ("extract", refuse_inputs, 3, "DataError: nobody is there"),
    "the unexpected, without its secrets": (
        "table", lose_connection, 1, "RuntimeError: lost jdbc:postgresql://me:***@db/x?password=***"
    ),
    "the audit refuses": ("table", rank_from_two, 4, "AuditError: the recommendations were not published: 2 users"),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILURES)
def test_a_run_that_fails_leaves_its_record_and_the_old_tables(what: str, output: Path) -> None:
    method, broken, code, message = FAILURES[what]
    before = run_directory(output)
    job = type("Broken", (Greet,), {method: broken})
    outcome = run_job(job, {"output.path": output})
    assert outcome.code == code, outcome
    record = failure_of(output)
    assert (record["status"], record["job"]) == ("failed", "greet")
    assert record["error"].startswith(message)
    assert_nothing_published(outcome, output, before)
    assert Greet.released == ["cached"] * Greet.steps.count("transform")


def test_a_publisher_that_was_faster_wins(output: Path) -> None:
    class Slow(Greet):
        def load(self, context: Context[GreetConfig], outputs: Outputs[str]) -> str:
            # Published while this run writes its tables.
            tables = {"greetings": outputs.tables["recommendations"].withColumn("user_id", overtaken(output))}
            return super().load(context, Outputs(tables, outputs.result))

    outcome = run_job(Slow, {"output.path": output})
    assert (outcome.code, outcome.error["kind"]) == (5, "ConflictError")
    assert current_run_id(str(output)) == "of-another"
    assert failure_of(output)["exit_code"] == 5


def overtaken(output: Path) -> Any:
    """A column that is computed when the table is written, and lets another run become the current one."""

    @F.udf("string")
    def user(_: str) -> str:
        (output / "CURRENT").write_text("of-another\n")
        return "ann"

    return user("item_id")


def test_an_interruption_is_recorded_as_one(output: Path) -> None:
    def interrupt(*_: object) -> DataFrame:
        raise KeyboardInterrupt("stopped by SIGTERM")

    before = run_directory(output)
    outcome = run_job(type("Broken", (Greet,), {"table": interrupt}), {"output.path": output})
    assert (outcome.code, outcome.error["kind"]) == (6, "InterruptedRun")
    assert failure_of(output)["status"] == "interrupted"
    assert_nothing_published(outcome, output, before)


def test_the_record_is_plain_json(output: Path) -> None:
    text = (run_directory(output) / "run.json").read_text(encoding="utf-8")
    assert json.loads(text)["configuration"].keys() == {"run", "spark", "output"}
