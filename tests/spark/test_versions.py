"""Another Spark than the pinned one: models go from one to the other, and a run publishes to Iceberg.

``make test-spark`` names a Python with another Spark in DCREC_OTHER_PYTHON; else both are this one. A process each.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyspark
import pytest

from dcrec_spark.publish.parquet import verify
from dcrec_spark.spark.compat import series_of
from dcrec_spark.spark.jars import fetch_jars, series_with_runtime
from tests.jobs.job import options_of, run_directory, small_job
from tests.spark.fits import MODELS, run_python
from tests.spark.standalone import DCREC, ROOT

pytestmark = pytest.mark.process

SERIES = series_of(pyspark.__version__)
HAS_ICEBERG = SERIES in series_with_runtime("iceberg")
HERE, OTHER = sys.executable, os.environ.get("DCREC_OTHER_PYTHON", sys.executable)


@pytest.mark.parametrize(("saves", "loads"), [(HERE, OTHER), (OTHER, HERE)], ids=["to the other", "from the other"])
def test_a_model_saved_by_one_spark_is_loaded_by_another(saves: str, loads: str, tmp_path: Path) -> None:
    saved = json.loads(run_python(saves, MODELS, "save", tmp_path, "local", "blocks"))
    assert json.loads(run_python(loads, MODELS, "load", tmp_path, "local", "blocks")) == saved
    places = saved["local"], saved["blocks"]
    lists, predicted = ([[row[2] for row in one[what]] for one in places] for what in ("lists", "predictions"))
    assert lists[0] == lists[1]
    np.testing.assert_allclose(*predicted, rtol=1e-8)
    assert (len(lists[0]), len(predicted[0])) == (90, 400)


def test_a_run_on_executors_publishes_to_parquet_and_iceberg(tmp_path: Path) -> None:
    assert publish_on_executors(tmp_path).count("current") == 1 + HAS_ICEBERG


def publish_on_executors(tmp_path: Path, **environment: str) -> str:
    """Publish a run to Parquet and Iceberg, and list the runs of both places.

    Where Iceberg has no runtime for this Spark, a dry run must say so, and Parquet is the only place.
    """
    blocks = {"engine.exchange": "blocks", "engine.num_blocks": 2, "spark.checkpoint_dir": tmp_path / "checkpoints"}
    settings = {**small_job(tmp_path, 24, 20), **blocks, "spark.master": "local-cluster[2,1,1024]"}
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
    }
    if HAS_ICEBERG:
        (archive,) = fetch_jars(ROOT / "build" / "jars", ["iceberg"])
        conf["spark.jars"] = str(archive)
    iceberg = {"warehouses.iceberg": "lake.shop", "spark.conf": json.dumps(conf)}
    if not HAS_ICEBERG:
        with pytest.raises(AssertionError, match=f"Iceberg has no runtime for Spark {SERIES}"):
            run_python(HERE, DCREC[-1], "retrain", *options_of(settings | iceberg), "--dry-run", **environment)
        iceberg = {}
    assert "published" in run_python(HERE, DCREC[-1], "retrain", *options_of(settings | iceberg), **environment)
    verify(str(run_directory(tmp_path / "out")))
    return run_python(HERE, DCREC[-1], "runs", *options_of({"output.path": tmp_path / "out", **iceberg}), **environment)
