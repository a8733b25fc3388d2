"""A few runs of ``make soak``: nothing but the published runs stays from one to the next."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak import ALLOWED, rated
from tests.spark.standalone import ROOT, finished, plain_environment

MEMORY = {"python_mb", "jvm_heap_mb"}


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("options", [["--runs", "6"], ["--runs", "2", "--own-processes"]], ids=" ".join)
def test_run_after_run_only_published_runs_are_more(options: list[str], tmp_path: Path, record_property: Any) -> None:
    """Of so few runs memory says little: it may grow ten times as fast as in fifty.

    What Java has taken of the machine for its heap says nothing yet. What lives in the heap is judged.
    """
    command = [sys.executable, "-m", "benchmarks.soak", *options, "--out", tmp_path / "out"]
    run = finished(*command, env=plain_environment(), cwd=ROOT, seconds=800)
    assert (tmp_path / "out").exists(), run.stderr[-10_000:]
    soaked = json.loads((tmp_path / "out").read_text(encoding="utf-8"))
    record_property("tried", soaked["runs"])
    loose = {name: ALLOWED[name] * (10 if name in MEMORY else 1) for name in ALLOWED} | {"jvm_mb": math.inf}
    assert {name: rate for name, rate in soaked["growth"].items() if rate > loose[name]} == {}
    assert soaked["users"] == len({user for user, _ in rated(soaked["runs"] - 1)})
