"""The studies on tiny worlds: fair draws, cells that are kept, a page that says what was found."""

import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from studies import compare, paper
from studies import rows as module_of_rows
from studies import units as module
from studies.datasets import DATASETS
from studies.page import write_page
from studies.profiles import PROFILES, YAHOO, OfData, OfSimulation, Profile
from studies.reproduce import Reproduce
from studies.rows import PLAIN, Budget, Row, described, plain_rows, rows, settings
from studies.run import collected, run_units, write_results
from studies.simulation import Point, density
from studies.summary import difference, figure
from studies.units import read, units
from tests.jobs.job import failure_of, record_of, run_job

pytestmark = pytest.mark.job

TINY = Budget(draws=1, most_rank=2, max_iter=3)
WORLD = OfSimulation("rate", 24, 3, 1, TINY, preference=(0.5,), outcome=(3.0,), test_pairs_per_user=8, ranks=(2,))


def coat_files(folder: Path, sizes: tuple[int, int] = (30, 20)) -> Path:
    """Training and test tables as Coat has them: a row of ratings for each user, 0 where there is none."""
    rng = np.random.default_rng(2)
    (folder / "coat").mkdir(parents=True)
    for part, share in (("train", 0.5), ("test", 0.4)):
        table = rng.integers(1, 6, sizes) * (rng.random(sizes) < share)
        lines = "\n".join(" ".join(map(str, row)) for row in table)
        (folder / "coat" / f"{part}.ascii").write_text(lines + "\n")
    return folder


# Rows


def test_no_row_is_tuned_harder_than_another() -> None:
    """All rows of an outcome draw the same settings of it, as often."""
    budget = Budget(draws=7)
    for outcome in paper.OUTCOMES:
        drawn = {row.name: list(settings(row, budget, 3)) for row in rows() if row.outcome == outcome}
        assert {len(draws) for draws in drawn.values()} == {7}
        classical = [of[0] for of in drawn[f"{outcome}-none"]]
        own = {"adjustment", "confounderReg", "confounderWeight"}
        if outcome == "probabilistic":
            own.add("unobservedWeight")
        for name, draws in drawn.items():
            apart = own | {"fitIntercept"} if "no-intercept" in name else own
            shared = [{k: v for k, v in of[0].items() if k not in apart} for of in draws]
            assert shared == [{k: v for k, v in of.items() if k not in apart} for of in classical], name
            assert "no-intercept" not in name or not any(of[0]["fitIntercept"] for of in draws)
            assert all((of[1] is not None) == ("deconfounded" in name) for of in draws)


def test_placebos_are_the_deconfounded_rows_with_another_confounder() -> None:
    fitted, permuted = Row("weighted", "deconfounded"), Row("weighted", "deconfounded", "permuted")
    assert list(settings(fitted, TINY, 0)) == list(settings(permuted, TINY, 0))
    assert {row.name for row in rows()} >= set(paper.ROWS)
    assert len(rows()) == 18


def test_plain_settings_differ_in_the_confounder_alone() -> None:
    budget = Budget(draws=4, plain=True)
    for outcome in paper.OUTCOMES:
        drawn = {row.name: list(settings(row, budget, 3)) for row in plain_rows() if row.outcome == outcome}
        own = {"adjustment", "confounderWeight", "fitIntercept"}
        shared = [[{k: v for k, v in of[0].items() if k not in own} for of in draws] for draws in drawn.values()]
        assert all(of == shared[0] for of in shared)
        assert len(shared[0]) == budget.draws
        first = [draws[0][0] for draws in drawn.values()]
        assert [of.get("confounderWeight") for of in first] == [None, "user", *["global"] * 3, None, "global"]
        assert [of["fitIntercept"] for of in first] == [True] * 5 + [False] * 2


def test_the_papers_tables_are_whole() -> None:
    tables = [*paper.EXISTING_USERS.values(), *paper.NEW_USERS.values(), *paper.REGULAR_TEST.values()]
    assert all(list(table) == paper.ROWS for table in tables)
    assert paper.EXISTING_USERS["coat"]["weighted-deconfounded"] == (0.744, 0.581, 1.569)


# Data


def test_coat_keeps_its_random_test_but_for_what_is_in_training(spark: SparkSession, tmp_path: Path) -> None:
    folder = coat_files(tmp_path)
    parts = DATASETS["coat"](spark, folder, 0)
    train, test = (np.loadtxt(folder / "coat" / f"{name}.ascii") for name in ("train", "test"))
    fit = parts.ratings("train", "validation")
    assert len(fit.user) == pytest.approx((train > 0).sum(), abs=3)  # a validation pair of an unknown item is left out
    pairs = parts.of["test"]
    assert len(pairs["user"]) == ((test > 0) & (train == 0)).sum()
    known = np.zeros((len(parts.user_key), len(parts.item_key)), bool)
    known[fit.user, fit.item] = True
    assert not known[pairs["user"], pairs["item"]].any()


def test_new_users_are_in_no_part_of_the_fit(spark: SparkSession, tmp_path: Path) -> None:
    parts = DATASETS["coat-new-users"](spark, coat_files(tmp_path), 0)
    fitted, new = set(parts.ratings("train", "validation").user), set(parts.of["fold_in"]["user"])
    assert fitted
    assert new
    assert not fitted & new
    assert set(parts.of["test"]["user"]) <= new


def test_new_users_are_tuned_on_new_users(spark: SparkSession, tmp_path: Path) -> None:
    """Validation is of users who are new to the fits that it chooses among."""
    parts = DATASETS["coat-new-users"](spark, coat_files(tmp_path), 0)
    validated = set(parts.of["validation"]["user"])
    assert validated
    assert validated <= set(parts.of["validation_fold_in"]["user"])
    assert not validated & set(parts.of["train"]["user"])
    assert not set(parts.of["validation_fold_in"]["user"]) & set(parts.of["fold_in"]["user"])


def test_yahoo_r3_is_read_from_its_original_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "yahoo-r3"
    folder.mkdir()
    train = [(user, song, 1 + (user + song) % 5) for user in range(1, 13) for song in range(1, 11) if (user * song) % 3]
    test = [(user, song, 1 + user % 5) for user in range(1, 13) for song in (3, 6, 9)]
    for name, triples in (("train", train), ("test", test)):
        text = "".join(f"{user}\t{song}\t{rating}\n" for user, song, rating in triples)
        (folder / f"ydata-ymusic-rating-study-v1_0-{name}.txt").write_text(text)
    parts = DATASETS["yahoo-r3"](spark, tmp_path, 0)
    assert len(parts.ratings("train", "validation").user) == len(train)
    random = set(test) - set(train)
    songs = {song for _, song, _ in train}
    assert len(parts.of["test"]["user"]) == sum(song in songs for _, song, _ in random)
    strangers = DATASETS["yahoo-r3-new-users"](spark, tmp_path, 0)
    assert set(strangers.of["test"]["user"]) <= set(strangers.of["fold_in"]["user"])
    assert not set(strangers.of["test"]["user"]) & set(strangers.ratings("train", "validation").user)


# Runs


@pytest.fixture(scope="module")
def profile() -> Profile:
    data = {"coat": OfData(1, TINY, placebos=True), "coat-new-users": OfData(1, TINY)}
    between = replace(WORLD, preference=(), outcome=(), ranks=(), spreads=(0.6,))
    plain = replace(between, budget=replace(TINY, plain=True))
    return Profile(
        data, {"dense": WORLD, "between": between, "plain": plain}, sweeps=(1, 3), cut=["Everything is tiny."]
    )


def reproduce(spark: SparkSession, profile: Profile, folder: Path) -> None:
    """What the job does with a profile: run what is not done, write the page."""
    data, cells = folder / "data", folder / "cells"
    run_units(spark, list(units(profile, data, cells)), cells)
    write_results(profile, data, cells, folder / "page", "make reproduce")


@pytest.fixture(scope="module")
def work(spark: SparkSession, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    coat_files(folder / "data")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compare, "ALS_SETTINGS", [(2, 0.1)])
        patched.setattr(module_of_rows, "PLAIN", {outcome: given[:1] for outcome, given in PLAIN.items()})
        reproduce(spark, profile, folder)
    return folder


def test_everything_is_run_and_on_the_page(profile: Profile, work: Path) -> None:
    found = collected(profile, work / "data", work / "cells")
    simulated = {"dense-preference-0.5", "dense-outcome-3.0", "dense-rank-2", "between-spread-0.6", "plain-spread-0.6"}
    assert found.keys() == {"coat", "coat-new-users", "coat-sweeps", *simulated}
    assert list(found["dense-rank-2"][0]["mse"]["metrics"])[:2] == ["probabilistic-none", "probabilistic-deconfounded"]
    page = (work / "page" / "README.md").read_text()
    assert "* Cut: Everything is tiny." in page
    assert "Not finished" not in page
    for row in (*paper.ROWS, "item-mean", "popularity", "mllib-als"):
        assert f"| {described(row)} |" in page
    assert 0 < figure(found["coat"], "mse", "mllib-als", "mse").value < 16  # predictions on the scale of the ratings
    shown = figure(found["coat"], "ndcg", "weighted-deconfounded", "ndcg")
    assert f"{shown.value:.3f} [{shown.low:.3f}, {shown.high:.3f}]" in page
    pictures = sorted(path.name for path in (work / "page").glob("*.png"))
    drawn = ("between-spread", "dense-outcome", "dense-preference")
    assert pictures == [f"{sweep}-{metric}.png" for sweep in drawn for metric in ("mse", "ndcg")]
    assert "| weighted-deconfounded minus permuted | " in page
    assert "| weighted-none-no-intercept (the paper's classical model) | " in page
    assert "by the items' number of training ratings" in page
    assert "| global-mean | " in page[page.index("## Simulation") :]
    between = page[page.index("## Simulation, between the readings") :]
    assert "| poisson-deconfounded-permuted | " in between
    assert "| weighted-deconfounded-global-popularity | " in page[page.index("plain settings") :]


def test_between_the_readings_no_test_pair_is_in_the_ratings() -> None:
    """The rate makes the world sparser; the paper's sweeps keep theirs."""
    world = Point("spread", 1.7, 4).settings(WORLD)
    assert (world.gamma_spread, world.test_pairs, world.gamma_reading, world.seed) == (1.7, "withheld", "rate", 4)
    assert density(world) == density(world.model_copy(update={"test_pairs": "all"}))
    paper_world = Point("outcome", 3.0, 4).settings(WORLD)
    assert world.model_copy(update={"gamma_spread": 0.3, "test_pairs": "all"}) == paper_world


def test_what_is_there_is_not_run_again(spark: SparkSession, profile: Profile, work: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (work / "cells").iterdir()}
    lost = work / "cells" / "dense-outcome-3.0-run-0.json.xz"
    first = lost.read_bytes()
    lost.unlink()
    reproduce(spark, profile, work)
    after = {path: path.stat().st_mtime_ns for path in (work / "cells").iterdir()}
    assert {path for path in after if after[path] != before[path]} == {lost}
    again, before_that = (json.loads(lzma.decompress(stored))["result"] for stored in (lost.read_bytes(), first))
    assert again == before_that


def test_cells_of_other_rows_are_not_taken(profile: Profile, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "spread_rows", lambda _of: plain_rows()[:2])
    found = collected(profile, work / "data", work / "cells")
    assert "dense-rank-2" in found
    assert "plain-spread-0.6" not in found


def asked(work: Path, **more: object) -> dict[str, object]:
    places = {"studies.data": work / "data", "studies.work": work / "cells", "output.path": work / "page"}
    return {**places, **more}


def test_the_job_goes_on_from_what_is_there_and_leaves_its_record(
    profile: Profile, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROFILES, "quick", profile)
    outcome = run_job(Reproduce, asked(work, **{"studies.only": "[coat]"}))
    assert outcome.code == 0, outcome
    assert "3 units, 3 of them there already" in outcome.printed
    record = record_of(work / "cells")
    assert (record["job"], record["status"], record["exit_code"]) == ("reproduce", "finished", 0)
    assert record["counts"] == {"units": 3, "units_before": 3}


REFUSED = {
    "a study that is none": (
        {"studies.only": "[coat, cote]"},
        "found 'cote', expected beginnings of between-spread-0.6",
    ),
    "no data": ({"studies.data": "nowhere"}, "setting studies.data: found 'nowhere', expected the folder"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_job_cannot_do_it_refuses(
    case: str, profile: Profile, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PROFILES, "quick", profile)
    settings, message = REFUSED[case]
    page = (work / "page" / "README.md").stat().st_mtime_ns
    outcome = run_job(Reproduce, asked(work, **settings))
    assert outcome.code == 2, outcome
    assert message in outcome.message
    assert (work / "page" / "README.md").stat().st_mtime_ns == page


def test_a_study_that_fails_leaves_its_record_and_what_was_done(
    profile: Profile, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two units are there; the data of the next are not."""
    monkeypatch.setitem(PROFILES, "quick", profile)
    (tmp_path / "data").mkdir()
    done = tmp_path / "cells" / "coat-seed-0.json.xz"
    done.parent.mkdir()
    done.write_bytes((work / "cells" / done.name).read_bytes())
    places = {"studies.data": tmp_path / "data", "studies.work": done.parent, "output.path": tmp_path / "page"}
    outcome = run_job(Reproduce, {**places, "studies.only": "[coat-]"})
    assert outcome.code == 3, outcome
    record = failure_of(done.parent)
    assert (record["job"], record["status"], record["exit_code"]) == ("reproduce", "failed", 3)
    assert done.exists()
    assert not (tmp_path / "page" / "README.md").exists()


def test_cells_of_other_settings_are_not_taken(profile: Profile, work: Path) -> None:
    harder = replace(profile, data={"coat": OfData(1, Budget(draws=2, most_rank=2, max_iter=3), with_als=False)})
    unit = next(iter(units(harder, work / "data", work / "cells")))
    assert unit.name == "coat-seed-0"
    assert read(unit, work / "cells") is None


def test_a_page_of_half_a_study_says_so(profile: Profile, work: Path, tmp_path: Path) -> None:
    found = collected(profile, work / "data", work / "cells")
    del found["coat-new-users"]
    page = write_page(profile, found, tmp_path, "make reproduce", ["coat-new-users-seed-0", "x"]).read_text()
    assert "* Not finished: coat-new-users-seed-0, x." in page
    assert "## Coat, new users" not in page


def test_profiles_name_data_sets_that_are_known() -> None:
    for chosen in PROFILES.values():
        assert chosen.data.keys() | YAHOO.keys() <= DATASETS.keys()
        assert chosen.cut


# Summaries


def cell(*replications: float) -> dict[str, object]:
    metrics = {"a": {"ndcg": list(replications)}, "b": {"ndcg": [0.5] * len(replications)}}
    return {"ndcg": {"metrics": metrics, "groups": {}}}


def test_a_figure_is_the_mean_over_seeds_and_its_interval_resamples_them() -> None:
    """Of one seed the interval is that of its replications."""
    replications = np.linspace(-0.1, 0.1, 101)
    seeds = [cell(value, *(value + replications)) for value in (0.6, 0.7, 0.8, 0.9)]
    alone, found = (figure(cells, "ndcg", "a", "ndcg") for cells in (seeds[:1], seeds))
    assert (alone.value, alone.low, alone.high) == pytest.approx((0.6, 0.505, 0.695))
    assert found.value == pytest.approx(0.75)
    assert found.high - found.low > 1.1 * (alone.high - alone.low)
    assert found.sd == pytest.approx(np.std([0.6, 0.7, 0.8, 0.9], ddof=1))
    assert figure([cell(0.6)], "ndcg", "a", "ndcg")[:3] == pytest.approx((0.6, np.nan, np.nan), nan_ok=True)


def test_a_difference_is_one_where_its_interval_leaves_out_zero_and_seeds_are_enough() -> None:
    seeds = [cell(value, *np.linspace(value - 0.05, value + 0.05, 101)) for value in (0.7, 0.71, 0.72, 0.73)]
    against = difference(seeds, "ndcg", "a", "b", "ndcg")
    assert against.value == pytest.approx(0.215)
    assert against.leaves_out_zero
    assert not difference(seeds[:3], "ndcg", "a", "b", "ndcg").leaves_out_zero
    assert not difference(seeds, "ndcg", "b", "b", "ndcg").leaves_out_zero
