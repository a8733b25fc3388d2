"""Another Spark than the pinned one, and Spark Connect: models go from one to the other; a run publishes to Iceberg.

``make test-spark`` names a Python with another Spark in DCREC_OTHER_PYTHON; else both are this one. A process each.
Connect needs grpcio-status, of the extra warehouse-test.
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
from tests.spark.standalone import DCREC, ROOT, finished, plain_environment

pytestmark = pytest.mark.process

HERE, OTHER = sys.executable, os.environ.get("DCREC_OTHER_PYTHON", sys.executable)
# Fits and saves models, or loads what was saved; where a fit is refused, its error stands for all answers. Prints them.
MODELS = """
import json, os, sys
from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, build_session, evaluate
from dcrec_spark.errors import ConfigError
step, folder, *exchanges = sys.argv[1:]
spark = build_session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
if "SPARK_REMOTE" not in os.environ:
    spark.sparkContext.setCheckpointDir(folder + "/checkpoints")
pairs = [(f"user {u}", i, float((u * i) % 5 + 1)) for u in range(30) for i in range(20) if (u + i) % 3]
ratings = spark.createDataFrame(pairs, "user string, item long, rating double")
new = spark.createDataFrame([("new", 1, 5.0), ("new", 2, 1.0)], ratings.schema)

def fit(exchange):
    where = {"exchange": exchange, "rank": 2, "maxIter": 3, "seed": 1, "numBlocks": 3, "precision": "float64"}
    return DeconfoundedMF(exposureModel=PoissonFactorization(**where), **where).fit(ratings)

def answers_of(model):
    predicted = model.transform(ratings)
    few = ratings.limit(5)
    return {
        "lists": sorted(map(list, model.recommendationTable(3).collect())),
        "predictions": sorted([row.user, row.item, row.prediction] for row in predicted.collect()),
        "all users": model.recommendForAllUsers(3).count(),
        "similar": sorted(map(list, model.similarItems(2).collect())),
        "explain": sorted(str(row) for row in model.explain(few, ratings).collect()),
        "intervals": sorted(str(row) for row in model.predictIntervals(few, ratings).collect()),
        "fold-in": [row.id for row in model.foldInUsers(new).collect()],
        "evaluate": str(evaluate(predicted, catalogue_size=20)),
    }

answers = {"session": type(spark).__module__}
for exchange in exchanges:
    try:
        if step == "save":
            fit(exchange).write().save(f"{folder}/{exchange}")
        answers[exchange] = answers_of(DeconfoundedMFModel.load(f"{folder}/{exchange}"))
    except ConfigError as error:
        answers[exchange] = str(error)
print(json.dumps(answers))
"""


def run_python(python: str, program: str, *arguments: object, **environment: str) -> str:
    run = finished(python, "-c", program, *arguments, env={**plain_environment(), **environment}, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


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
    """Where Iceberg has no runtime for this Spark, it says so, and publishes to Parquet alone."""
    blocks = {"engine.exchange": "blocks", "engine.num_blocks": 2, "spark.checkpoint_dir": tmp_path / "checkpoints"}
    settings = {**small_job(tmp_path, 24, 20), **blocks, "spark.master": "local-cluster[2,1,1024]"}
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
    }
    series = series_of(pyspark.__version__)
    has_runtime = series in series_with_runtime("iceberg")
    if has_runtime:
        (archive,) = fetch_jars(ROOT / "build" / "jars", ["iceberg"])
        conf["spark.jars"] = str(archive)
    iceberg = {"warehouses.iceberg": "lake.shop", "spark.conf": json.dumps(conf)}
    if not has_runtime:
        with pytest.raises(AssertionError, match=f"Iceberg has no runtime for Spark {series}"):
            run_python(HERE, DCREC[-1], "retrain", *options_of(settings | iceberg), "--dry-run")
        iceberg = {}
    assert "published" in run_python(HERE, DCREC[-1], "retrain", *options_of(settings | iceberg))
    verify(str(run_directory(tmp_path / "out")))
    runs = run_python(HERE, DCREC[-1], "runs", *options_of({"output.path": tmp_path / "out", **iceberg}))
    assert runs.count("current") == 1 + has_runtime, runs


CONNECT = {"SPARK_REMOTE": "local[2]"}
of_connect = pytest.mark.skipif(
    series_of(pyspark.__version__) == "3.5", reason="its server is an archive of its own, and has no Arrow tables"
)


@of_connect
def test_a_connect_session_keeps_the_contract_of_models() -> None:
    command = [HERE, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/models/test_contract.py"]
    done = finished(*command, cwd=ROOT, env={**plain_environment(), **CONNECT})
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout


@of_connect
def test_a_connect_session_says_what_a_classic_one_does(tmp_path: Path) -> None:
    connect = json.loads(run_python(HERE, MODELS, "save", tmp_path, "local", "blocks", **CONNECT).splitlines()[-1])
    classic = json.loads(run_python(HERE, MODELS, "load", tmp_path, "local").splitlines()[-1])
    assert (connect["session"], classic["session"]) == ("pyspark.sql.connect.session", "pyspark.sql.session")
    assert connect["local"] == classic["local"]
    assert len(classic["local"]["predictions"]) == 400
    assert "needs a classic session (spark-submit), and this is one of Spark Connect" in connect["blocks"]
