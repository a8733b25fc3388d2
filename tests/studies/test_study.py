"""The study: rows that are tuned alike, parts that share no pair, measures of known scores, the published page."""

import json
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from studies.data import DATA, DataSet, coat, fair, movielens
from studies.page import Change, change, write_page
from studies.rows import BASELINE, BLEND, DEFAULT, MLLIB, MODELS, PLACEBO, POPULARITY, Fits, draw
from studies.run import PLANS, RESULTS, Plan, choose, measure, read_cells, run_unit

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "studies"


@pytest.fixture(scope="module")
def raises() -> DataSet:
    return fair("raises", False, Path(), 0)


def pairs(of: DataSet) -> list[set[tuple[int, int]]]:
    parts = [(part.user, part.item) for part in (of.train, of.validation)] + [(of.test["user"], of.test["item"])]
    return [set(zip(user.tolist(), item.tolist(), strict=True)) for user, item in parts]


def test_no_row_is_tuned_harder_than_another() -> None:
    assert all(list(draw(row, 4, 1)) == list(draw(BASELINE, 4, 1)) for row in MODELS)
    assert [len(list(draw(row, 4, 1))) for row in (BASELINE, MLLIB, POPULARITY)] == [4, 4, 1]
    assert not any("regByCount" in {**settings, **MODELS[row]} for row in MODELS for settings in draw(row, 4, 1))


def test_parts_share_no_pair(raises: DataSet) -> None:
    train, validation, test = pairs(raises)
    assert not train & validation
    assert not (train | validation) & test
    assert len(validation) / len(train | validation) == pytest.approx(0.2, abs=0.02)


def test_files_are_read_and_coats_test_has_no_pair_of_its_training(tmp_path: Path) -> None:
    (tmp_path / "coat" / "user_item_features").mkdir(parents=True)
    (tmp_path / "coat" / "train.ascii").write_text("5 0 1\n0 2 0\n")
    (tmp_path / "coat" / "test.ascii").write_text("5 3 0\n0 2 4\n")
    for side, lines in (("user", "1 0\n0 1\n"), ("item", "1\n0\n1\n")):
        (tmp_path / "coat" / "user_item_features" / f"{side}_features.ascii").write_text(lines)
    read = coat(tmp_path, 0)
    assert list(zip(*(read.test[name].tolist() for name in ("user", "item", "rating")), strict=True)) == [
        (0, 1, 3.0),
        (1, 2, 4.0),
    ]
    assert len(read.whole.rating) == 3
    assert [None if of is None else of.shape for of in read.features] == [(2, 2), (3, 1)]
    (tmp_path / "r.dat").write_text(
        "\n".join(f"{u}::{i}::{1 + (u + i) % 5}::9" for u in (3, 7) for i in range(20)) + "\n"
    )
    film = movielens("r.dat", "::", tmp_path, 1)
    assert len(film.whole.rating) + len(film.test["rating"]) == 40
    assert film.whole.rating[0] == 1 + ((3, 7)[film.whole.user[0]] + film.whole.item[0]) % 5


def test_the_truth_itself_has_no_regret_and_its_lists_leave_out_what_is_seen(raises: DataSet) -> None:
    best, constant = (measure(scores, raises, True) for scores in (raises.expected, np.full((600, 600), 3.0)))
    assert best["regret"] == pytest.approx(0, abs=1e-5)
    assert best["mse"] < constant["mse"]
    assert best["value"] > constant["value"] + 1
    assert constant["catalogue_largest_share@10"] > 0.9


@pytest.mark.job
def test_a_unit_tunes_and_measures_every_row(raises: DataSet) -> None:
    found = run_unit(raises, Plan(1, 2, ("cmfrec", "implicit ALS", "MLlib ALS, implicit")))
    assert set(found) == {POPULARITY, *MODELS, MLLIB, BLEND}
    errors = {row: found[row]["mse"] for row in (BASELINE, DEFAULT, PLACEBO, BLEND)}
    assert errors[DEFAULT] < 0.8 * errors[BASELINE]
    assert errors[PLACEBO] > 0.95 * errors[BASELINE]
    assert errors[BLEND] < 0.85 * errors[BASELINE]
    assert sum(found[BLEND]["settings"].values()) == pytest.approx(1, abs=0.01)
    assert "mse" not in found[POPULARITY]


def test_settings_are_chosen_by_validation(raises: DataSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def score(self: Fits, row: str, ratings: object, settings: dict, is_trial: bool = False) -> np.ndarray:
        return np.full((600, 600), settings["rank"] * 1.0)

    monkeypatch.setattr(Fits, "score", score)
    settings, predicted = choose(Fits(replace(raises, seed=1)), BASELINE, 6)
    tried = [of["rank"] for of in draw(BASELINE, 6, 1)]
    assert settings["rank"] == min(tried, key=lambda rank: abs(rank - raises.whole.rating.mean()))
    assert set(predicted) == {settings["rank"]}


def test_a_change_has_the_interval_of_student_and_claims_nothing_with_three_seeds() -> None:
    cells = [{"a": {"mse": of}, BASELINE: {"mse": 1.0}} for of in (0.88, 0.9, 0.92, 0.9)]
    found = change(cells, "a")
    assert found.mean == pytest.approx(-10)
    assert found.high - found.mean == pytest.approx(3.1824 * np.std([88, 90, 92, 90], ddof=1) / 2, rel=1e-3)
    assert found.is_claimed
    assert not change(cells[:3], "a").is_claimed
    assert str(change(cells[:1], "a")) == "-12.0 %"
    assert str(Change(1.0, -1.0, 3.0, 5)) == "+1.0 % [-1.0, +3.0]"


def test_the_published_page_is_that_of_the_published_units(tmp_path: Path) -> None:
    cells = read_cells(RESULTS)
    assert cells.keys() <= DATA.keys() == PLANS.keys()
    assert write_page(cells, tmp_path).read_text() == (PUBLISHED / "README.md").read_text()
    assert (PUBLISHED / "changes.svg").exists()
    assert "+113 %" in (tmp_path / "changes.svg").read_text()  # beyond the edge, and yet in the picture
    with ZipFile(RESULTS) as archive:
        assert all(json.loads(archive.read(name)) for name in archive.namelist())
