"""Audit of a fit: the exposure check, and a comparison with the last model and with popularity."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock, call

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.jobs.model_audit import check_exposures, new_rejects
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.models.exposure import predictive_check
from tests.jobs.job import SMALL, failure_of, publish, read_table, record_of, run_directory, run_retrain

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def ratings() -> pd.DataFrame:
    """Six tastes, and items of each: a model that learns them beats a list for everybody, and needs as many factors."""
    rng = np.random.default_rng(5)
    pairs = [(user, int(item)) for user in range(100) for item in rng.choice(60, 24, replace=False)]
    rows = [(user, item, 5.0 if (user + item) % 6 == 0 else 1.0) for user, item in pairs]
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
        "evaluation.relevant_from": 4,
    }


def test_a_model_worse_than_the_last_one_is_refused(spark: SparkSession, settings: dict[str, Any]) -> None:
    first, output = publish(Retrain, settings), settings["output.path"]
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
    outcome = run_retrain(worse, code=4, words="of the last model")
    assert "below (setting audit.max_loss=0.1)" in outcome.message
    assert run_directory(output) == first
    failed = failure_of(output)["audit"]
    assert set(failed["compared"]["models"]) == {"this model", "last model", "popularity"}
    assert failed["compared"]["metric"] == "catalogue_ndcg@10"
    assert [(verdict["check"], verdict["passed"]) for verdict in failed["verdicts"]] == [
        ("max_volume_fall", True), ("max_loss", False),
    ]  # fmt: skip

    another_seed = record_of(publish(Retrain, {**settings, "run.seed": 9, "audit.max_loss": 1}))
    assert another_seed["counts"]["compared"] == another_seed["counts"]["held_out"]  # the same pairs


HISTORY = {"counts": {"rows_in": 100_000}, "reasons": {"nan_rating": 500, "too_few_ratings_user": 10}}


@pytest.mark.parametrize(
    ("rows", "reasons", "untimed", "share", "words"),
    [
        (101_000, {"nan_rating": 505}, 0, 0, []),
        (101_000, {"nan_rating": 1500}, 0, 0.995, ["1500 rows are nan_rating, and 500 were"]),
        (101_000, {"nan_rating": 505, "null_rating": 1}, 0, 0.001, ["1 rows are null_rating, and none was"]),
        (101_000, {"nan_rating": 505}, 1000, 1, ["1000 rows are without_timestamp, and none was"]),
        (101_000, {"nan_rating": 505, "too_few_ratings_user": 900}, 0, 0, []),
        (100_000, {"nan_rating": 540}, 0, 0, []),  # other days of a window: a little more or less is no news
        (100_000, {"nan_rating": 600}, 0, 1, ["600 rows are nan_rating, and 500 were"]),
        (100_002, {"nan_rating": 502}, 0, 0, []),  # both new rows are bad, and are but two
    ],
)
def test_rejects_are_compared(rows: int, reasons: dict[str, int], untimed: int, share: float, words: list[str]) -> None:
    run: Any = SimpleNamespace(counts={"rows_in": rows, "without_timestamp": untimed}, reasons=reasons)
    found, sentences = new_rejects(run, HISTORY, 0.05)
    assert found == pytest.approx(share, abs=0.0011)
    assert [text[: len(start)] for text, start in zip(sentences, words, strict=True)] == words


def test_lists_that_have_less_than_half_of_popularity_are_warned_of(settings: dict[str, Any], tmp_path: Path) -> None:
    """Nobody likes what everybody rates: lists by potential rating hold other items, those that somebody may rate."""
    rng = np.random.default_rng(1)
    popular = [(u, i, float(rng.integers(1, 3))) for u in range(500) for i in range(12) if rng.random() < 0.6]
    liked = [(u, int(i), 5.0) for u in range(500) for i in rng.choice(np.arange(12, 60), 3, replace=False)]
    pd.DataFrame(popular + liked, columns=["user", "item", "rating"]).to_parquet(tmp_path / "ratings.parquet")
    where = {"input.path": tmp_path / "ratings.parquet", "output.path": tmp_path / "out", "recommend.top_n": 3}
    given = {**settings, **where, "outcome.outcome": "probabilistic", "audit.held_out_share": "null"}
    record = record_of(publish(Retrain, given))
    compared = record["audit"]["compared"]
    assert compared["models"]["this model"]["value"] < compared["models"]["popularity"]["value"] / 2
    assert any("less than half of it" in warning for warning in record["warnings"])
    assert "compare the lists with popularity" in record["timings"]
    assert record["counts"]["ratings"] == len(popular + liked)


OFF, REFUSE = "audit.exposure_check=off", "audit.exposure_check=refuse"


@pytest.mark.parametrize(
    ("passed", "settings", "checked", "warned"),
    [
        (False, [OFF], False, False),
        (False, [REFUSE, "outcome.adjustment=none"], False, False),
        (True, [REFUSE], True, False),
        (False, [], True, True),
        (False, [REFUSE, "audit.force=true"], True, True),
    ],
)
def test_a_check_that_fails_is_a_warning(passed: bool, settings: list[str], checked: bool, warned: bool) -> None:
    check = SimpleNamespace(passed=passed, summary="p 0.001", release=lambda: None)
    stage, run = Mock(), SimpleNamespace(warnings=[], note_check=Mock())
    stage.predictiveCheck.return_value = check
    config = load_config(RetrainConfig, None, ["run.seed=4", *settings])
    context: Any = SimpleNamespace(config=config, run=run, reporter=MagicMock())
    check_exposures(context, "ratings", stage)  # type: ignore[arg-type]
    assert stage.predictiveCheck.mock_calls == [call("ratings", 0.2, 100, 4)] * checked
    assert run.note_check.mock_calls == [call(check)] * checked
    assert [text.startswith("p 0.001; another exposure.rank may pass") for text in run.warnings] == [True] * warned


def test_a_refused_check_keeps_the_old_tables(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictive_check, "MIDDLE", (2.0, 2.0))
    before = run_directory(settings["output.path"])
    refused = run_retrain({**settings, "exposure.rank": 1, "audit.exposure_check": "refuse"}, code=4)
    assert refused.error["kind"] == "AuditError"
    assert refused.message.startswith("setting audit.exposure_check=refuse: ")
    assert "do not trust a_hat" in refused.message
    assert "another exposure.rank may pass" in refused.message
    assert run_directory(settings["output.path"]) == before
