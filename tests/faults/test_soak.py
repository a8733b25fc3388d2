"""A few of the nights of ``make soak``: nothing but the runs themselves stays from night to night."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak import ALLOWED, grown, rated, too_much
from tests.spark.standalone import ROOT

MEMORY = {"python_mb", "jvm_mb", "jvm_heap_mb"}
NIGHTS = {"one process": 6, "own processes": 2}


@pytest.fixture
def soaked(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What the script writes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    options = ["--own-processes"] if request.param == "own processes" else []
    nights = str(NIGHTS[request.param])
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--nights", nights, "--out", tmp_path / "out", *options],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert (tmp_path / "out").exists(), finished.stderr[-10_000:]
    result: dict[str, Any] = json.loads((tmp_path / "out").read_text(encoding="utf-8"))
    return result


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize("soaked", NIGHTS, indirect=True)
def test_night_after_night_only_the_runs_are_more(
    soaked: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    """Of so few nights memory says little: it may grow ten times as fast as in fifty."""
    record_property("tried", soaked["nights"])
    loose = {name: ALLOWED[name] * (10 if name in MEMORY else 1) for name in ALLOWED}
    assert {name: rate for name, rate in soaked["growth"].items() if rate > loose[name]} == {}
    assert soaked["users"] == len({user for user, _ in rated(soaked["nights"] - 1)})


def test_what_grows_is_found_and_what_varies_is_not() -> None:
    leaking = [{"open_files": 20.0 + night, "python_mb": 300.0 + night % 3} for night in range(12)]
    growth = grown(leaking)
    assert growth["open_files"] == 1.0
    assert too_much(growth) == ["open_files grew by 1 a night, allowed 0.1"]
    warming = [{"spark_blocks": min(night, 4)} for night in range(12)]
    assert too_much(grown(warming)) == []
