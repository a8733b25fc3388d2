"""The examples in the docstrings of all public names run, in a session that the user made himself."""

import json
from pathlib import Path
from typing import Any

import pytest

import dcrec_spark
from tests.spark.standalone import run_plain

pytestmark = pytest.mark.documentation

NAMES = [name for name in dcrec_spark.__all__ if not name.startswith("__")]
# Functions without an example of their own; those of the tutorials use them. Every public class has one.
WITHOUT = {
    "current_run",
    "evaluate",
    "evaluate_ranking",
    "hold_out_exposures",
    "hold_out_users",
    "join_predictions",
    "read_current",
    "split_by_time",
    "split_pairs",
    "split_within_users",
}

# Examples know the session, the public names and those of their module. Those of a class are its own and its methods'.
PROGRAM = """
import doctest, io, json, sys
from pyspark.sql import SparkSession
import dcrec_spark

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
public = {name: getattr(dcrec_spark, name) for name in dcrec_spark.__all__}
results = {}
for name in json.loads(sys.argv[1]):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output = io.StringIO()
    module = vars(sys.modules[public[name].__module__])
    for example in doctest.DocTestFinder().find(public[name], name, globs={**module, **public, "spark": spark}):
        runner.run(example, out=output.write)
    results[name] = {"examples": runner.tries, "failures": output.getvalue()}
with open("results.json", "w") as file:
    json.dump(results, file)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Name -> how many lines its examples have, and what went wrong with them."""
    scratch: Path = tmp_path_factory.mktemp("docstrings")
    run = run_plain(PROGRAM, json.dumps(NAMES), cwd=scratch)
    assert run.returncode == 0, run.stderr[-4000:]
    return dict(json.loads((scratch / "results.json").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_public_name_run(results: dict[str, dict[str, Any]], name: str) -> None:
    assert results[name]["failures"] == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example(results: dict[str, dict[str, Any]], name: str) -> None:
    """Those listed as having none have none: the list shrinks with what is written."""
    assert (results[name]["examples"] == 0) == (name in WITHOUT)
