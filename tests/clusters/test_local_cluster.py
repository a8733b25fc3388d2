"""One nightly run on executors in processes of their own."""

import sys
from pathlib import Path

import pytest

from dcrec_spark.publish.parquet import verify
from tests.clusters.conftest import RATINGS, USERS
from tests.jobs.job import SMALL, options_of, read_table, record_of, run_directory
from tests.spark.standalone import ROOT, run, spark_home

pytestmark = pytest.mark.cluster


def test_a_nightly_run_over_blocks_publishes_from_a_local_cluster(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("\n".join(RATINGS), encoding="utf-8")
    settings = {
        **SMALL,
        "input.path": tmp_path / "ratings.csv",
        "input.format": "csv",
        "output.path": tmp_path / "out",
        "engine.exchange": "blocks",
        "spark.master": "local-cluster[2,1,1024]",
        "spark.checkpoint_dir": tmp_path / "checkpoints",
    }
    finished = run([sys.executable, ROOT / "jobs" / "retrain.py", *options_of(settings)], spark_home(tmp_path))

    assert finished.returncode == 0, finished.stderr
    directory = run_directory(tmp_path / "out")
    verify(str(directory))
    assert record_of(directory)["counts"]["users"] == USERS
    assert len(read_table(directory, "recommendations")) == USERS * SMALL["recommend.top_n"]
