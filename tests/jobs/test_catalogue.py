"""Catalogue, exclusions, caps, the tables of recommend.extra, and the limits of the audit, on one published run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tests.jobs.job import SMALL, failure_of, read_table, record_of, run_directory, run_retrain

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

USERS, ITEMS = 30, 24
CATALOGUE = pd.DataFrame({"item": [*range(20), 99], "category": ["a", "a", "a", "b", None] * 4 + ["b"]})
EXCLUDED = pd.DataFrame({"user": [0, 0, 1, 777], "item": [1, 2, 3, 1]})


def ratings(more: int = 0) -> pd.DataFrame:
    rows = [(u, i, 1.0 + (u * i + i) % 5) for u in range(USERS) for i in range(ITEMS) if (u * 7 + i * 3) % 5 < 2]
    return pd.DataFrame(rows + [(USERS + n, n % ITEMS, 5.0) for n in range(more)], columns=["user", "item", "rating"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shop")
    ratings().to_parquet(made / "ratings.parquet")
    CATALOGUE.to_parquet(made / "catalogue.parquet")
    EXCLUDED.to_csv(made / "excluded.csv", index=False)
    return made


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, Any]:
    return {
        **SMALL,
        "input.path": folder / "ratings.parquet",
        "output.path": folder / "out",
        "recommend.top_n": 6,
        "recommend.catalogue": folder / "catalogue.parquet",
        "recommend.exclude": folder / "excluded.csv",
        "recommend.max_per_category": 2,
        "recommend.extra": "[fallback,similar_items,changes]",
    }


@pytest.fixture(scope="module")
def published(spark: SparkSession, settings: dict[str, Any]) -> Iterator[Path]:
    outcome = run_retrain(settings)
    assert outcome.code == 0, outcome
    return run_directory(settings["output.path"])


def test_lists_hold_items_of_the_catalogue_and_the_record_counts_them(published: Path) -> None:
    lists = read_table(published, "recommendations")
    assert set(lists.item_id) <= set(range(20))
    pairs = set(zip(lists.user_id, lists.item_id, strict=True))
    assert not pairs & set(zip(EXCLUDED.user, EXCLUDED.item, strict=True))
    given = ratings()
    assert not pairs & set(zip(given.user, given.item, strict=True))
    categories = lists.merge(CATALOGUE.rename(columns={"item": "item_id"})).dropna(subset="category")
    assert categories.groupby(["user_id", "category"]).size().max() == 2
    record = record_of(published)
    assert (
        record["counts"] | {"items_in_catalogue": 20, "items_in_catalogue_unknown": 1, "pairs_excluded": 4}
        == record["counts"]
    )
    short = int((lists.groupby("user_id").size() < 6).sum())
    assert (record["audit"]["lists"]["lists"], record["audit"]["lists"]["short"]) == (USERS, short)
    assert any("1 of the 21 items in recommend.catalogue have no ratings" in text for text in record["warnings"])


def test_fallback_similar_items_and_changes_are_published(published: Path) -> None:
    fallback = read_table(published, "fallback")
    assert sorted(fallback["rank"]) == [1, 2, 3, 4, 5, 6]
    assert set(fallback.item_id) <= set(range(20))
    similar = read_table(published, "similar_items")
    assert set(similar.item_id) == set(range(ITEMS))
    assert set(similar.measure) == {"cosine"}
    assert similar.similarity.abs().max() <= 1 + 1e-12
    assert not (similar.item_id == similar.similar_item_id).any()
    added = read_table(published, "changes")
    assert set(added.change) == {"added"}
    assert added.since_run_id.isna().all()
    assert len(added) == len(read_table(published, "recommendations"))


def test_intervals_are_of_the_same_lists_and_held_out_pairs_have_no_say(
    published: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    lists = {}
    for name, more in {"all": {}, "held out": {"audit.held_out_share": 0.2}}.items():
        given = {**settings, "recommend.extra": "[intervals]", "audit.max_below_popularity": "null"}
        outcome = run_retrain({**given, **more, "output.path": tmp_path / name})
        assert outcome.code == 0, outcome
        lists[name] = read_table(run_directory(tmp_path / name), "recommendations").sort_values(["user_id", "rank"])
    assert record_of(run_directory(tmp_path / "held out"))["counts"]["held_out"] > 0
    before = read_table(published, "recommendations").sort_values(["user_id", "rank"])
    assert lists["all"].item_id.tolist() == before.item_id.tolist()
    given_pairs = set(zip(ratings().user, ratings().item, strict=True))
    for sure in lists.values():
        assert ((sure.low < sure.score) & (sure.score < sure.high)).all()
        assert (sure.odds_to_change.dropna() >= 1.0).all()
        assert not set(zip(sure.user_id, sure.item_id, strict=True)) & given_pairs


def test_the_next_run_is_compared_with_this_one_and_refused_or_forced(
    published: Path, settings: dict[str, Any], folder: Path
) -> None:
    """Another seed is another model: the lists change, and how much is what the limits are about."""
    other = {**settings, "run.seed": 7, "audit.max_churn": 0, "audit.min_coverage": 1}
    outcome = run_retrain({**other, "audit.max_short_lists": 1})
    assert outcome.code == 4, outcome
    assert "(setting audit.max_churn=0)" in outcome.message
    assert run_directory(folder / "out") == published
    failed = failure_of(folder / "out")
    verdicts = {verdict["check"]: verdict["passed"] for verdict in failed["audit"]["verdicts"]}
    assert verdicts["max_churn"] is False
    assert verdicts["max_short_lists"] is True
    outcome = run_retrain({**other, "audit.force": "true"})
    assert outcome.code == 0, outcome
    second = run_directory(folder / "out")
    record = record_of(second)
    assert "max_churn" in record["audit"]["forced"]
    assert any("(--force)" in text for text in record["warnings"])
    assert read_table(second, "runs").warnings[0].tolist() == record["warnings"]
    before, after, changes = (
        read_table(run, name)
        for run, name in ((published, "recommendations"), (second, "recommendations"), (second, "changes"))
    )
    assert set(changes.since_run_id) == {record_of(published)["run_id"]}
    held = {(r.user_id, r.item_id): r.rank for r in before.itertuples()}
    for row in changes.itertuples():
        if row.change == "removed":
            del held[row.user_id, row.item_id]
        else:
            held[row.user_id, row.item_id] = int(row.rank)
    assert held == {(r.user_id, r.item_id): r.rank for r in after.itertuples()}


def test_far_fewer_ratings_are_refused_before_anything_is_fitted(
    published: Path, settings: dict[str, Any], folder: Path
) -> None:
    ratings().sample(frac=0.5, random_state=1).to_parquet(folder / "half.parquet")
    half = {**settings, "input.path": folder / "half.parquet", "audit.max_volume_fall": 0.3}
    outcome = run_retrain(half)
    assert outcome.code == 3
    assert (
        "ratings were accepted, and 288 in the run before, 50.0% fewer (setting audit.max_volume_fall=0.3)"
        in outcome.message
    )


BROKEN = {
    "an item twice": (
        pd.DataFrame({"item": [1, 1], "category": ["a", "b"]}),
        "item 1 is in 2 categories; expected one",
    ),
    "strangers": (pd.DataFrame({"item": [500], "category": ["a"]}), "the model knows none of its 1 items"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_catalogue_that_cannot_be_used_is_refused(case: str, settings: dict[str, Any], tmp_path: Path) -> None:
    frame, message = BROKEN[case]
    frame.to_parquet(tmp_path / "catalogue.parquet")
    given = {**settings, "recommend.catalogue": tmp_path / "catalogue.parquet", "output.path": tmp_path / "out"}
    outcome = run_retrain(given)
    assert outcome.code == 3
    assert message in outcome.message
