"""A user who may do little: no privileges, a home that is read-only, an output that is another's."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.test_driver import few_ratings
from tests.jobs.job import options_of, run_directory
from tests.spark.standalone import DCREC, finished, plain_environment

pytestmark = pytest.mark.process

# Root without its privileges: what may not be written to by its mode may not be by root.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


def retrain_in(folder: Path, output: Path) -> subprocess.CompletedProcess[str]:
    home = folder / "home"
    home.mkdir(mode=0o555)
    settings = {**few_ratings(folder), "output.path": output}
    environment = {**plain_environment(), "HOME": str(home)}
    return finished(*UNPRIVILEGED, *DCREC, "retrain", *options_of(settings), env=environment, cwd=home)


def test_a_user_without_privileges_and_with_a_home_that_is_read_only_publishes(tmp_path: Path) -> None:
    ended = retrain_in(tmp_path, tmp_path / "out")
    assert ended.returncode == 0, ended.stderr[-5000:]
    assert (run_directory(tmp_path / "out") / "recommendations").is_dir()
    assert list((tmp_path / "home").iterdir()) == []


def test_an_output_that_only_others_may_write_to_ends_with_2_by_its_name(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir(mode=0o555)
    ended = retrain_in(tmp_path, output)
    assert ended.returncode == 2, ended.stderr[-5000:]
    message = json.loads(ended.stderr.splitlines()[-1])["event"]
    assert message.startswith(f"output.path is '{output}', where this user can not write")
    assert list(output.iterdir()) == []
