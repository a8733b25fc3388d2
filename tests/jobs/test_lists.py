"""Catalogue, exclusions, caps, intervals and all tables of recommend.extra, on one published run, and the limits."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMFModel
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.serve import Recommend
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import (
    SMALL,
    AnyJob,
    failure_of,
    names_in,
    publish,
    read_table,
    record_of,
    run_directory,
    run_job,
    run_retrain,
)  # fmt: skip

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

CATALOGUE = pd.DataFrame({"item": [*range(20), 99], "category": ["a", "a", "a", "b", None] * 4 + ["b"]})
EXCLUDED = pd.DataFrame({"user": [0, 0, 1, 777], "item": [1, 2, 3, 1]})
FIGURES = ["ratings", "effective_ratings", "smallest_propensity", "mean_rating", "mean_low", "mean_high"]


def rated() -> pd.DataFrame:
    pairs = [(u, i) for u in range(30) for i in range(24) if (u * 7 + i * 3) % 5 < 2]
    rows = [(u, i, 1.0 + (u * i + i) % 5, 1 + (u + i) % 3) for u, i in [*pairs, (30, 3), (1, 98)]]
    return pd.DataFrame(rows, columns=["user", "item", "rating", "views"])


RATED = rated()
PAIRS = set(zip(RATED.user, RATED.item, strict=True))
USERS = RATED.user.nunique()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shop")
    RATED.to_parquet(made / "ratings.parquet")
    RATED.sample(frac=0.5, random_state=1).to_parquet(made / "half.parquet")
    CATALOGUE.to_parquet(made / "catalogue.parquet")
    pd.DataFrame({"item": [1, 1], "category": ["a", "b"]}).to_parquet(made / "twice.parquet")
    pd.DataFrame({"item": [500], "category": ["a"]}).to_parquet(made / "strangers.parquet")
    EXCLUDED.to_csv(made / "excluded.csv", index=False)
    return made


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, Any]:
    return {
        **SMALL,
        "input.path": folder / "ratings.parquet",
        "input.columns.count": "views",
        "output.path": folder / "out",
        "recommend.top_n": 6,
        "recommend.catalogue": folder / "catalogue.parquet",
        "recommend.exclude": folder / "excluded.csv",
        "recommend.max_per_category": 2,
        "recommend.extra": "[fallback,similar_items,changes,intervals,overlap]",
    }


@pytest.fixture(scope="module")
def published(spark: SparkSession, settings: dict[str, Any]) -> Path:
    return publish(Retrain, settings)


@pytest.fixture
def served(published: Path, settings: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    given = {name: settings[name] for name in ("input.path", "input.columns.count")}
    return {**given, "model.path": published.parent, "output.path": tmp_path / "out"}


def pairs_of(lists: pd.DataFrame) -> set[tuple[int, int]]:
    return set(zip(lists.user_id, lists.item_id, strict=True))


def test_lists_hold_items_of_the_catalogue_and_the_record_counts_them(published: Path) -> None:
    lists = read_table(published, "recommendations")
    assert set(lists.item_id) <= set(range(20))
    assert not pairs_of(lists) & (PAIRS | set(zip(EXCLUDED.user, EXCLUDED.item, strict=True)))
    categories = lists.merge(CATALOGUE.rename(columns={"item": "item_id"})).dropna(subset="category")
    assert categories.groupby(["user_id", "category"]).size().max() == 2
    assert ((lists.low < lists.score) & (lists.score < lists.high)).all()
    assert (lists.odds_to_change.dropna() >= 1.0).all()
    record = record_of(published)
    counted = {"items_in_catalogue": 20, "items_in_catalogue_unknown": 1, "pairs_excluded": 4}
    assert counted.items() <= record["counts"].items()
    short = int((lists.groupby("user_id").size() < 6).sum())
    assert (record["audit"]["lists"]["lists"], record["audit"]["lists"]["short"]) == (USERS, short)
    assert any("1 of the 21 items in recommend.catalogue have no ratings" in text for text in record["warnings"])


def test_fallback_similar_items_and_changes_are_published(published: Path) -> None:
    fallback = read_table(published, "fallback")
    assert sorted(fallback["rank"]) == [1, 2, 3, 4, 5, 6]
    assert set(fallback.item_id) <= set(range(20))
    similar = read_table(published, "similar_items")
    assert set(similar.item_id) == set(RATED.item)
    assert set(similar.measure) == {"cosine"}
    assert similar.similarity.abs().max() <= 1 + 1e-12
    assert not (similar.item_id == similar.similar_item_id).any()
    added = read_table(published, "changes")
    assert set(added.change) == {"added"}
    assert added.since_run_id.isna().all()
    assert len(added) == len(read_table(published, "recommendations"))


@pytest.mark.parametrize("side", ["user", "item"])
def test_tables_of_overlap_are_those_of_the_saved_model(spark: SparkSession, published: Path, side: str) -> None:
    found, record = read_table(published, f"{side}_overlap"), record_of(published)
    model = DeconfoundedMFModel.load(str(published / "model"))
    names = {"user": "user_id", "item": "item_id", "views": "count"}
    expected = model.overlap(spark.createDataFrame(RATED.rename(columns=names)), 2.0, side).toPandas()
    model.release()
    assert_same_figures(found, expected, side)
    assert (set(found.odds), set(found.run_id)) == ({2.0}, {record["run_id"]})
    assert record["tables"][f"{side}_overlap"] == len(found)
    verify(str(published))


def assert_same_figures(found: pd.DataFrame, expected: pd.DataFrame, side: str) -> None:
    one, other = (frame.sort_values(f"{side}_id", ignore_index=True) for frame in (found, expected))
    columns = [f"{side}_id", *FIGURES]
    pd.testing.assert_frame_equal(one[columns], other[columns], rtol=1e-9)


def test_overlap_of_some_users_by_a_saved_model(published: Path, served: dict[str, Any], tmp_path: Path) -> None:
    pd.DataFrame({"user": [3, 7, 555]}).to_parquet(tmp_path / "users.parquet")
    publish(Recommend, {**served, "recommend.users": tmp_path / "users.parquet", "recommend.extra": "[overlap]"})
    run, users = run_directory(tmp_path / "out"), read_table(published, "user_overlap")
    assert_same_figures(read_table(run, "user_overlap"), users[users.user_id.isin([3, 7])], "user")
    assert_same_figures(read_table(run, "item_overlap"), read_table(published, "item_overlap"), "item")


def test_held_out_pairs_are_no_evidence_and_no_recommendations(settings: dict[str, Any], tmp_path: Path) -> None:
    more = {"audit.held_out_share": 0.2, "audit.max_below_popularity": "null", "recommend.extra": "[intervals,overlap]"}
    run = publish(Retrain, {**settings, **more, "output.path": tmp_path / "out"})
    counts = record_of(run)["counts"]
    assert counts["held_out"] > 0
    for side in ("user", "item"):
        assert read_table(run, f"{side}_overlap").ratings.sum() == counts["ratings"] - counts["held_out"]
    lists = read_table(run, "recommendations")
    assert not pairs_of(lists) & PAIRS
    assert ((lists.low < lists.score) & (lists.score < lists.high)).all()


# What each job is refused for, with its exit code and message; {folder} holds the files.
REFUSED: dict[str, tuple[type[AnyJob], dict[str, str], int, str]] = {
    "overlap without exposures": (
        Retrain, {"outcome.adjustment": "none", "recommend.extra": "[overlap]"}, 2,
        "expected a list without it for outcome.adjustment=none, which has no exposure",
    ),
    "an item in two categories": (
        Retrain, {"recommend.catalogue": "{folder}/twice.parquet"}, 3, "item 1 is in 2 categories; expected one"
    ),
    "half of the ratings": (
        Retrain, {"input.path": "{folder}/half.parquet", "audit.max_volume_fall": "0.3", "output.path": "{folder}/out"},
        3, "were accepted, and 290 in the run before, 50.0% fewer (setting audit.max_volume_fall=0.3)",
    ),
    "a catalogue of strangers": (
        Recommend, {"recommend.catalogue": "{folder}/strangers.parquet"}, 3, "found none of its 1 items in the ratings"
    ),
    "overlap of unseen ratings": (
        Recommend, {"recommend.exclude_seen": "false", "recommend.extra": "[overlap]"}, 2,
        "setting recommend.extra has overlap, and recommend.exclude_seen is false",
    ),
    "overlap without counts": (
        Recommend, {"input.columns.count": "null", "recommend.extra": "[overlap]"}, 2,
        "setting input.columns.count: found null, expected the column",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_published_is_refused_before_anything_is_fitted(
    what: str, settings: dict[str, Any], served: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    job, changed, code, message = REFUSED[what]
    given = served if job is Recommend else {**settings, "output.path": tmp_path / "out"}
    changed = {name: value.format(folder=folder) for name, value in changed.items()}
    run_job(job, {**given, **changed}, code=code, words=message)
    assert names_in(tmp_path / "out") == set()
    if job is Retrain and "output.path" not in changed:
        assert "fit" not in failure_of(tmp_path / "out")["timings"]


def test_the_next_run_is_compared_with_this_one(published: Path, settings: dict[str, Any], folder: Path) -> None:
    """Another seed is another model: the lists change, and how much is what the limits are about."""
    other = {**settings, "run.seed": 7, "audit.max_churn": 0, "audit.min_coverage": 1, "recommend.extra": "[changes]"}
    run_retrain(other, code=4, words="(setting audit.max_churn=0)")
    assert run_directory(folder / "out") == published
    (failed,) = (record for record in map(record_of, (folder / "out" / "failed").iterdir()) if record["exit_code"] == 4)
    verdicts = {verdict["check"]: verdict["passed"] for verdict in failed["audit"]["verdicts"]}
    assert (verdicts["max_churn"], verdicts["max_volume_fall"]) == (False, True)
    second = publish(Retrain, {**other, "audit.force": "true"})
    record = record_of(second)
    assert "max_churn" in record["audit"]["forced"]
    assert any("(--force)" in text for text in record["warnings"])
    assert read_table(second, "runs").warnings[0].tolist() == record["warnings"]
    changes = read_table(second, "changes")
    assert set(changes.since_run_id) == {record_of(published)["run_id"]}
    before, after = (read_table(run, "recommendations") for run in (published, second))
    held = {(r.user_id, r.item_id): r.rank for r in before.itertuples()}
    for row in changes.itertuples():
        if row.change == "removed":
            del held[row.user_id, row.item_id]
        else:
            held[row.user_id, row.item_id] = int(row.rank)
    assert held == {(r.user_id, r.item_id): r.rank for r in after.itertuples()}
