"""A wrong setting ends a job with exit code 2, before Spark starts."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_prior_that_no_fit_could_use_is_refused_by_name() -> None:
    """The estimators refuse it too; a job says so in the words of its configuration."""
    job = [sys.executable, str(ROOT / "jobs" / "retrain.py"), "--dry-run", "--set", "exposure.user_shape_prior=0.001"]
    ended = subprocess.run(job, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "setting exposure.user_shape_prior: found 0.001, expected a number >= 0.01" in ended.stderr
    assert "Traceback" not in ended.stderr
