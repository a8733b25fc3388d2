"""The driver, stopped and killed while it stages: the tables of before are served, and the next run is whole."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from dcrec_spark.publish.parquet import verify
from tests.faults.at_a_step import STEPS
from tests.jobs.job import WEIGHTED, failure_of, names_in, options_of, read_table, run_directory
from tests.publish.test_parquet import commit, run_that_is_read, stage_by_hand
from tests.spark.standalone import plain_environment

pytestmark = pytest.mark.process

RATINGS = ["user,item,rating", *(f"{u},{i},{1 + (u * i) % 5}" for u in range(40) for i in range(20) if (u + i) % 3)]
SMALL = {
    **WEIGHTED,
    "audit.exposure_check": "off",
    "exposure.max_iter": 3,
    "outcome.max_iter": 2,
    "recommend.top_n": 4,
    "spark.master": "local[2]",
}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("\n".join(RATINGS), encoding="utf-8")
    commit(stage_by_hand(tmp_path / "out", "old"), {})
    return {**SMALL, "input.format": "csv", "input.path": ratings, "output.path": tmp_path / "out"}


def is_writing_recommendations(output: Path) -> bool:
    """Whether a file of the recommendations is open, or was just now."""
    try:
        return any(output.glob(".staging-*/recommendations/_temporary/**/part-*.parquet"))
    except FileNotFoundError:  # a task ended, and its directory was renamed while it was looked into
        return False


@contextmanager
def staging(settings: Mapping[str, object], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a process group of its own, from when the first file of the recommendations is being written."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.slow_tables", "recommendations", "retrain", *options_of(settings)],
            env=plain_environment(),
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 400
            while not is_writing_recommendations(Path(str(settings["output.path"]))):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            yield process
        finally:
            process.kill()
            process.wait(timeout=60)


# What schedulers send and what a terminal does, to whom each of them sends it; the other two by make test-all.
@pytest.mark.parametrize(
    ("whom", "number"),
    [
        ("the driver", signal.SIGTERM),
        ("its process group", signal.SIGINT),
        pytest.param("the driver", signal.SIGINT, marks=pytest.mark.long),
        pytest.param("its process group", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_stopped_while_it_stages_says_what_it_has_left(
    whom: str, number: signal.Signals, settings: dict[str, object], tmp_path: Path
) -> None:
    """Schedulers stop a driver, terminals and service managers stop a process group, Spark's JVM with it."""
    output, log = tmp_path / "out", tmp_path / "log"
    with staging(settings, log) as process:
        (os.kill if whom == "the driver" else os.killpg)(process.pid, number)
        assert process.wait(timeout=240) == 6, log.read_text()

    last = json.loads([line for line in log.read_text().splitlines() if line.startswith('{"')][-1])
    assert last["event"] == (
        f"stopped by {number.name}; nothing was published: readers of {output} have run old, as before. "
        "Run the same command again: it starts from scratch"
    )
    assert failure_of(output)["status"] == "interrupted"
    assert run_that_is_read(output) == "old"
    assert names_in(output) == {"CURRENT", "run_id=old"}
    for trace in ("Traceback", "py4j", "\tat "):
        assert trace not in log.read_text()


def test_a_run_that_is_killed_while_it_stages_is_whole_when_it_is_run_again(
    settings: dict[str, object], tmp_path: Path
) -> None:
    output, log = tmp_path / "out", tmp_path / "log"
    with staging(settings, log) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
    assert run_that_is_read(output) == "old"
    assert list(output.glob(".staging-*")) != []

    with staging(settings, log) as process:
        assert process.wait(timeout=400) == 0, log.read_text()
    directory = run_directory(output)
    lists = read_table(directory, "recommendations")
    assert len(lists) == 40 * 4
    assert not lists.duplicated(["user_id", "rank"]).any()
    assert names_in(output) == {"CURRENT", "run_id=old", directory.name}


# Each takes a while: these are tried at every change, the others by make test-all.
AT_EVERY_CHANGE = {"commit", "verify"}
# Readers have the new run from its commit on.
BEFORE_READERS_HAVE_IT = list(STEPS)[: list(STEPS).index("commit") + 1]


def at_a_step(step: str, number: signal.Signals, settings: Mapping[str, object]) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.faults.at_a_step", step, number.name, "retrain", *options_of(settings)]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, timeout=400, check=False)


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step in AT_EVERY_CHANGE else pytest.mark.long) for step in STEPS]
)
def test_a_run_that_is_stopped_at_a_step_is_published_whole_or_not_at_all(
    step: str, settings: dict[str, object], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    stopped = at_a_step(step, signal.SIGTERM, settings)

    assert "Traceback" not in stopped.stderr
    if step in BEFORE_READERS_HAVE_IT:
        assert stopped.returncode == 6, stopped.stderr
        assert run_that_is_read(output) == "old"
        assert names_in(output) - {".checkpoints"} == {"CURRENT", "run_id=old"}
    else:
        assert stopped.returncode == 0, stopped.stderr
        verify(str(run_directory(output)))
        assert len(read_table(run_directory(output), "recommendations")) == 40 * 4
