"""Seconds by what was measured, and the cores that a night needs."""

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.sizing import estimate
from dcrec_spark.sizing.estimate import Course, cores_for, measured, seconds, whole
from dcrec_spark.sizing.work import STAGES, Size, work

SIZE = Size(users=70_000, items=10_000, ratings=10_000_000, exposure_rank=10, outcome_rank=50)
COURSE = Course(iterations=100, sweeps=11, checkpoint_interval=10)


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """One second for what is fixed, another for each million ratings of the layout of a core, nothing else."""
    coefficients = {stage: dict.fromkeys(work(stage, SIZE, 1), 0.0) | {"fixed": 1.0} for stage in STAGES}
    coefficients["layout"]["N"] = 1e-6
    monkeypatch.setattr(estimate, "measured", lambda: {"seconds": coefficients})


@pytest.mark.usefixtures("_known")
def test_seconds_are_the_sum_of_the_units() -> None:
    assert seconds(SIZE, cores=2) == dict.fromkeys(STAGES, 1.0) | {"layout": 6.0}


@pytest.mark.usefixtures("_known")
def test_a_whole_fit_repeats_iterations_and_all_sweeps_but_the_first() -> None:
    assert whole(SIZE, 2, COURSE) == dict.fromkeys(STAGES, 1.0) | {"layout": 6.0, "iteration": 100.0, "sweep": 10.0}


@pytest.mark.usefixtures("_known")
def test_the_fewest_cores_that_are_enough() -> None:
    """114 seconds are fixed, ten are shared."""
    assert cores_for(SIZE, COURSE, wanted=124.0) == 1
    assert cores_for(SIZE, COURSE, wanted=123.9) == 2
    assert cores_for(SIZE, COURSE, wanted=115.0) == 16


@pytest.mark.usefixtures("_known")
def test_a_night_that_no_cluster_is_enough_for() -> None:
    with pytest.raises(ConfigError, match=r"--hours: found 0\.01, expected at least 0\.032, which 16,384 cores take"):
        cores_for(SIZE, COURSE, wanted=36.0)


def test_every_unit_was_measured() -> None:
    assert {stage: set(units) for stage, units in measured()["seconds"].items()} == {
        stage: set(work(stage, SIZE, 1)) for stage in STAGES
    }


@pytest.mark.parametrize("more", [{"ratings": 10**9}, {"users": 10**8}, {"outcome_rank": 200}, {"exposure_rank": 99}])
def test_more_of_anything_takes_longer(more: dict[str, int]) -> None:
    assert sum(whole(SIZE._replace(**more), 8, COURSE).values()) > sum(whole(SIZE, 8, COURSE).values())
