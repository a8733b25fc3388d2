"""The main job as a process of its own, for what only a process has: signals and the code that it exits with."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from zlib import crc32

import pytest

from tests.jobs.job import (
    SMALL,
    assert_same_lists,
    failure_of,
    names_in,
    options_of,
    record_of,
    run_directory,
    small_job,
)
from tests.spark.standalone import ROOT, started, wait_until

DRAWN = [(u, i, crc32(f"{u},{i}".encode())) for u in range(200) for i in range(150)]
MANY_RATINGS = ["user,item,rating", *(f"{u},{i},{1 + h % 5}" for u, i, h in DRAWN if h % 3)]


pytestmark = pytest.mark.process


def job(settings: Mapping[str, object], log: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """``python jobs/retrain.py --set ...``, its log in a file."""
    command = [sys.executable, ROOT / "jobs" / "retrain.py", *options_of(settings)]
    return started(command, log, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_says_so_and_publishes_nothing(number: signal.Signals, tmp_path: Path) -> None:
    output, log, endless = tmp_path / "out", tmp_path / "log", {"exposure.max_iter": 1_000_000}
    with job({**small_job(tmp_path, 12, 10), **endless, "spark.master": "local[2]"}, log) as process:
        wait_until(lambda: '"iteration": 3' in log.read_text(), process, log, 400)
        process.send_signal(number)
        assert process.wait(timeout=240) == 6, log.read_text()

    record = failure_of(output)
    assert (record["status"], record["exit_code"]) == ("interrupted", 6)
    assert names_in(output) == set()
    assert "Traceback" not in log.read_text()
    assert "py4j" not in log.read_text()
    said = [json.loads(line) for line in log.read_text().splitlines() if line.startswith('{"')]
    assert (said[-1]["kind"], said[-1]["exit_code"]) == ("InterruptedRun", 6)
    assert said[-1]["event"].startswith(f"stopped by {number.name}; nothing was published")


# Stage 1 takes several times as long as the second after which it is kept.
LONG = {**SMALL, "exposure.max_iter": 3000, "exposure.rank": 8, "model.checkpoint_seconds": 1}
LONG |= {"engine.precision": "float64", "input.format": "csv", "spark.master": "local[2]"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Path]:
    """Settings of a fit that takes some seconds, and the run that nobody has stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "ratings.csv").write_text("\n".join(MANY_RATINGS), encoding="utf-8")
    settings = {**LONG, "input.path": folder / "ratings.csv"}
    with job({**settings, "model.checkpoint_seconds": 0, "output.path": folder / "out"}, folder / "log") as process:
        assert process.wait(timeout=400) == 0, (folder / "log").read_text()
    return settings, run_directory(folder / "out")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_run_that_ends_in_its_fit_goes_on_when_it_is_run_again_and_publishes_the_same(
    number: signal.Signals, undisturbed: tuple[dict[str, object], Path], tmp_path: Path
) -> None:
    output, log = tmp_path / "out", tmp_path / "log"
    settings = {**undisturbed[0], "output.path": output}
    with job(settings, log) as process:
        wait_until(lambda: list(output.glob(".fit-*/exposure-*")), process, log, 400)
        process.send_signal(number)
        process.wait(timeout=240)
    left = [path.name for path in output.glob(".fit-*/exposure-*")]
    assert left != []
    if number == signal.SIGTERM:
        said = json.loads([line for line in log.read_text().splitlines() if line.startswith('{"')][-1])["event"]
        last = max(left, key=lambda name: int(name.split("-")[1]))
        assert said.endswith(f"Run the same command again: it resumes from the checkpoint {last} of its fit")

    with job(settings, log) as process:
        assert process.wait(timeout=400) == 0, log.read_text()

    run = run_directory(output)
    record = record_of(run)
    assert [text for text in record["warnings"] if "exposure: resuming an interrupted run" in text] != []
    assert record["iterations"]["exposure"] == LONG["exposure.max_iter"]
    assert names_in(output) == {"CURRENT", run.name}
    assert_same_lists(run, undisturbed[1], 1e-6)


def test_a_password_in_the_address_of_the_input_is_nowhere(tmp_path: Path) -> None:
    output, log = tmp_path / "out", tmp_path / "log"
    source = "ftp://bob:hunter2@127.0.0.1:1/x.csv"
    settings = {"input.format": "csv", "input.path": source, "output.path": output, "spark.master": "local[1]"}
    with job(settings, log) as process:
        assert process.wait(timeout=400) == 8, log.read_text()

    last = json.loads(log.read_text().splitlines()[-1])
    assert "input csv 'ftp://bob:***@127.0.0.1:1/x.csv': Spark says: Connection refused" in last["event"]
    assert failure_of(output)["error"] == f"UnreachableError: {last['event']}"
    assert failure_of(output)["configuration"]["input"]["path"] == "ftp://bob:***@127.0.0.1:1/x.csv"
    assert [path for path in [log, *filter(Path.is_file, output.rglob("*"))] if b"hunter2" in path.read_bytes()] == []
