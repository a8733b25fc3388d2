"""Candidates, the record of trials, and the choice, with a formula in place of fits."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from dcrec_spark.config.jobs import TuneConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.errors import ConfigError, DataError, FitError
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.result import Metrics, Score
from dcrec_spark.jobs.tune.candidates import Candidate, draw_candidates
from dcrec_spark.jobs.tune.fits import Attempt, fits_in_memory
from dcrec_spark.jobs.tune.job import search
from dcrec_spark.jobs.tune.trials import Ledger, TrialRow, choose
from dcrec_spark.local.attempts import Measured
from dcrec_spark.storage.local import LocalFiles

SETTINGS = MetricSettings(replications=3)
RANKS = "space.outcome.rank=[1,2,3,4,5,6,7,8,9]"
NOISE = (0.0, 0.01, -0.01)


def config(*overrides: str) -> TuneConfig:
    return load_config(TuneConfig, None, [f"tuning.{text}" for text in overrides])


def measured(value: float, noise: Sequence[float] = NOISE) -> Measured:
    score = Score(np.array([value, *(value + one for one in noise)]), 10, 10)
    return Measured(Metrics(SETTINGS, {"prediction": {"ndcg": score, "mse": score}}, {}), 7, 0.5)


def rank_of(candidate: Candidate) -> float:
    return candidate.outcome.rank / 10


@dataclass
class Formula:
    """Fits whose value is that of a formula; a FitError is a fit that fails."""

    value: Callable[[Candidate], float | FitError] = rank_of
    wave: int = 2
    fitted: list[Candidate] = field(default_factory=list)
    stop_after: int | None = None

    def run(self, candidates: Sequence[Candidate]) -> Iterator[Attempt]:
        for candidate in candidates:
            if len(self.fitted) == self.stop_after:
                raise KeyboardInterrupt("stopped by SIGTERM")
            self.fitted.append(candidate)
            found = self.value(candidate)
            yield candidate, found if isinstance(found, FitError) else measured(found)


def run(folder: Path, fits: Formula, of: TuneConfig, name: str = "s", run_id: str = "r") -> list[TrialRow]:
    ledger, notes = Ledger(LocalFiles(), str(folder), name), list[str]()
    return search(draw_candidates(of), fits, ledger, run_id, of.tuning.metric, lambda _name, _total: notes.append)


def row(number: int, value: float, noise: Sequence[float] = NOISE) -> TrialRow:
    (candidate, *_) = draw_candidates(config(RANKS))
    return TrialRow.of(replace(candidate, number=number), "s", "r", "ndcg", measured(value, noise))


def test_a_grid_is_every_combination_once() -> None:
    found = draw_candidates(config("space.exposure.rank=[2,3]", "space.outcome.alpha=[1,10,40]"))
    assert {(c.exposure.rank, c.outcome.alpha) for c in found if c.exposure} == {
        (rank, alpha) for rank in (2, 3) for alpha in (1.0, 10.0, 40.0)
    }
    assert [c.number for c in found] == list(range(6))
    assert len({c.stage_one for c in found}) == 2
    assert len({c.key("s") for c in found} | {c.key("t") for c in found}) == 12


def test_random_draws_are_those_of_the_seed_and_inside_the_space() -> None:
    space = [
        "space.outcome.rank={low: 2, high: 9, int: true}",
        "space.outcome.reg_param={low: 0.1, high: 10, log: true}",
    ]
    settings = config(*space, "space.outcome.outcome=[weighted,probabilistic]", "trials=40")
    found = draw_candidates(settings)
    assert found == draw_candidates(settings)
    other = settings.model_copy(update={"run": settings.run.model_copy(update={"seed": 7})})
    assert [c.parameters for c in found] != [c.parameters for c in draw_candidates(other)]
    assert {c.outcome.rank for c in found} == set(range(2, 10))
    assert all(0.1 <= c.outcome.reg_param <= 10 for c in found)
    assert sum(c.outcome.reg_param < 1 for c in found) == pytest.approx(20, abs=8)
    assert {c.outcome.outcome for c in found} == {"weighted", "probabilistic"}


def test_settings_that_make_no_difference_make_no_candidate() -> None:
    with pytest.raises(ConfigError, match=r"setting tuning\.space: found no settings to try.*conf/tune\.yaml"):
        draw_candidates(config())
    found = draw_candidates(config("space.exposure.rank=[2,3,4]", "space.outcome.adjustment=[none,deconfounded]"))
    assert sorted(c.outcome.adjustment for c in found) == ["deconfounded"] * 3 + ["none"]
    assert len(draw_candidates(config(RANKS, "trials=100"))) == 9


def test_every_candidate_is_fitted_and_the_best_is_chosen(tmp_path: Path) -> None:
    rows = run(tmp_path, Formula(), config(RANKS))
    assert [r.trial for r in rows] == list(range(9))
    assert [r.value for r in rows] == pytest.approx([rank / 10 for rank in range(1, 10)])
    assert json.loads(rows[3].parameters) == {"outcome.rank": 4}
    assert choose(rows, SETTINGS).best.trial == 8
    rows = run(tmp_path / "errors", Formula(), config(RANKS, "metric=mse"))
    assert choose(rows, SETTINGS).best.value == pytest.approx(0.1)


def test_a_trial_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    fits = Formula(lambda c: FitError("the objective rose") if c.outcome.rank == 9 else rank_of(c))
    rows = run(tmp_path, fits, config(RANKS))
    assert [(r.status, r.error, r.value) for r in rows if not r.done] == [("failed", "the objective rose", None)]
    assert choose(rows, SETTINGS).best.trial == 7


def test_without_a_value_the_search_fails(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="all 9 trials failed, the first with: no good"):
        run(tmp_path / "failed", Formula(lambda _: FitError("no good")), config(RANKS))
    with pytest.raises(DataError, match=r"tuning\.metric: ndcg is undefined"):
        run(tmp_path / "undefined", Formula(lambda _: np.nan), config(RANKS))


@pytest.mark.parametrize("trials", ["null", "9"])
def test_an_interrupted_search_resumes(tmp_path: Path, trials: str) -> None:
    settings = config(RANKS, f"trials={trials}")
    expected = run(tmp_path / "whole", Formula(), settings)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", Formula(stop_after=7), settings)
    rest = Formula()
    assert run(tmp_path / "cut", rest, settings) == expected
    assert len(rest.fitted) == 3  # the wave that was interrupted is lost
    again = Formula()
    assert run(tmp_path / "cut", again, settings, run_id="later") == expected
    assert again.fitted == []


def test_a_wider_space_reuses_trials_and_another_search_does_not(tmp_path: Path) -> None:
    run(tmp_path, Formula(), config("space.outcome.rank=[2,3]"))
    wider, other = Formula(), Formula()
    rows = run(tmp_path, wider, config("space.outcome.rank=[1,2,3,4]"), run_id="wider")
    assert [c.outcome.rank for c in wider.fitted] == [1, 4]
    assert [(r.trial, r.run_id) for r in rows] == [(0, "wider"), (1, "r"), (2, "r"), (3, "wider")]
    run(tmp_path, other, config("space.outcome.rank=[2,3]"), name="other")
    assert len(other.fitted) == 2
    assert Ledger(LocalFiles(), str(tmp_path), "s").count_others() == 1


def test_the_second_best_is_compared_on_the_same_resamples() -> None:
    """Noise that both share does not hide the difference; noise of their own does."""
    noise = (np.random.default_rng(3).standard_normal(200) * 0.1).tolist()
    one, alike, unlike = row(1, 0.51, noise), row(2, 0.50, noise), row(3, 0.50, [-x for x in noise])
    assert "trial 1 is better than trial 2" in choose([alike, one], SETTINGS).verdict()
    assert "trial 1 is not shown to be better than trial 3" in choose([unlike, one], SETTINGS).verdict()
    assert "no second trial" in choose([one], SETTINGS).verdict()
    assert [r.trial for r in choose([row(4, 0.5), row(3, 0.5)], SETTINGS).trials] == [3, 4]


def test_counts_and_given_propensities_are_fitted_on_the_cluster() -> None:
    settings, columns = config(RANKS), ["user_id", "item_id", "rating"]
    weighted = draw_candidates(config("space.outcome.adjustment=[ipw]"))
    assert fits_in_memory(settings, draw_candidates(settings), columns)
    assert fits_in_memory(settings, weighted, columns)
    assert not fits_in_memory(settings, weighted, [*columns, "propensity"])
    assert not fits_in_memory(settings, draw_candidates(settings), [*columns, "count"])
