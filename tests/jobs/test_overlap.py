"""Tables of overlap, as the jobs publish them: those of the model's own ``overlap``."""

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMFModel
from dcrec_spark.jobs.recommend import Recommend
from dcrec_spark.publish.parquet import verify
from tests.jobs.job import SMALL, failure_of, names_in, read_table, record_of, run_directory, run_job, run_retrain

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

FIGURES = ["ratings", "effective_ratings", "smallest_propensity", "mean_rating", "mean_low", "mean_high"]


def ratings() -> pd.DataFrame:
    """Of users with names and items with numbers; the first user has rated once, the last item was rated once."""
    rows = [(f"u{u:02}", i, 1.0 + (u * i + i) % 5) for u in range(1, 25) for i in range(15) if (u * 7 + i * 3) % 5 < 2]
    return pd.DataFrame([("u00", 3, 4.0), *rows, ("u01", 99, 2.0)], columns=["user", "item", "rating"])


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seen")
    ratings().to_parquet(folder / "ratings.parquet")
    places = {"input.path": folder / "ratings.parquet", "output.path": folder / "out"}
    outcome = run_retrain({**SMALL, **places, "recommend.extra": "[overlap]"})
    assert outcome.code == 0, outcome
    return folder


def of_the_saved_model(spark: SparkSession, run: Path, side: str, given: pd.DataFrame, odds: float) -> pd.DataFrame:
    model = DeconfoundedMFModel.load(str(run / "model"))
    try:
        frame = spark.createDataFrame(given.rename(columns={"user": "user_id", "item": "item_id"}))
        return model.overlap(frame, odds, side).toPandas()
    finally:
        model.release()


def assert_same_figures(published: pd.DataFrame, expected: pd.DataFrame, side: str) -> None:
    by_id = [frame.sort_values(f"{side}_id", ignore_index=True) for frame in (published, expected)]
    columns = [f"{side}_id", *FIGURES]
    pd.testing.assert_frame_equal(by_id[0][columns], by_id[1][columns], rtol=1e-9)


@pytest.mark.parametrize("side", ["user", "item"])
def test_the_tables_say_what_the_saved_model_says_of_the_ratings_of_the_fit(
    spark: SparkSession, nightly: Path, side: str
) -> None:
    run = run_directory(nightly / "out")
    published, record = read_table(run, f"{side}_overlap"), record_of(run)
    assert_same_figures(published, of_the_saved_model(spark, run, side, ratings(), 2.0), side)
    counts = ratings().groupby(side).size()
    assert published.set_index(f"{side}_id").ratings.to_dict() == counts.to_dict()
    rounding = 1e-12
    assert (published.mean_low <= published.mean_rating + rounding).all()
    assert (published.mean_rating <= published.mean_high + rounding).all()
    several = published[(published.ratings > 1) & (published.effective_ratings < published.ratings)]
    assert (several.mean_low < several.mean_high).any()
    assert set(published.odds) == {2.0}
    assert set(published.run_id) == {record["run_id"]}
    assert set(published.model_version) == {record["model_version"]}
    assert {str(day) for day in published.run_date} == {record["run_date"]}
    assert record["tables"][f"{side}_overlap"] == len(counts)
    verify(str(run))


def test_pairs_that_are_held_out_do_not_count(spark: SparkSession, nightly: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "input.path": nightly / "ratings.parquet", "output.path": tmp_path / "out"}
    more = {"audit.held_out_share": 0.3, "audit.max_below_popularity": "null", "recommend.extra": "[overlap]"}
    outcome = run_retrain({**settings, **more})
    assert outcome.code == 0, outcome
    run = run_directory(tmp_path / "out")
    fitted = record_of(run)["counts"]["ratings"] - record_of(run)["counts"]["held_out"]
    for side in ("user", "item"):
        published = read_table(run, f"{side}_overlap")
        assert published.ratings.sum() == fitted < len(ratings())
        assert set(published.odds) == {2.0}


def test_a_saved_model_says_the_same_and_of_a_list_of_users_it_speaks_of_them_alone(
    nightly: Path, tmp_path: Path
) -> None:
    pd.DataFrame({"user": ["u03", "u07", "stranger"]}).to_parquet(tmp_path / "users.parquet")
    given = {
        "model.path": nightly / "out",
        "input.path": nightly / "ratings.parquet",
        "recommend.extra": "[overlap]",
    }
    of_users, of_items = (read_table(run_directory(nightly / "out"), f"{side}_overlap") for side in ("user", "item"))
    expected = {"all": of_users, "some": of_users[of_users.user_id.isin(["u03", "u07"])]}
    for name, chosen in {"all": {}, "some": {"recommend.users": tmp_path / "users.parquet"}}.items():
        outcome = run_job(Recommend, {**given, **chosen, "output.path": tmp_path / name})
        assert outcome.code == 0, outcome
        run = run_directory(tmp_path / name)
        assert_same_figures(read_table(run, "user_overlap"), expected[name], "user")
        assert_same_figures(read_table(run, "item_overlap"), of_items, "item")


def test_a_fit_without_an_exposure_model_is_refused_before_it_begins(nightly: Path, tmp_path: Path) -> None:
    given = {
        **SMALL,
        "outcome.adjustment": "none",
        "input.path": nightly / "ratings.parquet",
        "output.path": tmp_path / "out",
    }
    outcome = run_retrain({**given, "recommend.extra": "[overlap]"})
    assert outcome.code == 2
    assert "expected a list without it for outcome.adjustment=none, which has no exposure" in outcome.message
    assert "validate" not in failure_of(tmp_path / "out")["timings"]
    assert names_in(tmp_path / "out") == set()


def test_a_saved_model_without_exposure_and_a_job_without_ratings_are_refused(nightly: Path, tmp_path: Path) -> None:
    source = {"input.path": nightly / "ratings.parquet"}
    fit = run_retrain({**SMALL, **source, "output.path": tmp_path / "fit", "outcome.adjustment": "none"})
    assert fit.code == 0, fit
    given = {**source, "model.path": tmp_path / "fit", "output.path": tmp_path / "out", "recommend.extra": "[overlap]"}
    for changed, message in (
        ({}, "setting recommend.extra: found overlap, expected a list without it for the model "),
        (
            {"recommend.exclude_seen": "false"},
            "setting recommend.extra has overlap, and recommend.exclude_seen is false",
        ),
    ):
        outcome = run_job(Recommend, {**given, **changed})
        assert outcome.code == 2
        assert outcome.message.startswith(message)


def test_a_column_that_the_fit_has_learned_from_is_asked_for_only_where_it_is_read(
    nightly: Path, tmp_path: Path
) -> None:
    """Lists need of the ratings no more than who has rated what; how much was seen needs how often."""
    viewed = ratings().assign(views=lambda table: 1 + table.index % 3)
    viewed.to_parquet(tmp_path / "views.parquet")
    counts = {"input.columns.count": "views"}
    fitted = run_retrain({**SMALL, **counts, "input.path": tmp_path / "views.parquet", "output.path": tmp_path / "fit"})
    assert fitted.code == 0, fitted
    places = {"model.path": tmp_path / "fit", "input.path": nightly / "ratings.parquet"}
    plain = run_job(Recommend, {**places, "output.path": tmp_path / "lists"})
    assert plain.code == 0, plain
    refused = run_job(Recommend, {**places, "output.path": tmp_path / "out", "recommend.extra": "[overlap]"})
    assert refused.code == 2
    assert refused.message.startswith("setting input.columns.count: found null, expected the column")
