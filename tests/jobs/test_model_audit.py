"""A model beside the last one and the most rated items, on ratings that no fit was given."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tests.jobs.job import SMALL, failure_of, read_table, record_of, run_directory, run_retrain

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def ratings() -> pd.DataFrame:
    """Six tastes, and items of each: a model that learns them beats a list for everybody, and needs as many factors."""
    rng = np.random.default_rng(5)
    rows = []
    for user in range(100):
        for item in rng.choice(60, 24, replace=False):
            rows.append((user, int(item), 5.0 if (user + item) % 6 == 0 else 1.0))
    return pd.DataFrame(rows, columns=["user", "item", "rating"])


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("audit")
    ratings().to_parquet(folder / "ratings.parquet")
    return {
        **SMALL,
        "outcome.rank": 6,
        "outcome.max_iter": 10,
        "outcome.alpha": 1,
        "input.path": folder / "ratings.parquet",
        "output.path": folder / "out",
        "audit.held_out_share": 0.2,
        "audit.metric": "recall",
        "audit.relevant_from": 4,
    }


def test_a_model_is_held_against_the_last_one_and_refused_where_it_is_worse(
    spark: SparkSession, settings: dict[str, Any]
) -> None:
    output = settings["output.path"]
    outcome = run_retrain(settings)
    assert outcome.code == 0, outcome
    first = run_directory(output)
    record = record_of(first)
    n = len(ratings())
    assert 0.1 * n < record["counts"]["held_out"] < 0.3 * n
    (verdict,) = record["audit"]["verdicts"]
    assert verdict["check"] == "max_below_popularity"
    assert verdict["passed"]
    assert verdict["found"] < 0
    assert verdict["low"] < verdict["found"] < verdict["high"]
    # What no fit was given is no recommendation either.
    lists, given = read_table(first, "recommendations"), ratings()
    assert not set(zip(lists.user_id, lists.item_id, strict=True)) & set(zip(given.user, given.item, strict=True))

    # One factor, and all pairs alike: it cannot tell six tastes.
    worse = {**settings, "outcome.rank": 1, "outcome.alpha": 0, "audit.max_below_popularity": "null"}
    outcome = run_retrain({**worse, "audit.floor": 0.95})
    assert outcome.code == 4
    assert "of the last model" in outcome.message
    assert "below (setting audit.max_loss=0.1)" in outcome.message
    assert "(setting audit.floor=0.95)" in outcome.message
    assert run_directory(output) == first
    failed = failure_of(output)["audit"]
    assert set(failed["compared"]["models"]) == {"this model", "last model", "popularity"}
    assert [(verdict["check"], verdict["passed"]) for verdict in failed["verdicts"]] == [
        ("floor", False),
        ("max_loss", False),
    ]


def test_the_same_pairs_are_held_out_whatever_the_seed(settings: dict[str, Any]) -> None:
    outcome = run_retrain({**settings, "run.seed": 9, "audit.max_loss": 1})
    assert outcome.code == 0, outcome
    record = record_of(run_directory(settings["output.path"]))
    assert record["counts"]["compared"] == record["counts"]["held_out"]
    checks = [verdict["check"] for verdict in record["audit"]["verdicts"]]
    assert checks == ["max_loss", "max_below_popularity"]
