"""Disks that are really full: exit 7, nothing published, the tables of before served; and on when there is room."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dcrec_spark.publish.parquet import ParquetSink
from tests.faults.test_driver import few_ratings
from tests.jobs.job import names_in, run_retrain
from tests.publish.test_parquet import commit, run_that_is_read, stage_by_hand
from tests.spark.standalone import tell, told
from tests.steps import at_first

pytestmark = pytest.mark.process

SIZE, PAGE = 2**20, 4096


def on_a_small(which: str, folder: Path) -> dict[str, Any]:
    """What this module says as a program, in a mount namespace of its own: its small tmpfs goes with it."""
    return told(__name__, folder, which, prefix=["unshare", "--map-root-user", "--mount"])


def assert_refused(run: dict[str, Any], code: int, *parts: str) -> None:
    assert (run["code"], run["read"]) == (code, "old"), run
    for part in parts:
        assert re.search(part, run["message"])
    assert {"CURRENT", "run_id=old"} <= set(run["names"])
    assert [name for name in run["names"] if name.startswith((".staging", ".tmp"))] == []


@pytest.fixture(scope="module")
def on_a_small_output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return on_a_small("output", tmp_path_factory.mktemp("output"))


@pytest.mark.parametrize("when", ["staging", "checkpointing"])
def test_a_full_output_ends_with_7_and_keeps_the_tables_of_before(when: str, on_a_small_output: dict[str, Any]) -> None:
    run = on_a_small_output[when]
    assert_refused(run, 7, r"^a disk is full \(", "No space left on device", r"output\.path /", r"\(0 MB free\)")
    assert ("a disk is full (in the checkpoint exposure-" in run["message"]) == (when == "checkpointing")


def test_a_read_only_output_is_refused_before_anything_is_fitted(on_a_small_output: dict[str, Any]) -> None:
    assert_refused(on_a_small_output["read-only"], 2, "^output.path is '/", "Read-only file system")


def test_the_same_command_publishes_when_there_is_room(on_a_small_output: dict[str, Any]) -> None:
    run = on_a_small_output["room again"]
    assert run["code"] == 0, run
    assert len(run["names"]) == 3
    assert run["names"][:1] == ["CURRENT"]


@pytest.fixture(scope="module")
def on_a_small_scratch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return on_a_small("scratch", tmp_path_factory.mktemp("scratch"))


@pytest.mark.parametrize("when", ["staging", "from the start"])
def test_a_full_local_directory_of_spark_ends_with_7(when: str, on_a_small_scratch: dict[str, Any]) -> None:
    assert_refused(on_a_small_scratch[when], 7, r"spark\.local\.dir /\S+/scratch \(0 MB free\)")
    assert on_a_small_scratch[when]["names"] == ["CURRENT", "run_id=old"]


def mounted(disk: Path, size: int = SIZE) -> Path:
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", disk], check=True)
    return disk


def read_only(disk: Path, place: Path) -> Path:
    """Mount a disk a second time, for reading; the first time stays as it is."""
    place.mkdir()
    subprocess.run(["mount", "--bind", disk, place], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
    return place


def fill(disk: Path, pages_left: int) -> Path:
    """Fill a disk but for so many pages; returns the file that does."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(PAGE)):
                pass
        except OSError:
            stream.truncate((stream.tell() // PAGE - pages_left) * PAGE)
    return filler


def run(settings: dict[str, object], output: Path) -> dict[str, Any]:
    outcome = run_retrain({**settings, "output.path": output}, code=None)
    return {
        "code": outcome.code,
        "message": outcome.message,
        "names": sorted(names_in(output) - {"filler"}),
        "read": run_that_is_read(output) if (output / "run_id=old").exists() and outcome.code else None,
    }


def full_output(settings: dict[str, object], folder: Path) -> dict[str, Any]:
    disk = mounted(folder / "disk")
    commit(stage_by_hand(disk, "old"), {})
    result, filler = {}, fill(disk, 8)
    result["staging"] = run({**settings, "model.checkpoint_seconds": 0}, disk)
    filler.unlink()
    filler = fill(disk, 3)
    result["checkpointing"] = run({**settings, "model.checkpoint_seconds": 1}, disk)
    filler.unlink()
    result["read-only"] = run(settings, read_only(disk, folder / "read-only"))
    result["room again"] = run(settings, disk)
    return result


def full_scratch(settings: dict[str, object], folder: Path) -> dict[str, Any]:
    scratch, output = mounted(folder / "scratch", 32 * SIZE), folder / "out"
    commit(stage_by_hand(output, "old"), {})
    given = {**settings, "model.checkpoint_seconds": 0, "spark.conf.spark.local.dir": scratch}
    with pytest.MonkeyPatch.context() as patch:
        at_first(patch, ParquetSink, "stage", lambda: fill(scratch, 0))
        result = {"staging": run(given, output)}
    return {**result, "from the start": run(given, output)}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    tell({"output": full_output, "scratch": full_scratch}[sys.argv[2]](few_ratings(place), place))
