"""jobs/simulate.py: the simulated data set as published tables, the same for the same seed."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.parquet import verify
from studies.simulate import Simulate
from tests.jobs.job import read_table, record_of, run_directory, run_job

SIZES = {"simulation.n_users": 60, "simulation.n_items": 40, "simulation.n_factors": 4, "run.seed": 7}

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def simulated(output: Path, **more: Any) -> Path:
    outcome = run_job(Simulate, {**SIZES, **more, "output.path": output})
    assert outcome.code == 0, outcome
    assert "60 users x 40 items" in outcome.printed
    return run_directory(output)


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of one data set."""
    return simulated(tmp_path_factory.mktemp("simulated") / "out")


def test_a_data_set_and_its_truth_are_published(run: Path) -> None:
    verify(str(run))
    ratings, test, users, items = (read_table(run, name) for name in ("ratings", "test", "users", "items"))
    assert record_of(run)["counts"] == {"ratings": len(ratings), "test": 60 * 20, "users": 60, "items": 40}
    assert len(ratings) == len(ratings.drop_duplicates(["user", "item"])) > 0
    assert set(ratings.rating) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    # The truth leads to the test's expectations: min(1 + Poisson((theta + g_y c) . beta), 5).
    confounder, preference = (np.stack(users.sort_values("user")[name]) for name in ("confounder", "preference"))
    rate = (preference + 3.0 * confounder) @ np.stack(items.sort_values("item").attribute).T
    n = np.arange(200)
    of_pair = rate[test.user, test.item]
    log_factorial = np.cumsum(np.log(np.maximum(n, 1)))
    chance = np.exp(n * np.log(of_pair)[:, None] - of_pair[:, None] - log_factorial)
    np.testing.assert_allclose(test.expected, (chance * np.minimum(1 + n, 5)).sum(axis=1), rtol=1e-9)


def test_the_same_seed_draws_the_same_ratings(run: Path, tmp_path: Path) -> None:
    tables = [read_table(directory, "ratings") for directory in (run, simulated(tmp_path / "out"))]
    one, other = (table.sort_values(["user", "item"], ignore_index=True) for table in tables)
    pd.testing.assert_frame_equal(one, other)


def test_a_dry_run_writes_nothing_and_more_tests_than_items_are_refused(tmp_path: Path) -> None:
    outcome = run_job(Simulate, {**SIZES, "output.path": tmp_path / "out"}, "--dry-run")
    assert outcome.code == 0
    assert not (tmp_path / "out").exists()
    refused = run_job(Simulate, {**SIZES, "simulation.test_pairs_per_user": 41, "output.path": tmp_path / "out"})
    assert refused.code == 2
    assert "test_pairs_per_user at most n_items = 40" in refused.message
