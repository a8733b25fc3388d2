"""The search as a job: trials recorded, the best one a configuration, the same metrics in memory and on the cluster."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.jobs.tune.job import Tune
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import names_in, publish, read_table, record_of, run_directory, run_job
from tests.publish.test_parquet import commit, stage_by_hand

SETTINGS = {
    "exposure.max_iter": 3,
    "exposure.tol": 0,
    "outcome.max_iter": 2,
    "outcome.tol": 0,
    "outcome.outcome": "weighted",
    "outcome.alpha": 2,
    "outcome.reg_param": 1,
    "validation.scale_min": 1,
    "validation.scale_max": 5,
    "tuning.validation_share": 0.3,
}
SPACE = {"tuning.space.exposure.rank": "[1,2]", "tuning.space.outcome.rank": "[1,2]"}

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


class TuneOnCluster(Tune):
    """The same search where no number of ratings fits in memory."""

    most_in_memory = 0


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 30 users and 31 items, with times; the last 12 items have one rating only."""
    rng = np.random.default_rng(4)
    user, item = np.nonzero(rng.random((30, 19)) < 0.5)
    user, item = np.append(user, range(12)), np.append(item, range(19, 31))
    rows = {"user": [f"u{u:02}" for u in user], "item": item, "rating": rng.integers(1, 6, len(user)).astype(float)}
    path = tmp_path_factory.mktemp("ratings") / "ratings.parquet"
    pd.DataFrame({**rows, "time": rng.permutation(len(user))}).to_parquet(path)
    return path


@pytest.fixture(scope="module")
def searched(ratings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("search") / "out"
    outcome = run_job(Tune, {**SETTINGS, **SPACE, "input.path": ratings, "output.path": output})
    assert "dcrec retrain --config" in outcome.printed
    return output


def test_a_search_chooses_by_what_is_named(ratings: Path, tmp_path: Path) -> None:
    validation, output = tmp_path / "validation.parquet", tmp_path / "out"
    whole = pd.read_parquet(ratings)
    whole.iloc[::4].to_parquet(validation)
    settings = {**SETTINGS, "tuning.space.outcome.rank": "[1,2]", "tuning.metric": "catalogue_rare_share@3"}
    settings |= {"tuning.validation_path": validation, "input.path": ratings, "output.path": output}
    run = publish(Tune, settings)
    table, counts = trials(run), record_of(run)["counts"]
    assert counts["train"] == len(whole) - len(whole.iloc[::4])
    assert counts["held_out"] + counts.get("held_out_unknown", 0) == len(whole.iloc[::4])
    best = load_config(RetrainConfig, run / "best" / "best.yaml").outcome.rank
    assert best == json.loads(table.parameters[table.value.idxmin()])["outcome.rank"]
    assert {"catalogue_ndcg@3", "catalogue_hit_rating@3", "catalogue_popularity@3"} <= dict(table.metrics[0]).keys()


def trials(run: Path) -> pd.DataFrame:
    return read_table(run, "trials").sort_values("trial", ignore_index=True)


def test_every_trial_is_recorded_and_the_best_is_a_configuration(searched: Path) -> None:
    run = run_directory(searched)
    table, record = trials(run), record_of(run)
    found = [json.loads(text) for text in table.parameters]
    assert [(p["exposure.rank"], p["outcome.rank"]) for p in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert set(table.status) == {"done"}
    assert (table.sweeps == 2).all()
    assert ((table.ci_low < table.value) & (table.value < table.ci_high)).all()
    for metrics, value in zip(table.metrics, table.value, strict=True):
        assert {"ndcg", "recall@5", "mse", "mae"} <= dict(metrics).keys()
        assert dict(metrics)["ndcg"] == value
    best = found[table.value.idxmax()]
    chosen = load_config(RetrainConfig, run / "best" / "best.yaml")
    assert (chosen.exposure.rank, chosen.outcome.rank) == (best["exposure.rank"], best["outcome.rank"])
    assert (chosen.exposure.max_iter, chosen.outcome.alpha) == (3, 2.0)
    assert (record["job"], record["counts"]["trials"], record["counts"]["trials_failed"]) == ("tune", 4, 0)
    assert record["counts"]["train"] + record["counts"]["held_out"] <= record["counts"]["ratings"]
    assert "trial" in record["warnings"][-1]
    verify(str(run))


def test_the_cluster_comes_to_the_same_metrics(searched: Path, ratings: Path, tmp_path: Path) -> None:
    places = {"input.path": ratings, "output.path": tmp_path / "out"}
    publish(TuneOnCluster, {**SETTINGS, **places, **dict.fromkeys(SPACE, "[2]")})
    here, there = trials(run_directory(tmp_path / "out")), trials(run_directory(searched))
    sizes = [record_of(run_directory(output))["counts"] for output in (tmp_path / "out", searched)]
    assert sizes[0] == {**sizes[1], "trials": 1}
    assert sizes[0]["held_out_unknown"] >= 1
    there = there[there.key.isin(here.key)].reset_index(drop=True)
    assert list(here.parameters) == list(there.parameters)
    assert list(here.n) == list(there.n)
    for mine, its in zip(here.metrics, there.metrics, strict=True):
        assert dict(mine) == pytest.approx(dict(its), rel=1e-9)
    np.testing.assert_allclose(np.stack(list(here.resampled)), np.stack(list(there.resampled)), rtol=1e-9)


def test_failed_trials_are_reported_and_the_latest_ratings_can_choose(ratings: Path, tmp_path: Path) -> None:
    settings = {
        **{"input.path": ratings, "input.columns.timestamp": "time", "output.path": tmp_path / "out"},
        **{"tuning.split": "time", "tuning.metric": "mse", "tuning.space.outcome.reg_param": "[1,1e12]"},
    }
    run = publish(Tune, {**SETTINGS, **settings})
    table, record = trials(run), record_of(run)
    assert list(table.status) == ["done", "failed"]
    assert "all factors are zero" in table.error[1]
    assert record["counts"]["trials_failed"] == 1
    assert any("1 of 2 trials failed" in warning for warning in record["warnings"])
    given = pd.read_parquet(ratings)
    train = given[given.time < given.time.quantile(0.7)]
    held_out = given.drop(train.index)
    known = held_out[held_out.user.isin(train.user) & held_out.item.isin(train.item)]
    assert (record["counts"]["train"], record["counts"]["held_out"]) == (len(train), len(known))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tuning.split": "time"}, "set input.columns.timestamp"),
        ({"tuning.weights": "exposure"}, "metric=mse or mae where weights=exposure: ndcg has no use for weights"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    settings: dict[str, Any], words: str, ratings: Path, tmp_path: Path
) -> None:
    places = {"input.path": ratings, "output.path": tmp_path / "out"}
    run_job(Tune, {**SETTINGS, **SPACE, **places, **settings}, code=2, words=words)
    assert names_in(tmp_path / "out") == set()


def test_a_dry_run_shows_the_plan_and_the_directory_of_another_job_is_refused(ratings: Path, tmp_path: Path) -> None:
    given = {**SETTINGS, **SPACE, "input.path": ratings}
    outcome = run_job(Tune, {**given, "output.path": tmp_path / "out"}, "--dry-run")
    assert "grid search of 4 trials over 2 exposure models, by ndcg" in " ".join(outcome.printed.split())
    assert not (tmp_path / "out").exists()
    commit(stage_by_hand(tmp_path, "one"), {"job": "retrain"})
    run_job(Tune, {**given, "output.path": tmp_path}, code=2, words="is where the job retrain publishes")
