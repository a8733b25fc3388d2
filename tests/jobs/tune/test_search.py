"""Candidates, rounds, the record, and the choice, by formulas in place of fits."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcrec_spark.config import TuneConfig, load_config
from dcrec_spark.errors import ConfigError, DataError, FitError
from dcrec_spark.jobs.tune.candidates import Candidate, draw
from dcrec_spark.jobs.tune.choice import choose, ranked
from dcrec_spark.jobs.tune.entry import Entry, Place
from dcrec_spark.jobs.tune.held_out import metric_settings
from dcrec_spark.jobs.tune.ledger import Ledger
from dcrec_spark.jobs.tune.search import Search, schedule
from dcrec_spark.storage.local import LocalFiles
from tests.jobs.tune.searching import SETTINGS, Formula, config, outcome

RANKS = "space.outcome.rank=[1,2,3,4,5,6,7,8,9]"


def search(folder: Path, fits: Formula, drawn_by: TuneConfig, name: str = "s", run_id: str = "r") -> list[Entry]:
    ledger = Ledger(LocalFiles(), str(folder), name)
    notes: list[str] = []
    whole = Search(fits, ledger, run_id, drawn_by.tuning.metric, lambda _name, _total: notes.append)
    return whole.run(draw(drawn_by), schedule(drawn_by))


def rank_of(candidate: Candidate) -> float:
    return candidate.outcome.rank / 10


# ---- candidates


def test_a_grid_is_every_combination_once() -> None:
    found = draw(config("space.exposure.rank=[2,3]", "space.outcome.alpha=[1,10,40]", "space.outcome.reg_param=[1]"))
    expected = {(rank, alpha) for rank in (2, 3) for alpha in (1.0, 10.0, 40.0)}
    assert {(c.exposure.rank, c.outcome.alpha) for c in found if c.exposure} == expected
    assert [c.number for c in found] == list(range(6))
    assert len({c.stage_one for c in found}) == 2
    assert len({c.key("s") for c in found} | {c.key("t") for c in found}) == 12


def test_random_draws_are_those_of_the_seed_and_inside_the_space() -> None:
    space = [
        "space.outcome.rank={low: 2, high: 9, int: true}",
        "space.outcome.reg_param={low: 0.1, high: 10, log: true}",
    ]
    asked = config(*space, "space.outcome.outcome=[weighted,probabilistic]", "trials=40", search="random")
    found = draw(asked)
    assert found == draw(asked)
    other = asked.model_copy(update={"run": asked.run.model_copy(update={"seed": 7})})
    assert [c.parameters for c in found] != [c.parameters for c in draw(other)]
    assert {c.outcome.rank for c in found} == set(range(2, 10))
    assert all(0.1 <= c.outcome.reg_param <= 10 for c in found)
    assert sum(c.outcome.reg_param < 1 for c in found) == pytest.approx(20, abs=8)
    assert {c.outcome.outcome for c in found} == {"weighted", "probabilistic"}


def test_random_draws_from_lists_do_not_repeat() -> None:
    assert len(draw(config(RANKS, "trials=6", search="random"))) == 6
    assert len(draw(config(RANKS, "trials=100", search="random"))) == 9


def test_settings_that_do_not_matter_make_no_other_candidate() -> None:
    """The classical model has no stage 1."""
    found = draw(config("space.exposure.rank=[2,3,4]", "space.outcome.adjustment=[none,deconfounded]"))
    assert sorted(c.outcome.adjustment for c in found) == ["deconfounded"] * 3 + ["none"]
    assert [c.exposure_parameters for c in found if c.exposure is None] == [{}]


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"setting tuning\.space: found no settings to try.*conf/tune\.yaml"):
        draw(config())
    space = ["space.outcome.rank=[2]", "space.outcome.confounder_link=[log]"]
    with pytest.raises(ConfigError, match=r"exposure\.kind=count, outcome\.rank=2 exclude each other"):
        draw(config(*space))
    with pytest.raises(
        ConfigError, match=r"tuning\.min_iter: found 20, expected less than outcome\.max_iter, which is 20"
    ):
        schedule(config("min_iter=20", search="halving"))


# ---- rounds


def test_a_grid_is_one_round_of_all(tmp_path: Path) -> None:
    entries = search(tmp_path, Formula(rank_of), config(RANKS))
    assert [e.trial for e in entries] == list(range(9))
    assert [e.value for e in entries] == pytest.approx([rank / 10 for rank in range(1, 10)])
    assert {(e.rung, e.max_iter, e.status) for e in entries} == {(0, 20, "done")}
    assert json.loads(entries[3].parameters) == {"outcome.rank": 4}
    assert choose(entries, SETTINGS).best.trial == 8


def test_halving_gives_the_best_of_each_round_more_sweeps(tmp_path: Path) -> None:
    """What looks best with few sweeps need not be so with more: rank 8 is overtaken by rank 7."""
    fits = Formula(lambda c: -1.0 if (c.outcome.rank, c.outcome.max_iter) == (8, 15) else rank_of(c))
    entries = search(tmp_path, fits, config("space.outcome.rank=[1,2,3,4,5,6,7,8]", "trials=8", search="halving"))
    by_round = {
        sweeps: {json.loads(e.parameters)["outcome.rank"] for e in entries if e.max_iter == sweeps}
        for sweeps in (5, 15, 20)
    }
    assert by_round == {5: set(range(1, 9)), 15: {7, 8}, 20: {7}}
    choice = choose(entries, SETTINGS)
    assert [json.loads(e.parameters)["outcome.rank"] for e in choice.entries] == [7, 8, 6, 5, 4, 3, 2, 1]
    assert (choice.best.rung, choice.best.max_iter) == (2, 20)


def test_a_lone_survivor_goes_straight_to_the_last_round(tmp_path: Path) -> None:
    asked = config("space.outcome.rank=[1,2]", "min_iter=1", "reduction_factor=2", search="halving")
    entries = search(tmp_path, Formula(rank_of), asked)
    assert schedule(asked).sweeps == (1, 2, 4, 8, 16, 20)
    assert [(e.max_iter, e.rung) for e in entries] == [(1, 0), (1, 0), (20, 5)]


def test_errors_are_made_small(tmp_path: Path) -> None:
    entries = search(tmp_path, Formula(rank_of), config(RANKS, "metric=mse"))
    assert choose(entries, SETTINGS).best.value == pytest.approx(0.1)


# ---- failures


def test_a_trial_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    fits = Formula(lambda c: FitError("the objective rose") if c.outcome.rank == 9 else rank_of(c))
    entries = search(tmp_path, fits, config(RANKS))
    assert [(e.status, e.error, e.value) for e in entries if not e.done] == [("failed", "the objective rose", None)]
    assert choose(entries, SETTINGS).best.trial == 7


def test_without_a_trial_that_ends_well_the_search_fails(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="all 9 trials failed, the first with: no good"):
        search(tmp_path, Formula(lambda _: FitError("no good")), config(RANKS))


def test_a_metric_that_is_undefined_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"tuning\.metric: ndcg is undefined"):
        search(tmp_path, Formula(lambda _: np.nan), config(RANKS))


# ---- the record


@pytest.mark.parametrize("kind", ["grid", "random", "halving"])
def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path, kind: str) -> None:
    asked = config(RANKS, "trials=9", search=kind)
    whole = Formula(rank_of)
    expected = search(tmp_path / "whole", whole, asked)

    cut = Formula(rank_of, stop_after=7)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "cut", cut, asked)
    rest = Formula(rank_of)
    found = search(tmp_path / "cut", rest, asked)

    assert found == expected
    assert len(rest.fitted) == len(whole.fitted) - 6  # the wave that was cut off is lost
    again = Formula(rank_of)
    assert search(tmp_path / "cut", again, asked, run_id="later") == expected
    assert again.fitted == []


def test_a_wider_space_uses_what_is_recorded_and_another_search_does_not(tmp_path: Path) -> None:
    search(tmp_path, Formula(rank_of), config("space.outcome.rank=[2,3]"))
    wider, other = Formula(rank_of), Formula(rank_of)
    entries = search(tmp_path, wider, config("space.outcome.rank=[1,2,3,4]"), run_id="wider")
    assert [c.outcome.rank for c in wider.fitted] == [1, 4]
    assert [(e.trial, e.run_id) for e in entries] == [(0, "wider"), (1, "r"), (2, "r"), (3, "wider")]
    search(tmp_path, other, config("space.outcome.rank=[2,3]"), name="other")
    assert len(other.fitted) == 2
    assert Ledger(LocalFiles(), str(tmp_path), "s").others() == 1


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    (candidate, *_) = draw(config(RANKS))
    place = Place("s", "r", 0, "ndcg")
    rows = [Entry.of(candidate, place, outcome(0.5)), Entry.of(candidate.limited_to(3), place, FitError("é"))]
    ledger = Ledger(LocalFiles(), str(tmp_path), "s")
    ledger.append(rows)
    assert list(ledger.read().values()) == rows


# ---- the choice


def entry(number: int, noise: Callable[[Any], Any], value: float, rung: int = 0) -> Entry:
    (candidate, *_) = draw(config(RANKS))
    drawn = np.random.default_rng(1).normal(size=50)
    found = outcome(value, (noise(drawn) * 0.1).tolist())
    return Entry.of(replace(candidate, number=number), Place("s", "r", rung, "ndcg"), found)


def test_the_runner_up_is_compared_on_the_same_resamples() -> None:
    """Noise that both share says nothing about which is better; noise of their own does."""
    one, alike, unlike = entry(1, lambda x: x, 0.51), entry(2, lambda x: x * 1.01, 0.50), entry(3, lambda x: -x, 0.50)
    clear, unclear = choose([one, alike], SETTINGS), choose([unlike, one], SETTINGS)
    assert clear.difference is not None
    assert clear.difference.value == pytest.approx(0.01)
    assert clear.is_clear
    assert "trial 1 is better than trial 2" in clear.verdict()
    assert not unclear.is_clear
    assert "trial 1 cannot be told from trial 3" in unclear.verdict()
    assert "contains 0" in unclear.verdict()
    assert "no second trial" in choose([one], SETTINGS).verdict()


def test_without_resamples_nothing_is_said_about_luck() -> None:
    (candidate, *_) = draw(config(RANKS))
    place = Place("s", "r", 0, "ndcg")
    one, two = (Entry.of(replace(candidate, number=n), place, outcome(n / 10, ())) for n in (1, 2))
    found = choose([one, two], replace(SETTINGS, replications=0))
    assert found.verdict().startswith("trial 2 is ahead of trial 1, the next one: ndcg +0.1000, paired; how much of it")


def test_trials_are_measured_as_models_are_judged() -> None:
    given = ["tuning.metric=ndcg@7", "evaluation.gain=rel", "evaluation.relevant_from=4", "evaluation.bootstrap=9"]
    found = metric_settings(load_config(TuneConfig, None, given))
    assert (found.ks, found.gain, found.relevance, found.replications) == ((5, 7), "rel", 4.0, 9)


def test_later_rounds_rank_before_better_values_of_earlier_ones() -> None:
    early, late = entry(1, np.abs, 0.9), entry(2, np.abs, 0.5, rung=1)
    assert [e.trial for e in ranked([early, late], small=False)] == [2, 1]
    assert [e.trial for e in ranked([entry(4, np.abs, 0.5), entry(3, np.abs, 0.5)], small=False)] == [3, 4]
