"""The main job on disks that are full or read-only: tmpfs of some hundred kilobytes, mounted for this process alone.

    unshare --map-root-user --mount python -m tests.faults.on_small_disks FOLDER output
    unshare --map-root-user --mount python -m tests.faults.on_small_disks FOLDER scratch

The first has its output on such a disk, the second Spark's local directory. The last line of standard output says how
each run ended and what it left.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.test_driver import SMALL
from tests.jobs.job import names_in, run_retrain
from tests.publish.test_parquet import commit, run_that_is_read, stage_by_hand

SIZE = 2**20
PAGE = 4096


def mounted(disk: Path) -> Path:
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "small", disk], check=True)
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
    outcome = run_retrain(settings)
    return {
        "code": outcome.code,
        "message": outcome.message,
        "names": sorted(names_in(output) - {"filler"}),
        "read": run_that_is_read(output) if (output / "run_id=old").exists() and outcome.code else None,
    }


def full_output(settings: dict[str, object], folder: Path) -> dict[str, Any]:
    """Full while it stages, and while it keeps a sweep of its fit; with room again; read-only."""
    disk = mounted(folder / "disk")
    commit(stage_by_hand(disk, "old"), {})
    settings |= {"output.path": disk}
    result, filler = {}, fill(disk, 8)
    result["staging"] = run({**settings, "model.checkpoint_seconds": 0}, disk)
    filler.unlink()
    filler = fill(disk, 3)
    result["checkpointing"] = run({**settings, "model.checkpoint_seconds": 1}, disk)
    filler.unlink()
    locked = read_only(disk, folder / "read-only")
    result["read-only"] = run({**settings, "output.path": locked}, locked)
    result["room again"] = run(settings, disk)
    return result


def full_scratch(settings: dict[str, object], folder: Path) -> dict[str, Any]:
    """No room where Spark spills and shuffles."""
    scratch, output = mounted(folder / "scratch"), folder / "out"
    commit(stage_by_hand(output, "old"), {})
    fill(scratch, 3)
    return {"scratch": run({**settings, "spark.conf.spark.local.dir": scratch, "output.path": output}, output)}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    common = {**SMALL, "input.format": "csv", "input.path": place / "ratings.csv"}
    told = {"output": full_output, "scratch": full_scratch}[sys.argv[2]](common, place)
    sys.stdout.write(f"{json.dumps(told)}\n")
