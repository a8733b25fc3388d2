"""A session of Spark Connect on loopback: all that a classic one says of a fit in one process, and what is refused.

Needs grpcio-status, of the extra warehouse-test.
"""

import json
from pathlib import Path

import pyspark
import pytest

from dcrec_spark.spark.compat import series_of
from tests.spark.standalone import ROOT, finished, plain_environment
from tests.spark.test_versions import HERE, MODELS, run_python

pytestmark = pytest.mark.process

CONNECT = {"SPARK_REMOTE": "local[2]"}


@pytest.fixture(autouse=True)
def supported() -> None:
    if series_of(pyspark.__version__) == "3.5":
        pytest.skip("its server is an archive of its own, and its sessions have no Arrow tables")


def test_a_connect_session_keeps_the_contract_of_models() -> None:
    """All of it, in one process."""
    command = [HERE, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/models/test_contract.py"]
    done = finished(*command, cwd=ROOT, env={**plain_environment(), **CONNECT})
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout


def test_a_connect_session_says_what_a_classic_one_does(tmp_path: Path) -> None:
    """Of a model that it has fitted and saved, which the classic session loads. Blocks are refused with a way out."""
    connect = json.loads(run_python(HERE, MODELS, "save", tmp_path, "local", "blocks", **CONNECT).splitlines()[-1])
    classic = json.loads(run_python(HERE, MODELS, "load", tmp_path, "local").splitlines()[-1])
    assert (connect["session"], classic["session"]) == ("pyspark.sql.connect.session", "pyspark.sql.session")
    assert connect["local"] == classic["local"]
    assert len(classic["local"]["predictions"]) == 400
    assert "needs a classic session (spark-submit), and this is one of Spark Connect" in connect["blocks"]
