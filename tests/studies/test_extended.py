"""The study of the extended model: rows that are tuned alike, worlds as parts, and a page of what there is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from studies.compare import Cell, Comparison, compare, inverse_propensities
from studies.extended import ALS_SETTINGS, BUDGET, STUDIES, als_settings, fair_world, units
from studies.extended_page import write_extended_page
from studies.extended_rows import ALL_ROWS, BIASED, DECONFOUNDED, ROWS, SHUFFLED
from studies.rows import Budget

BY_NAME = {row.name: row for row in ALL_ROWS}
OF_PREFERENCE = ("rank", "regByCount", "regParam", "maxIter", "tol", "seed")


def test_rows_without_a_confounder_choose_among_the_same_settings_and_als_among_as_many_or_more() -> None:
    drawn = {row.name: list(row.settings(Budget(draws=5), seed=3)) for row in ROWS if row.follows is None}
    of_preference = {
        name: [[outcome[setting] for setting in OF_PREFERENCE] for outcome, _ in samples]
        for name, samples in drawn.items()
    }
    assert all(samples == of_preference[BIASED] for samples in of_preference.values())
    assert len(ALS_SETTINGS) == BUDGET.draws
    assert all(len(als_settings(study.budget)) >= study.budget.draws for study in STUDIES.values())
    assert all(exposure is None for samples in drawn.values() for _, exposure in samples)


def test_a_row_with_a_confounder_takes_its_twins_settings_and_draws_the_confounder_alone() -> None:
    twin = next(BY_NAME[BIASED].settings(Budget(draws=1), seed=3))
    chosen = twin[0]
    drawn = {row.name: list(row.settings(Budget(draws=5), 3, twin)) for row in ROWS if row.follows == BIASED}
    for outcome, exposure in (sample for samples in drawn.values() for sample in samples):
        assert {name: outcome[name] for name in OF_PREFERENCE} == {name: chosen[name] for name in OF_PREFERENCE}
        assert outcome["adjustment"] == "deconfounded"
        assert exposure is not None
    assert len({json.dumps(sample) for sample in drawn[DECONFOUNDED]}) > 1
    assert drawn[DECONFOUNDED] == drawn[SHUFFLED]
    assert BY_NAME[SHUFFLED].confounder == "permuted"
    twins = {row.name: BY_NAME[row.follows].fixed for row in ROWS if row.follows is not None}
    assert all(twin.items() <= {**BY_NAME[name].fixed, "adjustment": "none"}.items() for name, twin in twins.items())


def test_a_row_of_inverse_propensities_takes_what_was_chosen_and_draws_its_cap() -> None:
    twin = next(BY_NAME[BIASED].settings(Budget(draws=1), seed=3))
    for outcome, exposure in BY_NAME["biased, inverse propensities of ratings"].settings(Budget(draws=5), 3, twin):
        assert outcome.items() >= {**twin[0], "adjustment": "ipw"}.items()
        assert exposure is None


def test_pairs_that_few_come_across_weigh_more() -> None:
    parts = fair_world("none", 300, None, Path(), 1)  # type: ignore[arg-type]
    weights, items = inverse_propensities(parts, "validation"), parts.of["validation"]["item"]
    popularity = np.bincount(parts.ratings("train").item, minlength=300)[items]
    assert weights.mean() == pytest.approx(1)
    assert weights.min() > 0
    few = popularity <= np.median(popularity)
    assert weights[few].mean() > 1.5 * weights[~few].mean()


def test_a_world_keeps_its_test_pairs_out_of_the_fit(tmp_path: Path) -> None:
    parts = fair_world("lowers", 80, None, tmp_path, 1)  # type: ignore[arg-type]  # worlds are drawn without Spark
    pairs = {name: set(zip(of["user"].tolist(), of["item"].tolist(), strict=True)) for name, of in parts.of.items()}
    assert not pairs["test"] & (pairs["train"] | pairs["validation"])
    assert not pairs["train"] & pairs["validation"]
    assert 0.7 < len(pairs["train"]) / (len(pairs["train"]) + len(pairs["validation"])) < 0.95
    assert np.isin(parts.of["test"]["item"], parts.ratings("train", "validation").item).all()


def test_every_study_has_its_seeds_as_units(tmp_path: Path) -> None:
    names = [unit.name for unit in units(tmp_path)]
    assert len(set(names)) == len(names) == sum(study.seeds for study in STUDIES.values())
    assert {"coat-seed-4", "world-single-item-seed-4"} <= set(names)


def test_a_fit_is_measured_on_what_users_choose_as_they_do_and_as_if_items_were_alike(spark: SparkSession) -> None:
    parts = fair_world("raises", 60, spark, Path(), 1)
    held_out = parts.of["validation"]
    first = held_out["user"] < 30
    halves = {"validation": first, "regular": ~first}
    split = {name: {column: values[rows] for column, values in held_out.items()} for name, rows in halves.items()}
    parts = replace(parts, of={**parts.of, **split})
    budget = Budget(draws=1, max_iter=2)
    of = Comparison(parts, [BY_NAME[BIASED]], budget, 0, 2, als_settings=[(2, 0.1)], by_strata=False, choices=("mse",))
    groups = compare(spark, of, lambda _: None)["mse"]["groups"]
    for row in (BIASED, "mllib-als", "item-mean"):
        regular, reweighted = (groups[test]["metrics"][row] for test in ("regular", "reweighted"))
        assert regular["ndcg"] == reweighted["ndcg"]
        assert regular["mse"] != reweighted["mse"]
    known, regular = parts.ratings("train", "validation"), parts.of["regular"]
    weight = 1 / np.maximum(np.bincount(known.item, minlength=60)[regular["item"]], 1)
    error = (known.rating.mean() - regular["rating"]) ** 2
    found = [groups[test]["metrics"]["global-mean"]["mse"][0] for test in ("regular", "reweighted")]
    assert found == pytest.approx([error.mean(), np.average(error, weights=weight)], abs=1e-6)


def a_cell(errors: Mapping[str, float], choices: Sequence[str], regular: float = 2.0) -> Cell:
    """Rows with these errors on random pairs by the first choice, .25 smaller by the next; all alike on the others."""
    cell: Cell = {"test": 7, "items_missing": 2, "choices": {choice: {} for choice in choices}}
    for number, choice in enumerate(choices):
        of_rows = {row: list(error - number / 4 + np.array([0.0, -0.01, 0.01])) for row, error in errors.items()}
        metrics = {row: dict.fromkeys(("mse", "ndcg", "item_mse"), values) for row, values in of_rows.items()}
        tests = {
            test: {"metrics": {row: {"mse": [mse] * 3} for row in errors}}
            for test, mse in (("regular", regular), ("reweighted", 1.0))
        }
        cell[choice] = {"metrics": metrics, "groups": tests}
    return cell


def test_the_page_tells_what_was_run_and_what_was_not(tmp_path: Path) -> None:
    cells = [a_cell({BIASED: 1.25, DECONFOUNDED: 1.0, SHUFFLED: 1.5}, ["mse"])] * 2
    page = write_extended_page({"a": ("Here", cells), "b": ("There", [])}, tmp_path).read_text(encoding="utf-8")
    assert "2 seeds, 7 test ratings; 2 items of the test unknown." in page
    assert "| biased | 1.250 | 1.250 | 1.250 |" in page
    assert f"| {DECONFOUNDED} - biased | " in page
    assert "-0.250 [" in page
    assert "| biased | 2.000 | 1.000 | 1.250 | 2.000 |" in page
    assert "Not run: There." in page
    cells[0]["test"] = 8
    again = write_extended_page({"a": ("Here", []), "b": ("There", cells)}, tmp_path).read_text(encoding="utf-8")
    assert page.partition("## Here")[2].partition("\nNot run")[0].strip() in again
    assert "8 test ratings" in again.partition("## There")[2]
    assert "Not run" not in again


def test_seeds_whose_tests_differ_in_size_are_told_by_their_span(tmp_path: Path) -> None:
    cells = [a_cell({BIASED: 1.25, DECONFOUNDED: 1.0, SHUFFLED: 1.5}, ["mse"]) for _ in range(2)]
    cells[1] |= {"test": 1009, "items_missing": 0}
    page = write_extended_page({"a": ("Here", cells)}, tmp_path).read_text(encoding="utf-8")
    assert "2 seeds, 7 to 1,009 test ratings; 0 to 2 items of the test unknown." in page


def test_a_row_is_compared_with_the_twin_that_it_follows_whatever_chooses_its_confounder(tmp_path: Path) -> None:
    """Its twin chose by MSE; what the twin would have had by another choice is another model."""
    cells = [a_cell({BIASED: 1.25, DECONFOUNDED: 1.0, SHUFFLED: 1.5}, ["mse", "weighted_mse"])] * 2
    page = write_extended_page({"a": ("Here", cells)}, tmp_path).read_text(encoding="utf-8")
    first, second = page.split("Chosen by")[1:]
    assert f"| {DECONFOUNDED} - biased | -0.250 [" in first
    assert f"| {DECONFOUNDED} - biased (chosen by MSE) | -0.500 [" in second
    assert f"| {DECONFOUNDED} - {SHUFFLED} | -0.500 [" in second


def test_the_worst_error_of_a_row_is_that_of_the_test_where_it_is_worst(tmp_path: Path) -> None:
    """Errors on the other tests are alike, so the difference of the worst is none where these are the worst."""
    errors = {BIASED: 1.25, DECONFOUNDED: 1.0, SHUFFLED: 1.5}
    for regular, expected in ((2.0, "+0.000"), (0.5, "-0.250")):
        cells = [a_cell(errors, ["mse"], regular)] * 2
        page = write_extended_page({"a": ("Here", cells)}, tmp_path).read_text(encoding="utf-8")
        differences = page.partition("| difference | regular |")[2]
        line = next(line for line in differences.splitlines() if line.startswith(f"| {DECONFOUNDED} - biased |"))
        assert [part.split()[0] for part in line.split("|")[2:6]] == ["+0.000", "+0.000", "-0.250", expected]
