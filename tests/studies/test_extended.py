"""The study of the extended model: rows that are tuned alike, simulated parts, the published units and their page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from studies.compare import Comparison, compare, inverse_propensities
from studies.extended import ALS_SETTINGS, BUDGET, RESULTS, STUDIES, als_settings, fair_parts, published, units
from studies.extended_page import write_extended_page
from studies.extended_rows import ALL_ROWS, BIASED, DECONFOUNDED, ROWS, SHUFFLED
from studies.rows import Budget
from studies.units import Archive, Cell

BY_NAME = {row.name: row for row in ALL_ROWS}
OF_PREFERENCE = ("rank", "regByCount", "regParam", "maxIter", "tol", "seed")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "studies" / "extended" / "README.md"


def preference_of(settings: Mapping[str, object]) -> list[object]:
    return [settings[name] for name in OF_PREFERENCE]


def test_rows_without_a_confounder_choose_among_the_same_settings_and_als_among_as_many_or_more() -> None:
    drawn = {row.name: list(row.draw(Budget(draws=5), 3, None)) for row in ROWS if row.follows is None}
    preferences = {name: [preference_of(outcome) for outcome, _ in samples] for name, samples in drawn.items()}
    assert all(samples == preferences[BIASED] for samples in preferences.values())
    assert all(exposure is None for samples in drawn.values() for _, exposure in samples)
    assert len(ALS_SETTINGS) == BUDGET.draws
    assert all(len(als_settings(study.budget)) >= study.budget.draws for study in STUDIES.values())


def test_a_row_with_a_confounder_takes_the_settings_of_its_baseline_and_draws_the_confounder_alone() -> None:
    chosen = next(BY_NAME[BIASED].draw(Budget(draws=1), 3, None))
    drawn = {row.name: list(row.draw(Budget(draws=5), 3, chosen)) for row in ROWS if row.follows == BIASED}
    for outcome, exposure in (sample for samples in drawn.values() for sample in samples):
        assert preference_of(outcome) == preference_of(chosen[0])
        assert (outcome["adjustment"], outcome["fitBiases"]) == ("deconfounded", True)
        assert exposure is not None
    assert len({json.dumps(sample) for sample in drawn[DECONFOUNDED]}) > 1
    assert drawn[DECONFOUNDED] == drawn[SHUFFLED]
    weighted = BY_NAME["biased, inverse propensities of ratings"].draw(Budget(draws=5), 3, chosen)
    assert all(outcome.items() >= {**chosen[0], "adjustment": "ipw"}.items() for outcome, _ in weighted)


def test_simulated_parts_keep_test_pairs_out_of_the_fit_and_rare_exposures_weigh_more() -> None:
    parts = fair_parts("none", 300, None, Path(), 1)  # type: ignore[arg-type]  # drawn without Spark
    pairs = {name: set(zip(of["user"].tolist(), of["item"].tolist(), strict=True)) for name, of in parts.of.items()}
    assert not pairs["test"] & (pairs["train"] | pairs["validation"])
    assert not pairs["train"] & pairs["validation"]
    assert 0.7 < len(pairs["train"]) / (len(pairs["train"]) + len(pairs["validation"])) < 0.95
    weights, items = inverse_propensities(parts, "validation"), parts.of["validation"]["item"]
    popularity = np.bincount(parts.ratings("train").item, minlength=300)[items]
    assert weights.mean() == pytest.approx(1)
    few = popularity <= np.median(popularity)
    assert weights[few].mean() > 1.5 * weights[~few].mean()


@pytest.mark.job
def test_a_fit_is_measured_on_what_users_choose_and_as_if_exposure_to_items_were_equal(spark: SparkSession) -> None:
    parts = fair_parts("raises", 60, spark, Path(), 1)
    held_out = parts.of["validation"]
    first = held_out["user"] < 30
    halves = {"validation": first, "regular": ~first}
    split = {name: {column: values[rows] for column, values in held_out.items()} for name, rows in halves.items()}
    parts = replace(parts, of={**parts.of, **split})
    budget = Budget(draws=1, max_iter=2)
    of = Comparison(parts, [BY_NAME[BIASED]], budget, 0, 2, als_settings=[(2, 0.1)], by_strata=False, choices=("mse",))
    groups = compare(spark, of)["mse"]["groups"]
    for row in (BIASED, "mllib-als", "item-mean"):
        regular, reweighted = (groups[test]["metrics"][row] for test in ("regular", "reweighted"))
        assert regular["ndcg"] == reweighted["ndcg"]
        assert regular["mse"] != reweighted["mse"]
    known, regular = parts.ratings("train", "validation"), parts.of["regular"]
    weight = 1 / np.maximum(np.bincount(known.item, minlength=60)[regular["item"]], 1)
    error = (known.rating.mean() - regular["rating"]) ** 2
    found = [groups[test]["metrics"]["global-mean"]["mse"][0] for test in ("regular", "reweighted")]
    assert found == pytest.approx([error.mean(), np.average(error, weights=weight)], abs=1e-6)


@pytest.mark.job
def test_the_published_archive_holds_every_unit_and_makes_the_published_page(tmp_path: Path) -> None:
    """A unit of other settings would silently be missing from the next page."""
    archive = Archive(RESULTS)
    assert archive.files() == {unit.file for unit in units(Path())}
    made = write_extended_page(published(Path(), archive), tmp_path).read_text(encoding="utf-8").splitlines()
    kept = PAGE.read_text(encoding="utf-8").splitlines()
    versions = 2  # the line that names the versions of this environment
    assert [line for n, line in enumerate(made) if n != versions] == [
        line for n, line in enumerate(kept) if n != versions
    ]


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


def test_the_page_compares_a_row_with_its_baseline_and_says_what_was_not_run(tmp_path: Path) -> None:
    """A baseline chose by MSE; what it would have had by another choice is another model."""
    errors = {BIASED: 1.25, DECONFOUNDED: 1.0, SHUFFLED: 1.5}
    cells = [a_cell(errors, ["mse", "weighted_mse"]) for _ in range(2)]
    cells[1] |= {"test": 1009, "items_missing": 0}
    page = write_extended_page({"a": ("Here", cells), "b": ("There", [])}, tmp_path).read_text(encoding="utf-8")
    assert "2 seeds, 7 to 1,009 test ratings; 0 to 2 items of the test unknown." in page
    assert "## There\n\nNot run." in page
    first, second = page.split("Chosen by")[1:]
    assert "| biased | 1.250 | 1.250 | 1.250 |" in first
    assert "| biased | 2.000 | 1.000 | 1.250 | 2.000 |" in first
    assert f"| {DECONFOUNDED} - biased | -0.250 [" in first
    assert f"| {DECONFOUNDED} - biased (chosen by MSE) | -0.500 [" in second
    assert f"| {DECONFOUNDED} - {SHUFFLED} | -0.500 [" in second


@pytest.mark.parametrize(("regular", "expected"), [(2.0, "+0.000"), (0.5, "-0.250")])
def test_the_worst_error_of_a_row_is_that_of_the_test_where_it_is_worst(
    regular: float, expected: str, tmp_path: Path
) -> None:
    """Errors on the other tests are alike, so the difference of the worst is none where these are the worst."""
    cells = [a_cell({BIASED: 1.25, DECONFOUNDED: 1.0, SHUFFLED: 1.5}, ["mse"], regular)] * 2
    page = write_extended_page({"a": ("Here", cells)}, tmp_path).read_text(encoding="utf-8")
    differences = page.partition("| difference | regular |")[2]
    line = next(line for line in differences.splitlines() if line.startswith(f"| {DECONFOUNDED} - biased |"))
    assert [part.split()[0] for part in line.split("|")[2:6]] == ["+0.000", "+0.000", "-0.250", expected]
