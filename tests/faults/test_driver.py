"""The driver, stopped and killed while it stages: the tables of before are served, and the next run is whole."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from dcrec_spark.jobs import job, retrain
from dcrec_spark.jobs.command import main
from dcrec_spark.publish import parquet
from dcrec_spark.publish.parquet import ParquetSink, verify
from tests.jobs.job import failure_of, names_in, options_of, read_table, run_directory, small_job
from tests.publish.test_parquet import commit, run_that_is_read, stage_by_hand
from tests.spark.standalone import finished, plain_environment, started, wait_until
from tests.steps import at_first

pytestmark = pytest.mark.process


def few_ratings(folder: Path) -> dict[str, object]:
    """Settings of a job on the ratings of 40 users, which publishes to ``out`` in the folder."""
    return {**small_job(folder, 40, 20), "recommend.top_n": 4, "spark.master": "local[2]"}


# What a run calls as it begins a step, in the order of the steps. Readers have the new run from its commit on.
STEPS: dict[str, tuple[Any, str]] = {
    "after-validation": (retrain, "check_exposures"),
    "after-the-fit": (retrain, "note_catalogue"),
    "audit": (job, "audit_lists"),
    "commit": (ParquetSink, "commit"),
    "verify": (ParquetSink, "verify"),
    "after-the-commit": (job, "_prune"),
}
# Each takes a while: these are tried at every change, the others by make test-all.
AT_EVERY_CHANGE = {"commit", "verify"}


def slowly(table: str) -> Callable[..., int]:
    """Write tables so that the files of one are open for some seconds."""
    write = parquet.write_table

    def write_slowly(files: Any, path: str, rows: DataFrame, setting: str) -> int:
        if path.endswith(f"/{table}"):
            rows = rows.where("reflect('java.lang.Thread', 'sleep', 100L) is not null")
        return write(files, path, rows, setting)

    return write_slowly


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    commit(stage_by_hand(tmp_path / "out", "old"), {})
    return few_ratings(tmp_path)


def is_writing_recommendations(output: Path) -> bool:
    try:
        return any(output.glob(".staging-*/recommendations/_temporary/**/part-*.parquet"))
    except FileNotFoundError:  # a task ended, and its directory was renamed while it was looked into
        return False


@contextmanager
def staging(settings: Mapping[str, object], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a process group of its own, from when the first file of the recommendations is being written."""
    command = [sys.executable, "-m", __name__, "slowly", "recommendations", "retrain", *options_of(settings)]
    with started(command, log, start_new_session=True) as process:
        wait_until(lambda: is_writing_recommendations(Path(str(settings["output.path"]))), process, log, 400)
        yield process


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


def test_a_run_killed_while_it_stages_is_whole_when_run_again(settings: dict[str, object], tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step in AT_EVERY_CHANGE else pytest.mark.long) for step in STEPS]
)
def test_a_run_stopped_at_a_step_is_whole_or_not_there(step: str, settings: dict[str, object], tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-m", __name__, step, "SIGTERM", "retrain", *options_of(settings)]
    stopped = finished(*command, env=plain_environment())

    assert "Traceback" not in stopped.stderr
    if step in ("verify", "after-the-commit"):
        assert stopped.returncode == 0, stopped.stderr
        verify(str(run_directory(output)))
        assert len(read_table(run_directory(output), "recommendations")) == 40 * 4
    else:
        assert stopped.returncode == 6, stopped.stderr
        assert run_that_is_read(output) == "old"
        assert names_in(output) - {".checkpoints"} == {"CURRENT", "run_id=old"}


if __name__ == "__main__":
    what, how = sys.argv.pop(1), sys.argv.pop(1)
    if what == "slowly":
        parquet.write_table = slowly(how)
    else:
        at_first(pytest.MonkeyPatch(), *STEPS[what], partial(os.kill, os.getpid(), signal.Signals[how]))
    main()


NOTEBOOK = """
import os, signal, threading
from dcrec_spark import DeconfoundedMF, build_session

def stop_soon(stage, iteration, objective):
    if (stage, iteration) == ("outcome", 1):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

spark = build_session(master="local[2]")
rows = [(user, item, float(user * item % 5 + 1)) for user in range(40) for item in range(30) if (user + item) % 3]
ratings = spark.createDataFrame(rows, "user int, item int, rating double")
estimator = DeconfoundedMF(rank=2, exposureRank=2, maxIter=500, tol=0.0, exchange="blocks", numBlocks=2)
estimator.listener = stop_soon
try:
    estimator.fit(ratings)
except KeyboardInterrupt:
    print("stopped", spark.range(5).count(), flush=True)
"""


def test_ctrl_c_in_a_notebook_stops_a_fit_over_blocks_and_says_no_more() -> None:
    run = finished(sys.executable, "-c", NOTEBOOK, env=plain_environment())
    assert run.stdout == "stopped 5\n", run.stderr
    assert "Traceback" not in run.stderr
