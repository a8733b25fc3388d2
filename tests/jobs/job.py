"""Running a job inside the tests' own Spark session, and reading what it left behind."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import structlog
from click.testing import CliRunner, Result

from dcrec_spark.jobs.cli import dcrec, job_command
from dcrec_spark.jobs.job import Job
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.publish.current import current_run_id

# For a handful of ratings, of which the priors of the defaults would leave no factors.
WEIGHTED = {"outcome.outcome": "weighted", "outcome.alpha": 40, "outcome.reg_param": 1, "outcome.fit_biases": False}
# Every part of the job at work.
SMALL = {
    **WEIGHTED,
    "exposure.rank": 3,
    "exposure.max_iter": 4,
    "exposure.tol": 0,
    "outcome.rank": 2,
    "outcome.max_iter": 3,
    "outcome.tol": 0,
    "recommend.top_n": 2,
    "audit.exposure_check": "off",  # it fits stage 1 once more
}

AnyJob = Job[Any, Any, Any]


@dataclass(frozen=True)
class Outcome:
    """How the command ended: its exit code, the last line of its log, and what it printed for people."""

    code: int
    error: dict[str, Any]
    printed: str
    exception: BaseException | None

    @property
    def message(self) -> str:
        return str(self.error.get("event", ""))


def options_of(settings: Mapping[str, object]) -> list[str]:
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def in_sections(settings: Mapping[str, object], **sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    for name, value in settings.items():
        section, _, setting = name.partition(".")
        sections.setdefault(section, {})[setting] = value
    return sections


def ratings_file(folder: Path, users: int, items: int, item: str = "") -> Path:
    """Write ratings of two thirds of all pairs as CSV; ``item`` goes before the number of each item."""
    pairs = [(user, number) for user in range(users) for number in range(items) if (user + number) % 3]
    rows = [f"{user},{item}{number},{1 + (user * number) % 5}" for user, number in pairs]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]), encoding="utf-8")
    return folder / "ratings.csv"


def small_job(folder: Path, users: int, items: int, item: str = "") -> dict[str, object]:
    ratings = str(ratings_file(folder, users, items, item))
    return {**SMALL, "input.format": "csv", "input.path": ratings, "output.path": f"{folder}/out"}


def run_retrain(settings: Mapping[str, object], *options: str, code: int | None = 0, words: str = "") -> Outcome:
    return run_job(Retrain, settings, *options, code=code, words=words)


def invoke(command: click.Command, *arguments: object) -> Result:
    """Run a command here, which leaves this process its handlers of signals."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return CliRunner().invoke(command, [str(argument) for argument in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        structlog.reset_defaults()  # it logs to the runner's stream, which is closed now


def dcrec_with(*arguments: object) -> Result:
    return invoke(dcrec, *arguments)


def run_job(
    job: type[AnyJob], settings: Mapping[str, object], *options: str, code: int | None = 0, words: str = ""
) -> Outcome:
    """Run a job that has to end with ``code``, whatever it is if None, with these words in its error."""
    result = invoke(job_command("job", "The job.", job), *options_of(settings), *options)
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else "{}"
    error = json.loads(last) if last.startswith("{") else {"event": result.stderr}
    outcome = Outcome(result.exit_code, error, result.stdout, result.exception)
    assert code in (None, outcome.code), outcome
    assert words in outcome.message, outcome
    return outcome


def publish(job: type[AnyJob], settings: Mapping[str, object]) -> Path:
    run_job(job, settings)
    return run_directory(Path(str(settings["output.path"])))


def run_directory(output: Path) -> Path:
    return output / f"run_id={current_run_id(str(output))}"


def record_of(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / "run.json").read_text(encoding="utf-8")))


def failure_of(output: Path) -> dict[str, Any]:
    (run,) = (output / "failed").iterdir()
    return record_of(run)


def names_in(output: Path) -> set[str]:
    """What lies in the output directory, apart from the records of failed runs and the lock."""
    return {path.name for path in output.iterdir()} - {"failed", ".lock"} if output.exists() else set()


def read_table(run: Path, table: str) -> pd.DataFrame:
    return pd.read_parquet(run / table)


def lists_of(run: Path) -> pd.DataFrame:
    columns = ["user_id", "rank", "item_id", "score", "preference", "confounder"]
    return read_table(run, "recommendations")[columns].sort_values(columns[:2], ignore_index=True)


def assert_same_lists(run: Path, expected: Path, tolerance: float = 1e-8) -> None:
    pd.testing.assert_frame_equal(lists_of(run), lists_of(expected), rtol=tolerance)


def column_of_vectors(frame: pd.DataFrame, column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column of arrays as one matrix; fails where they differ in length."""
    return np.array(frame[column].tolist(), dtype=np.float64)
