"""A user who may do little: no privileges, a home that is read-only, an output that is another's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.programs import ratings_in
from tests.faults.test_driver import RATINGS, SMALL
from tests.jobs.job import options_of, run_directory
from tests.spark.standalone import ROOT, plain_environment

pytestmark = pytest.mark.process

JOB = "from dcrec_spark.jobs.command import main; main()"
# Root without its privileges: what may not be written to by its mode may not be by root.
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


def retrain_in(folder: Path, output: Path) -> "subprocess.CompletedProcess[str]":
    home = folder / "home"
    home.mkdir(mode=0o555)
    settings = {**SMALL, "input.format": "csv", "input.path": ratings_in(folder, RATINGS), "output.path": output}
    return subprocess.run(
        [*UNPRIVILEGED, sys.executable, "-c", JOB, "retrain", *options_of(settings)],
        env={**plain_environment(), "HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_user_without_privileges_and_with_a_home_that_is_read_only_publishes(tmp_path: Path) -> None:
    finished = retrain_in(tmp_path, tmp_path / "out")
    assert finished.returncode == 0, finished.stderr[-5000:]
    assert (run_directory(tmp_path / "out") / "recommendations").is_dir()
    assert list((tmp_path / "home").iterdir()) == []


def test_an_output_that_only_others_may_write_to_ends_with_2_by_its_name(tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir(mode=0o555)
    finished = retrain_in(tmp_path, output)
    assert finished.returncode == 2, finished.stderr[-5000:]
    message = json.loads(finished.stderr.splitlines()[-1])["event"]
    assert message.startswith(f"output.path is '{output}', where this user can not write")
    assert list(output.iterdir()) == []
