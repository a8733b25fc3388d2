"""Python workers: what they have to have, said in one sentence, and what they leave alone."""

import importlib
import json
import re
import sys
import venv
import zipfile
import zipimport
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy
import threadpoolctl
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import dcrec_spark
from dcrec_spark import __version__
from dcrec_spark.errors import ConfigError
from dcrec_spark.spark import preflight, worker
from dcrec_spark.spark.preflight import require_workers
from tests.spark.standalone import run_plain

# As a user would write it, in an environment that is not activated: the workers run another Python.
FIT = """
from pyspark.sql import SparkSession
from dcrec_spark import DeconfoundedMF
from dcrec_spark.errors import ConfigError

spark = SparkSession.builder.master("local[1]").getOrCreate()
pairs = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0)]
ratings = spark.createDataFrame([(u, i, 1.0 + u + i) for u, i in pairs], "user int, item int, rating double")
model = DeconfoundedMF(rank=1, exposureRank=1).fit(ratings)
print(model.recommendForAllUsers(1).count(), model.foldInUsers(ratings).count())
try:
    DeconfoundedMF(rank=1, exposureRank=1, exchange="blocks").fit(ratings)
except ConfigError as error:
    print(error)
"""

VERSIONS = {
    **{"python": "/workers/python", "home": "/workers/dcrec_spark", "missing": {}, "dcrec_spark": __version__},
    **{module.__name__: module.__version__ for module in (np, pd, pa, scipy, threadpoolctl)},
}


@pytest.mark.process
def test_a_fit_names_the_workers_python_what_it_lacks_and_what_to_set(tmp_path: Path) -> None:
    """One that needs workers: what is done in the driver's process asks nothing of them."""
    venv.create(tmp_path / "bare", symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    run = run_plain(FIT, cwd=tmp_path, python=bare)
    assert run.returncode == 0, run.stderr
    counts, sentence = run.stdout.splitlines()
    assert counts == "3 3"
    assert sentence.startswith(f"Python workers cannot run dcrec-spark: they run {bare}, which cannot import numpy")
    assert re.search(
        r"set the environment variable PYSPARK_PYTHON=.* before the .* starts.*build_session\(\)", sentence
    )
    assert "Traceback" not in run.stderr


def jobs_so_far(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


def test_a_session_that_passed_is_not_asked_again(spark: SparkSession) -> None:
    said = require_workers(spark)
    before = jobs_so_far(spark)
    assert require_workers(spark) == said
    assert said == f"{sys.executable} with dcrec-spark {__version__} from {Path(dcrec_spark.__file__).parent}"
    assert jobs_so_far(spark) == before


def test_the_probe_runs_where_this_package_is_missing() -> None:
    report = json.loads(preflight._probe()("numpy no_such_package nor_this scipy"))
    assert (report["numpy"], report["scipy"]) == (np.__version__, scipy.__version__)
    assert report["missing"] == {name: f"No module named '{name}'" for name in ("no_such_package", "nor_this")}


def test_another_version_of_what_the_package_needs_is_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    assert preflight._difference(VERSIONS) is None
    assert caplog.text == ""
    assert preflight._difference({**VERSIONS, "pyarrow": "1.2.3"}) is None
    assert f"Python workers have pyarrow 1.2.3, and the driver has {pa.__version__}" in caplog.text


OF_3_9 = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"missing": {"everything": "it is not there"}}, "they run /workers/python, which cannot import everything "),
        ({"dcrec_spark": "0.0.1"}, "they run /workers/python with dcrec-spark 0.0.1 from /workers/"),
        (OF_3_9, "they run Python 3.9 (python3), and the driver has Python 3.11"),
        ("/usr/bin/python3: No module named pyspark", "they run python3, which cannot import pyspark"),
        ('java.io.IOException: Cannot run program "python3": error=2', "python3 cannot be started"),
    ],
)
@pytest.mark.parametrize(
    ("master", "words"),
    [("local[2]", "PYSPARK_PYTHON="), ("spark://host:7077", "--archives build/environment.tar.gz#environment")],
)
def test_workers_that_cannot_run_the_package_are_refused_with_what_to_set(
    found: dict[str, object] | str, problem: str, master: str, words: str
) -> None:
    session = MagicMock(conf={}, sparkContext=MagicMock(master=master, pythonExec="python3"))
    task = session.range.return_value.select.return_value.collect
    if isinstance(found, str):
        task.side_effect = PySparkException(found)
    else:
        task.return_value = [[json.dumps({**VERSIONS, **found})]]
    with pytest.raises(ConfigError) as refused:
        require_workers(session)
    said = str(refused.value)
    assert said.startswith(f"Python workers cannot run dcrec-spark: {problem}")
    assert words in said


def archive(path: Path, *modules: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for module in modules:
            file.writestr(f"{module}.py", f"name = {module!r}")
    return path


def test_a_changed_archive_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", worker.reread_if_changed)
    monkeypatch.syspath_prepend(str(archive(tmp_path / "modules.zip", "first_of_zip")))
    assert importlib.import_module("first_of_zip").name == "first_of_zip"
    archive(tmp_path / "modules.zip", "first_of_zip", "second_of_zip")
    importlib.invalidate_caches()
    assert importlib.import_module("second_of_zip").name == "second_of_zip"
