"""A wrong setting ends a job with exit code 2, before Spark starts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_number_that_no_fit_could_use_is_refused_by_name() -> None:
    """The estimators refuse it too; a job says so in the words of its configuration."""
    job = [sys.executable, str(ROOT / "jobs" / "retrain.py"), "--dry-run", "--set", "outcome.weight_cap=0.5"]
    ended = subprocess.run(job, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "setting outcome.weight_cap: found 0.5, expected a number >= 1" in ended.stderr
    assert "Traceback" not in ended.stderr
