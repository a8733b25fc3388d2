"""The examples in the docstrings of all public names run, in a session that the user made himself."""

import json
from pathlib import Path
from typing import Any

import pytest

import dcrec_spark
from tests.spark.standalone import run_plain

pytestmark = pytest.mark.documentation

NAMES = [name for name in dcrec_spark.__all__ if not name.startswith("__")]
# Two need a published run, the others are in the examples of what they return, or of what returns them.
WITHOUT = {"ListComposition", "current_run", "hold_out_exposures", "hold_out_users", "read_current"}
# What a user calls first has an example each.
FIRST = {
    "DeconfoundedMF": {"forCounts"},
    "DeconfoundedMFModel": {
        *("explain", "explainRecommendations", "extended", "factorTables", "fallbackTable", "foldInItems"),
        *("foldInUsers", "overlap", "predictIntervals", "predictParts", "recommendForAllUsers"),
        *("recommendationTable", "similarItems", "sureRecommendations"),
    },
}

# Examples know the session, the public names, those of their module, and a small model with its ratings. Those of a
# class are its own and its methods', also inherited ones.
PROGRAM = """
import doctest, io, json, sys
from pyspark.sql import SparkSession
import dcrec_spark

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
public = {name: getattr(dcrec_spark, name) for name in dcrec_spark.__all__}
rows = [(u, i, float((u * i) % 5 + 1)) for u in range(6) for i in range(6) if (u + i) % 3]
ratings = spark.createDataFrame(rows, "user int, item int, rating double").cache()
model = dcrec_spark.DeconfoundedMF(rank=2, exposureRank=2, regParam=1.0, maxIter=3).fit(ratings)
known = {**public, "spark": spark, "ratings": ratings, "model": model}
results, done = {}, set()
for name in json.loads(sys.argv[1]):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    output, shown = io.StringIO(), []
    family = getattr(public[name], "__mro__", [public[name]])
    for one in [one for one in family if one.__module__.startswith("dcrec_spark.")]:
        examples = doctest.DocTestFinder().find(one, name, globs={**vars(sys.modules[one.__module__]), **known})
        shown += [example.name.rpartition(".")[2] for example in examples if example.examples]
        for example in [] if one in done else examples:
            runner.run(example, out=output.write)
        done.add(one)
    results[name] = {"examples": runner.tries, "failures": output.getvalue(), "shown": shown}
with open("results.json", "w") as file:
    json.dump(results, file)
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Name -> how many lines its examples have, what went wrong with them, and which members have one."""
    scratch: Path = tmp_path_factory.mktemp("docstrings")
    run = run_plain(PROGRAM, json.dumps(NAMES), cwd=scratch)
    assert run.returncode == 0, run.stderr[-4000:]
    return dict(json.loads((scratch / "results.json").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_examples_that_run(results: dict[str, dict[str, Any]], name: str) -> None:
    assert results[name]["failures"] == ""
    assert (results[name]["examples"] == 0) == (name in WITHOUT)
    assert FIRST.get(name, set()) <= set(results[name]["shown"])
