"""Disks that are really full: exit 7, nothing published, the tables of before served; and on when there is room."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults import programs
from tests.faults.test_driver import RATINGS

pytestmark = pytest.mark.process


def told(folder: Path, which: str) -> dict[str, Any]:
    """What the program says, in a mount namespace of its own: what is mounted there goes with it."""
    (folder / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    program = ["tests.faults.on_small_disks", folder, which]
    return programs.told(["unshare", "--map-root-user", "--mount", sys.executable, "-m", *program])


@pytest.fixture(scope="module")
def on_a_small_output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told(tmp_path_factory.mktemp("output"), "output")


@pytest.mark.parametrize("when", ["staging", "checkpointing"])
def test_a_full_output_ends_with_7_and_keeps_the_tables_of_before(when: str, on_a_small_output: dict[str, Any]) -> None:
    """The message says so where it was a checkpoint of the fit that had no room."""
    run = on_a_small_output[when]
    assert run["code"] == 7, run
    assert run["message"].startswith("a disk is full (")
    assert "No space left on device" in run["message"]
    assert ("a disk is full (in the checkpoint exposure-" in run["message"]) == (when == "checkpointing")
    assert "output.path /" in run["message"]
    assert "(0 MB free)" in run["message"]
    assert run["read"] == "old"
    assert {"CURRENT", "run_id=old"} <= set(run["names"])
    assert [name for name in run["names"] if name.startswith((".staging", ".tmp"))] == []


def test_a_read_only_output_is_refused_before_anything_is_fitted(on_a_small_output: dict[str, Any]) -> None:
    run = on_a_small_output["read-only"]
    assert run["code"] == 2, run
    assert run["message"].startswith("output.path is '/")
    assert "Read-only file system" in run["message"]
    assert run["read"] == "old"


def test_the_same_command_publishes_when_there_is_room(on_a_small_output: dict[str, Any]) -> None:
    run = on_a_small_output["room again"]
    assert run["code"] == 0, run
    assert len(run["names"]) == 3
    assert run["names"][:1] == ["CURRENT"]


def test_a_full_local_directory_of_spark_ends_with_7(tmp_path: Path) -> None:
    run = told(tmp_path, "scratch")["scratch"]
    assert run["code"] == 7, run
    assert f"spark.local.dir {tmp_path}/scratch (0 MB free)" in run["message"]
    assert run["names"] == ["CURRENT", "run_id=old"]
    assert run["read"] == "old"
