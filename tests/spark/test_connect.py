"""A session of Spark Connect on loopback: all that a classic one says of a fit in one process, and what is refused.

Needs grpcio-status, of the extra warehouse-test.
"""

import json
import subprocess
from pathlib import Path

import pyspark
import pytest

from dcrec_spark.spark.compat import series_of
from tests.spark.standalone import ROOT, plain_environment
from tests.spark.test_versions import HERE, run_python

pytestmark = pytest.mark.process

# Fits and saves, or loads what was saved. Prints everything that the model says.
ANSWERS = """
import json, sys
from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, build_session, evaluate
from dcrec_spark.errors import ConfigError
step, place = sys.argv[1:]
spark = build_session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
pairs = [(f"user {u}", i, float((u * i) % 5 + 1)) for u in range(30) for i in range(20) if (u + i) % 3]
ratings = spark.createDataFrame(pairs, "user string, item long, rating double")
new = spark.createDataFrame([("new", 1, 5.0), ("new", 2, 1.0)], ratings.schema)
def estimator(exchange):
    where = {"exchange": exchange, "rank": 2, "maxIter": 3, "seed": 1}
    return DeconfoundedMF(exposureModel=PoissonFactorization(**where), **where)
answers = {}
refused = "no"
if step == "fit":
    model = estimator("local").fit(ratings)
    model.write().save(place)
    try:
        estimator("blocks").fit(ratings)
    except ConfigError as error:
        refused = str(error)
model = DeconfoundedMFModel.load(place)
predicted = model.transform(ratings)
answers["transform"] = sorted(map(list, predicted.collect()))
answers["lists"] = sorted(map(list, model.recommendationTable(3).collect()))
answers["all users"] = model.recommendForAllUsers(3).count()
answers["similar"] = sorted(map(list, model.similarItems(2).collect()))
explained = model.explain(ratings.limit(5), ratings)
answers["explain"] = sorted(str(row) for row in explained.collect())
answers["intervals"] = sorted(str(row) for row in model.predictIntervals(ratings.limit(5), ratings).collect())
answers["fold-in"] = [row.id for row in model.foldInUsers(new).collect()]
answers["evaluate"] = str(evaluate(predicted, catalogue_size=20))
print(json.dumps({"session": type(spark).__module__, "refused": refused, "answers": answers}))
"""


@pytest.fixture(autouse=True)
def supported() -> None:
    if series_of(pyspark.__version__) == "3.5":
        pytest.skip("its server is an archive of its own, and its sessions have no Arrow tables")


def test_a_connect_session_keeps_the_contract_of_models() -> None:
    """All of it, in one process."""
    command = [HERE, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/models/test_contract.py"]
    environment = {**plain_environment(), "SPARK_REMOTE": "local[2]"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout


def test_a_connect_session_says_what_a_classic_one_does(tmp_path: Path) -> None:
    """Of a model that it has fitted and saved, which the classic session loads. Blocks are refused with a way out."""
    connect, classic = (
        json.loads(run_python(HERE, f"import os\n{environment}\n{ANSWERS}", step, tmp_path / "model").splitlines()[-1])
        for step, environment in (("fit", "os.environ['SPARK_REMOTE'] = 'local[2]'"), ("load", ""))
    )
    assert (connect["session"], classic["session"]) == ("pyspark.sql.connect.session", "pyspark.sql.session")
    assert connect["answers"] == classic["answers"]
    assert len(classic["answers"]["transform"]) == 400
    assert "needs a classic session (spark-submit), and this is one of Spark Connect" in connect["refused"]
