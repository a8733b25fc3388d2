"""The life of a published model: recommended from, folded into, started from, and refused where it does not fit."""

import shutil
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.serve import FoldIn, Recommend
from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.parquet import verify
from tests.faults.damage import flipped
from tests.jobs.job import (
    SMALL,
    AnyJob,
    failure_of,
    lists_of,
    names_in,
    publish,
    read_table,
    record_of,
    run_directory,
    run_job,
)
from tests.publish.test_parquet import commit, stage_by_hand

FIT = {**SMALL, "exposure.rank": 2, "exposure.max_iter": 40, "exposure.tol": 2e-5}
FIT |= {"outcome.alpha": 1, "outcome.max_iter": 40, "outcome.tol": 2e-3}
RANK = {"recommend.top_n": 3, "validation.scale_min": 1, "validation.scale_max": 5}

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


def ratings() -> pd.DataFrame:
    """Of 20 users and 15 items, drawn by a hash: about half of the pairs."""
    drawn = [(f"u{u:02}", f"i{i:02}", crc32(f"{u},{i}".encode())) for u in range(20) for i in range(15)]
    return pd.DataFrame([(u, i, 1.0 + h // 7 % 5) for u, i, h in drawn if h % 2], columns=["user", "item", "rating"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ratings, the output ``nightly`` with a run, and what is not served."""
    folder = tmp_path_factory.mktemp("trained")
    ratings().to_parquet(folder / "ratings.parquet")
    pd.DataFrame({"user": ["stranger"]}).to_parquet(folder / "strangers")
    pd.DataFrame({"item": ["i01"]}).to_parquet(folder / "items")
    pd.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [3.0, 4.0]}).to_parquet(folder / "numbers")
    commit(stage_by_hand(folder / "without", "old"), {})
    places = {"input.path": folder / "ratings.parquet", "output.path": folder / "nightly"}
    publish(Retrain, {**FIT, **RANK, **places, "model.warm_start": "previous"})
    return folder


@pytest.fixture
def settings(trained: Path, tmp_path: Path) -> dict[str, Any]:
    places = {"model.path": trained / "nightly", "input.path": trained / "ratings.parquet"}
    return {**RANK, **places, "output.path": tmp_path / "out"}


@pytest.fixture
def fit_again(trained: Path, tmp_path: Path) -> dict[str, Any]:
    return {**FIT, **RANK, "input.path": trained / "ratings.parquet", "output.path": tmp_path / "out"}


# What happens to the model of a run, and how the message goes on. {part} is a file of its factors.
LOST_OR_CHANGED = {
    "a byte is flipped": "model/{part} is changed",
    "a byte is flipped, and the manifest is gone": "holds no manifest.json",
    "manifest and record are gone": "holds no manifest.json",
    "the model is gone": "model/{part} is missing",
}


def damage_model(output: Path, how: str) -> str:
    run = run_directory(output)
    part = next(run.glob("model/data-*/frames/users/*.parquet"))
    if how == "the model is gone":
        shutil.rmtree(run / "model")
    else:
        part.write_bytes(flipped(part.read_bytes(), part.stat().st_size // 2))
    if "manifest" in how:
        (run / "manifest.json").unlink()
    if "record" in how:
        (run / "run.json").unlink()
    return LOST_OR_CHANGED[how].format(part=part.relative_to(run / "model"))


@pytest.mark.parametrize("how", LOST_OR_CHANGED)
def test_a_model_whose_files_are_not_those_of_its_run_is_not_served(
    how: str, trained: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    output = Path(shutil.copytree(trained / "nightly", tmp_path / "nightly"))
    said = damage_model(output, how)
    outcome = run_job(Recommend, {**settings, "model.path": output}, code=3, words=said)
    assert outcome.message.startswith("setting model.path: ")
    assert names_in(tmp_path / "out") == set()


@pytest.mark.parametrize("how", ["a byte is flipped", "the model is gone", "the run is gone"])
def test_a_fit_starts_cold_and_says_so_where_the_files_of_the_last_model_are_not_those_of_its_run(
    how: str, trained: Path, fit_again: dict[str, Any], tmp_path: Path
) -> None:
    output = Path(shutil.copytree(trained / "nightly", tmp_path / "nightly"))
    before = current_run_id(str(output))
    if how == "the run is gone":
        shutil.rmtree(run_directory(output))
        said = f"run {before}, which readers have, is damaged and compared with nothing: "
    else:
        said = damage_model(output, how)
    changed = {"output.path": output, "model.warm_start": "previous", "audit.held_out_share": 0.3}
    record = record_of(publish(Retrain, {**fit_again, **changed}))
    assert record["run_id"] != before
    assert record["source"] is None
    assert any(said in warning for warning in record["warnings"])
    assert any(warning.startswith("a cold start: ") for warning in record["warnings"])
    assert "last model" not in record["audit"]["compared"]["models"]


def test_the_model_recommends_what_its_run_published(trained: Path, settings: dict[str, Any]) -> None:
    publish(Recommend, settings)
    origin, run = run_directory(trained / "nightly"), run_directory(settings["output.path"])
    assert_frame_equal(lists_of(run), lists_of(origin), rtol=0, atol=1e-12)
    first, record = record_of(origin), record_of(run)
    assert (record["job"], record["status"]) == ("recommend", "published")
    for name in ("model_version", "intercept", "data_fingerprint"):
        assert record[name] == first[name], name
    assert record["source"] == {
        "path": f"file://{origin}/model", "model_version": first["model_version"], "run_id": first["run_id"]
    }  # fmt: skip
    assert set(read_table(run, "recommendations").model_version) == {first["model_version"]}
    assert {path.name for path in run.iterdir()} == {"recommendations", "rejects", "runs", "run.json", "manifest.json"}
    verify(str(run))


def test_exposure_weight_changes_the_order(settings: dict[str, Any], fit_again: dict[str, Any], tmp_path: Path) -> None:
    fitted = {**fit_again, "recommend.extra": "[intervals, fallback]", "output.path": tmp_path / "fitted"}
    own = {**settings, "model.path": tmp_path / "fitted"}
    runs = {}
    for name, given in {
        "fitted": {**fitted, "recommend.exposure_weight": 1},
        "served": {**settings, "recommend.exposure_weight": 1},
        "its own": own,
        "plain": {**own, "recommend.exposure_weight": 0},
    }.items():
        where = {"output.path": tmp_path / name.replace(" ", "-"), "recommend.exclude_seen": "false"}
        runs[name] = publish(Retrain if name == "fitted" else Recommend, {**given, **where})
    lists = {name: lists_of(run) for name, run in runs.items()}
    for name in ("served", "its own"):
        assert_frame_equal(lists[name], lists["fitted"], rtol=0, atol=1e-9)
    both = lists["plain"].merge(lists["served"], on=["user_id", "item_id"], suffixes=("", "_now"))
    assert (both["rank"] != both["rank_now"]).any() or len(both) < len(lists["plain"])
    np.testing.assert_allclose(both.score, both.score_now)
    assert read_table(runs["fitted"], "recommendations").odds_to_change.isna().all()


def test_a_list_of_users_is_served_alone(trained: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    wanted = pd.DataFrame({"user": ["u03", "u07", "u03", "stranger"]})
    (tmp_path / "users").mkdir()
    wanted.to_csv(tmp_path / "users" / "part-0.csv", index=False)
    by_hand = shutil.copytree(run_directory(trained / "nightly") / "model", tmp_path / "by-hand" / "model")
    whose = {"model.path": by_hand, "recommend.users": tmp_path / "users"}

    run = publish(Recommend, {**settings, **whose, "recommend.exclude_seen": "false"})
    assert lists_of(run).user_id.tolist() == ["u03"] * 3 + ["u07"] * 3
    record = record_of(run)
    assert (record["counts"]["users_asked"], record["counts"]["users_known"]) == (3, 2)
    assert "1 of the 3 users in recommend.users are not in the model" in record["warnings"][0]


def test_a_training_user_by_another_name_gets_the_same(trained: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    known = ratings().query("user == 'u03'").assign(user="new")
    more = pd.DataFrame([("new", "unknown", 3.0), ("new", "i04", 9.0)], columns=known.columns)
    pd.concat([known, more]).to_csv(tmp_path / "new.csv", index=False)
    origin = run_directory(trained / "nightly")
    places = {"model.path": origin / "model", "input.format": "csv", "input.path": tmp_path / "new.csv"}

    run = publish(FoldIn, {**settings, **places, "validation.max_reject_share": 0.5})
    before = lists_of(origin).query("user_id == 'u03'").assign(user_id="new").reset_index(drop=True)
    assert_frame_equal(lists_of(run), before, rtol=0, atol=1e-6)
    factors, old = (read_table(directory, "user_factors").set_index("id") for directory in (run, origin))
    assert list(factors.index) == ["new"]
    for column in ("features", "exposure_shape", "exposure_rate"):
        assert factors.loc["new", column] == pytest.approx(old.loc["u03", column], abs=1e-6)
    record = record_of(run)
    assert (record["job"], record["counts"]["users"], record["counts"]["ratings_of_unknown_items"]) == ("fold_in", 1, 1)
    assert record["model_version"] == record_of(origin)["model_version"]
    assert [list(reasons) for reasons in read_table(run, "rejects").reasons] == [["out_of_scale"]]


def test_a_warm_start_takes_fewer_iterations(trained: Path, fit_again: dict[str, Any], tmp_path: Path) -> None:
    output = Path(shutil.copytree(trained / "nightly", tmp_path / "nightly"))
    origin = run_directory(output)
    cold = record_of(origin)
    assert cold["source"] is None
    assert any(warning.startswith("a cold start: there is no previous run") for warning in cold["warnings"])

    warm = record_of(publish(Retrain, {**fit_again, "output.path": output, "model.warm_start": "previous"}))
    assert warm["source"]["run_id"] == cold["run_id"]
    assert warm["source"]["path"] == f"file://{origin}/model"
    for stage in ("exposure", "outcome"):
        assert warm["iterations"][stage] < cold["iterations"][stage], stage
        assert warm["iterations"][stage] == len(warm["objectives"][stage])
    assert warm["config_hash"] == cold["config_hash"]
    assert warm["model_version"] != cold["model_version"]  # the same settings and data, another start
    assert not list(run_directory(output).glob("model/data-*/params/*"))  # its predecessor is not saved in it


def test_a_warm_start_from_a_model_of_other_ids_warns(trained: Path, fit_again: dict[str, Any], tmp_path: Path) -> None:
    strangers = ratings().assign(item=lambda of: of["item"] + " of another shop")
    strangers.to_parquet(tmp_path / "strangers.parquet")
    given = {**fit_again, "model.warm_start": trained / "nightly", "outcome.max_iter": 2, "exposure.max_iter": 2}
    expected = "a cold start: the model to start from knows no item of the ratings; are its ids theirs? (model.warm_s"
    for path, warns in ((tmp_path / "strangers.parquet", True), (trained / "ratings.parquet", False)):
        record = record_of(publish(Retrain, {**given, "input.path": path}))
        assert any(warning.startswith(expected) for warning in record["warnings"]) == warns


NOT_SERVED: dict[str, tuple[list[type[AnyJob]], dict[str, Any], int, str]] = {
    "no model is named": ([Recommend, FoldIn], {"model.path": "null"}, 2, "setting model.path: found null"),
    "it is no model": ([FoldIn], {"model.path": "{folder}/ratings.parquet"}, 3, "is no model that dcrec"),
    "its run has no model": ([Recommend], {"model.path": "{folder}/without"}, 3, "is a run without a model"),
    "no ratings to exclude": ([Recommend], {"input.path": "null"}, 2, "setting recommend.exclude_seen is true"),
    "intervals without ratings": (
        [Recommend], {"recommend.extra": "[intervals]", "recommend.exclude_seen": "false"}, 2, "intervals needs all"
    ),
    "no ratings are named": ([FoldIn], {"input.path": "null"}, 2, "setting input.path: found null"),
    "a list of nobody": ([Recommend], {"recommend.users": "{folder}/strangers"}, 3, "knows none of its 1 users"),
    "a list without users": ([Recommend], {"recommend.users": "{folder}/items"}, 3, "no column 'user': found 'item'"),
    "a list of another kind": ([Recommend], {"recommend.users": "{folder}/numbers"}, 2, "users: user ids are bigint"),
    "a start from another rank": (
        [Retrain], {"outcome.rank": 3, "model.warm_start": "{folder}/nightly"}, 2,
        "setting model.warm_start: initialModel was fitted with rank=2 (here 3): a warm start needs the same",
    ),
    "the model's own place": ([FoldIn], {"output.path": "{folder}/nightly"}, 2, "setting output.path: "),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_SERVED)
def test_what_cannot_be_served_is_refused(
    what: str, trained: Path, settings: dict[str, Any], fit_again: dict[str, Any], tmp_path: Path
) -> None:
    jobs, changed, code, said = NOT_SERVED[what]
    before = current_run_id(str(trained / "nightly"))
    chosen = {name: str(value).format(folder=trained) for name, value in changed.items()}
    for job in jobs:
        run_job(job, {**(fit_again if job is Retrain else settings), **chosen}, code=code, words=said)
        assert names_in(tmp_path / "out") == set()
        assert job is not Retrain or "fit" not in failure_of(tmp_path / "out")["timings"]
    assert current_run_id(str(trained / "nightly")) == before
