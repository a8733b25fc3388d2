"""Nights whose lists come from an index of the catalogue: what is published, and what is refused before the fit."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import errors
from dcrec_spark.config import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.fold_in import FoldIn
from dcrec_spark.jobs.list_audit import recall
from dcrec_spark.jobs.recommend import Recommend
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.models.outcome import rank_here, rank_indexed
from tests.jobs.job import SMALL, AnyJob, read_table, record_of, run_directory, run_job

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

# The columns that one ranking shares with another of the same model.
LISTS = ["user_id", "rank", "item_id", "score", "preference", "confounder"]


@pytest.fixture(autouse=True)
def small_catalogues_have_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_here, "LOCAL_ROWS", 0)
    monkeypatch.setattr(rank_indexed, "LEAST_COLS", 2)
    monkeypatch.setattr(rank_indexed, "INDEX_COLS", 9)


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    rows = [(u, i, 1.0 + (u * i + i) % 5) for u in range(30) for i in range(24) if (u * 7 + i * 3) % 5 < 2]
    pd.DataFrame(rows, columns=["user", "item", "rating"]).to_parquet(tmp_path / "ratings.parquet")
    return {"input.path": tmp_path / "ratings.parquet", "recommend.top_n": 4}


def published(job: type[AnyJob], settings: dict[str, Any], output: Path) -> pd.DataFrame:
    outcome = run_job(job, {**settings, "output.path": output})
    assert outcome.code == 0, outcome
    lists: pd.DataFrame = read_table(run_directory(output), "recommendations")[LISTS]
    return lists.sort_values(["user_id", "rank"], ignore_index=True)


def test_a_search_of_all_lists_publishes_what_the_exact_ranking_does(settings: dict[str, Any], tmp_path: Path) -> None:
    """By retrain, by recommend with the model that it has saved, and by fold-in; similar items are found so too."""
    exact, indexed = tmp_path / "exact", tmp_path / "indexed"
    fit = {**SMALL, **settings, "recommend.similar_items": 3}
    expected = published(Retrain, fit, exact)
    whole = {"recommend.searched_share": 1.0}
    pd.testing.assert_frame_equal(published(Retrain, {**fit, **whole}, indexed), expected)
    alike = [read_table(run_directory(output), "similar_items") for output in (exact, indexed)]
    pairs = [sorted(zip(t.item_id, t["rank"], t.similar_item_id, strict=True)) for t in alike]
    assert pairs[0] == pairs[1]
    noted = record_of(run_directory(indexed))["audit"]["lists"]
    assert (noted["recall"], noted["recall_of"]) == (1.0, len(expected))
    assert "recall" not in record_of(run_directory(exact))["audit"]["lists"]
    served = {**settings, "model.path": exact}
    pd.testing.assert_frame_equal(published(Recommend, {**served, **whole}, tmp_path / "served"), expected)
    folded = [published(FoldIn, {**served, **more}, tmp_path / f"new {len(more)}") for more in ({}, whole)]
    pd.testing.assert_frame_equal(folded[0], folded[1])


def test_recall_is_the_share_of_the_exact_places_that_are_there(spark: SparkSession) -> None:
    """Whatever their ranks; users who were not ranked exactly don't count."""
    rows = [(1, 10, 1), (1, 11, 2), (2, 10, 1), (2, 12, 2), (3, 9, 1)]
    lists = spark.createDataFrame(rows, "user_id int, item_id int, rank int")
    exact = spark.createDataFrame([(1, 11), (1, 10), (2, 13), (2, 12)], "user_id int, item_id int")
    assert recall(lists, exact) == {"recall": 0.75, "recall_of": 4}
    assert recall(lists, exact.limit(0)) == {"recall": None, "recall_of": 0}


@pytest.mark.parametrize("job", [Retrain, Recommend, FoldIn])
def test_without_faiss_nothing_begins(
    job: type[AnyJob], settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda package: package != "faiss")
    wanted = {"recommend.searched_share": 0.1, "output.path": tmp_path / "out"}
    more = {} if job is Retrain else {"model.path": tmp_path / "model"}
    outcome = run_job(job, {**settings, **wanted, **more})
    assert outcome.code == 2
    assert outcome.message.startswith("faiss is not installed")
    assert outcome.message.endswith("pip install 'dcrec-spark[index]'")
    assert not (tmp_path / "out" / "CURRENT").exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["recommend.searched_share=0"], "recommend.searched_share: found 0, expected a number > 0"),
        (["recommend.searched_share=1.1"], "recommend.searched_share: found 1.1, expected a number <= 1"),
        (["recommend.searched_share=true"], "recommend.searched_share: found True"),
        (
            ["recommend.searched_share=0.1", "recommend.intervals=true"],
            "expected searched_share null for intervals=true: how sure a place is",
        ),
        (
            ["recommend.searched_share=0.1", "outcome.confounder_link=sqrt", "outcome.outcome=probabilistic"],
            "expected recommend.searched_share null for outcome.confounder_link=sqrt: a link of an inner product",
        ),
    ],
)
def test_what_an_index_cannot_do_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(RetrainConfig, None, overrides)
    assert words in str(refused.value)
