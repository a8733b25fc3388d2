"""The paper's studies on tiny data: rows that are tuned alike, splits, units that are kept, a page, the job."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import structlog
from click.testing import CliRunner
from pyspark.sql import SparkSession

from studies import compare as module_of_comparisons
from studies import paper
from studies import rows as module_of_rows
from studies.datasets import DATASETS
from studies.page import write_page
from studies.profiles import PROFILES, OfData, OfSimulation, Point, Profile, density
from studies.reproduce import main, units
from studies.rows import PLAIN, Budget, describe, paper_row, plain_rows, rows
from studies.summary import difference, figure
from studies.units import Archive, by_study, run_units

pytestmark = pytest.mark.job

TINY = Budget(draws=1, most_rank=2, max_iter=3)
DENSE = OfSimulation("rate", 24, 3, 1, TINY, preference=(0.5,), outcome=(3.0,), test_pairs_per_user=8)


def coat_files(folder: Path, sizes: tuple[int, int] = (30, 20)) -> Path:
    """Training and test tables as Coat has them: a row of ratings for each user, 0 where there is none."""
    rng = np.random.default_rng(2)
    (folder / "coat").mkdir(parents=True)
    for part, share in (("train", 0.5), ("test", 0.4)):
        table = rng.integers(1, 6, sizes) * (rng.random(sizes) < share)
        lines = "\n".join(" ".join(map(str, row)) for row in table)
        (folder / "coat" / f"{part}.ascii").write_text(lines + "\n")
    return folder


def test_no_row_is_tuned_harder_than_another() -> None:
    """All rows of an outcome draw the same settings of it, as often; placebos those of the deconfounded row."""
    fitted, permuted = (paper_row("weighted", "deconfounded", kind) for kind in ("fitted", "permuted"))
    assert list(fitted.draw(TINY, 0, None)) == list(permuted.draw(TINY, 0, None))
    assert {row.name for row in rows()} >= set(paper.ROWS)
    own = {"adjustment", "confounderReg", "confounderWeight", "unobservedWeight"}
    for outcome in paper.OUTCOMES:
        drawn = {row.name: list(row.draw(Budget(draws=7), 3, None)) for row in rows() if row.name.startswith(outcome)}
        for name, samples in drawn.items():
            apart = own | {"fitIntercept"} if "no-intercept" in name else own
            shared, classical = (
                [{k: v for k, v in sample[0].items() if k not in apart} for sample in of]
                for of in (samples, drawn[f"{outcome}-none"])
            )
            assert shared == classical, name
            assert "no-intercept" not in name or not any(sample[0]["fitIntercept"] for sample in samples)
            assert all((sample[1] is not None) == ("deconfounded" in name) for sample in samples)


def test_plain_settings_differ_in_the_confounder_alone() -> None:
    own = {"adjustment", "confounderWeight", "fitIntercept"}
    for outcome in paper.OUTCOMES:
        chosen = [row for row in plain_rows() if row.name.startswith(outcome)]
        drawn = [list(row.draw(Budget(draws=4, plain=True), 3, None)) for row in chosen]
        shared = [[{k: v for k, v in of[0].items() if k not in own} for of in samples] for samples in drawn]
        assert all(of == shared[0] for of in shared)
        first = [samples[0][0] for samples in drawn]
        assert [of.get("confounderWeight") for of in first] == [None, "user", *["global"] * 3, None, "global"]
        assert [of["fitIntercept"] for of in first] == [True] * 5 + [False] * 2


def test_coat_keeps_its_random_test_but_for_what_is_in_training(spark: SparkSession, tmp_path: Path) -> None:
    folder = coat_files(tmp_path)
    parts = DATASETS["coat"](spark, folder, 0)
    train, test = (np.loadtxt(folder / "coat" / f"{name}.ascii") for name in ("train", "test"))
    fit, pairs = parts.ratings("train", "validation"), parts.of["test"]
    assert len(fit.user) == pytest.approx((train > 0).sum(), abs=3)  # a validation pair of an unknown item is left out
    assert len(pairs["user"]) == ((test > 0) & (train == 0)).sum()
    assert not set(zip(fit.user, fit.item, strict=True)) & set(zip(pairs["user"], pairs["item"], strict=True))


def test_new_users_are_in_no_part_of_the_fit_and_are_tuned_on_new_users(spark: SparkSession, tmp_path: Path) -> None:
    parts = DATASETS["coat-new-users"](spark, coat_files(tmp_path), 0)
    new, validated = set(parts.of["fold_in"]["user"]), set(parts.of["validation"]["user"])
    assert new
    assert validated
    assert not set(parts.ratings("train", "validation").user) & new
    assert set(parts.of["test"]["user"]) <= new
    assert validated <= set(parts.of["validation_fold_in"]["user"])
    assert not validated & set(parts.of["train"]["user"])
    assert not set(parts.of["validation_fold_in"]["user"]) & new


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


@pytest.fixture(scope="module")
def profile() -> Profile:
    between = replace(DENSE, preference=(), outcome=(), spreads=(0.6,))
    plain = replace(between, budget=replace(TINY, plain=True))
    data = {"coat": OfData(1, TINY, placebos=True), "coat-new-users": OfData(1, TINY)}
    return Profile(data, {"dense": DENSE, "between": between, "plain": plain}, cut=("Everything is tiny.",))


@pytest.fixture(scope="module")
def work(spark: SparkSession, profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all units of the profile, and their page."""
    folder = tmp_path_factory.mktemp("studies")
    every = units(profile, coat_files(folder / "data"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module_of_comparisons, "ALS_SETTINGS", [(2, 0.1)])
        patched.setattr(module_of_rows, "PLAIN", {outcome: given[:1] for outcome, given in PLAIN.items()})
        run_units(spark, every, Archive(folder / "cells" / "units.zip"))
    found = by_study(every, Archive(folder / "cells" / "units.zip").read(every))
    write_page(profile, found, folder / "page", "make reproduce")
    return folder


def test_everything_is_run_and_on_the_page(profile: Profile, work: Path) -> None:
    every = units(profile, work / "data")
    found = by_study(every, Archive(work / "cells" / "units.zip").read(every))
    simulated = {"dense-preference-0.5", "dense-outcome-3.0", "between-spread-0.6", "plain-spread-0.6"}
    assert found.keys() == {"coat", "coat-new-users", *simulated}
    page = (work / "page" / "README.md").read_text()
    assert "* Cut: Everything is tiny." in page
    assert "Not finished" not in page
    for row in (*paper.ROWS, "item-mean", "popularity", "mllib-als"):
        assert f"| {describe(row)} |" in page
    assert 0 < figure(found["coat"], "mse", "mllib-als", "mse").value < 16  # predictions on the scale of the ratings
    assert figure(found["coat"], "ndcg", "weighted-deconfounded", "ndcg").as_text() in page
    pictures = sorted(path.name for path in (work / "page").glob("*.png"))
    drawn = ("between-spread", "dense-outcome", "dense-preference")
    assert pictures == [f"{sweep}-{metric}.png" for sweep in drawn for metric in ("mse", "ndcg")]
    assert "| weighted-deconfounded minus permuted | " in page
    assert "| weighted-none-no-intercept (the paper's classical model) | " in page
    assert "by the items' number of training ratings" in page
    assert "| poisson-deconfounded-permuted | " in page[page.index("## Simulation, between the readings") :]
    assert "| weighted-deconfounded-global-popularity | " in page[page.index("plain settings") :]
    del found["coat-new-users"]
    half = write_page(profile, found, work / "half", "make reproduce", ["coat-new-users-seed-0", "x"]).read_text()
    assert "* Not finished: coat-new-users-seed-0, x." in half
    assert "## Coat, new users" not in half


def test_between_the_readings_no_test_pair_is_in_the_ratings() -> None:
    """The rate makes the data sparser; the paper's sweeps keep theirs."""
    sparse, paper_data = (Point(*of, 4).settings(DENSE) for of in (("spread", 1.7), ("outcome", 3.0)))
    assert (sparse.gamma_spread, sparse.test_pairs, sparse.gamma_reading, sparse.seed) == (1.7, "withheld", "rate", 4)
    assert density(sparse) == density(sparse.model_copy(update={"test_pairs": "all"}))
    assert sparse.model_copy(update={"gamma_spread": 0.3, "test_pairs": "all"}) == paper_data


def test_a_unit_that_is_done_is_not_run_again_unless_its_settings_change(profile: Profile, work: Path) -> None:
    archive = Archive(work / "cells" / "units.zip")
    before = archive.path.stat().st_mtime_ns
    run_units(None, units(profile, work / "data"), archive)  # type: ignore[arg-type]  # nothing runs
    assert archive.path.stat().st_mtime_ns == before
    harder = replace(profile, data={"coat": OfData(1, replace(TINY, draws=2), placebos=True)})
    assert "coat-seed-0" not in archive.read(units(harder, work / "data"))


def test_the_command_continues_from_what_is_done(
    profile: Profile, work: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setitem(PROFILES, "quick", profile)
    archive = Archive(work / "cells" / "units.zip")
    places = ["--data", work / "data", "--work", archive.path, "--output", work / "again"]
    before = archive.path.stat().st_mtime_ns
    done = CliRunner().invoke(main, [*map(str, places), "--only", "coat"], catch_exceptions=False)
    structlog.reset_defaults()  # it logs to the runner's stream, which is closed now
    assert done.exit_code == 0, done.output
    assert archive.path.stat().st_mtime_ns == before
    assert (work / "again" / "README.md").read_text().count("## ") > 3
    refused = CliRunner().invoke(main, [*map(str, places), "--only", "cote"])
    assert refused.exit_code == 2
    assert "found 'cote', expected beginnings of" in " ".join(refused.output.split())


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


def test_a_difference_is_one_where_its_interval_excludes_zero_and_seeds_are_enough() -> None:
    seeds = [cell(value, *np.linspace(value - 0.05, value + 0.05, 101)) for value in (0.7, 0.71, 0.72, 0.73)]
    against = difference(seeds, "ndcg", "a", "b", "ndcg")
    assert against.value == pytest.approx(0.215)
    assert against.excludes_zero
    assert not difference(seeds[:3], "ndcg", "a", "b", "ndcg").excludes_zero
    assert not difference(seeds, "ndcg", "b", "b", "ndcg").excludes_zero
