"""Each family over many blocks, with heavy items: the fit in one block, beyond rounding. Blocks are in memory."""

from typing import Any

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.engine.acceleration import LEAD
from dcrec_spark.models.fitting.stages import KeptSweep
from tests.models.data_sets import NAMES, exposure, outcome
from tests.models.fitting.memory_layout import Ratings, fit_stages, in_blocks, in_process
from tests.problems import assert_same

MOST = 3
PAIRS_OF_ITEMS = (NAMES.counts > 0).sum(axis=0)
MODELS: dict[str, dict[str, Any]] = {
    "weighted": {"outcome": "weighted", "confounderWeight": "user", "leaveOneOut": False, "fitBiases": False},
    "weighted by propensities": {"outcome": "weighted", "adjustment": "ipw"},
    "probabilistic, all terms": {"outcome": "probabilistic", "unobservedWeight": 0.5},
    "probabilistic, rated pairs": {"outcome": "probabilistic", "unobservedWeight": 0.0, "confounderLink": "log"},
    "factors, all pairs": {"outcome": "weighted", "confounder": "factors", "validationIndicatorCol": "held"},
    "factors, rated pairs": {"outcome": "probabilistic", "confounder": "factors", "confounderLink": "log"},
    "factors by gradients": {"outcome": "probabilistic", "confounder": "factors", "solver": "cg"},
    "by count": {"outcome": "probabilistic", "regByCount": True, "confounderWeight": "global"},
    "classical": {"outcome": "probabilistic", "adjustment": "none"},
    "held out": {"outcome": "weighted", "validationIndicatorCol": "held"},
    "gradients": {"outcome": "weighted", "solver": "cg"},
    "poisson": {"outcome": "poisson", "adjustment": "none"},
    "poisson, gammas": {"outcome": "poisson", "unobservedWeight": 0.2},
    "poisson, one gamma": {"outcome": "poisson", "confounderWeight": "global", "maxIter": 4},
    "poisson, weighted": {"outcome": "poisson", "adjustment": "ipw"},
    "poisson, held out": {"outcome": "poisson", "validationIndicatorCol": "held", "maxIter": 6},
}


def ratings(settings: dict[str, Any]) -> Ratings:
    user, item = np.nonzero(NAMES.counts)
    rng = np.random.default_rng(4)
    values = {"rating": NAMES.ratings[user, item], "exposure_count": NAMES.counts[user, item]}
    pairs = {"user": user, "item": item, **values}
    if settings.get("adjustment") == "ipw":
        pairs["weight"] = rng.uniform(0.5, 2.0, len(user))
    if "validationIndicatorCol" in settings:
        pairs["held_out"] = rng.random(len(user)) < 0.25
    shape = NAMES.counts.shape
    keys = rng.integers(-(2**62), 2**62, sum(shape))
    return Ratings(pairs, (keys[: shape[0]], keys[shape[0] :]))


def fit(layout: Any, settings: dict[str, Any]) -> dict[str, Any]:
    return fit_stages(layout, outcome(**settings), exposure(maxIter=LEAD + 2))


def assert_equal_fits(one: dict[str, Any], other: dict[str, Any], tolerance: float = 1e-7) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert_same(np.asarray(values, np.float64), np.asarray(other[name], np.float64), tolerance)


@pytest.mark.parametrize("kind", MODELS)
def test_blocks_and_heavy_items_change_nothing(kind: str) -> None:
    """Both stages, with results in messages or on the driver."""
    settings = MODELS[kind]
    data = ratings(settings)
    whole = fit(in_process(data), settings)
    assert_equal_fits(fit(in_blocks(data, (2, 3)), settings), whole)
    assert_equal_fits(fit(in_blocks(data, (2, 3), heavier_than=MOST), settings), whole)
    assert_equal_fits(fit(in_blocks(data, (3, 2), (True, True), heavier_than=MOST), settings), whole)


@pytest.mark.parametrize("heavier_than", [1, PAIRS_OF_ITEMS.max() - 1], ids=["all heavy", "the heaviest alone"])
@pytest.mark.parametrize("broadcasts", [(True, False), (False, True)])
def test_whichever_items_are_heavy(heavier_than: int, broadcasts: tuple[bool, bool]) -> None:
    data, settings = ratings({}), MODELS["poisson, gammas"]
    split = fit(in_blocks(data, (2, 7), broadcasts, heavier_than=heavier_than), settings)
    assert_equal_fits(split, fit(in_process(data), settings))


def test_single_precision_adds_partial_sums_in_double() -> None:
    settings, data = {"outcome": "weighted", "fitBiases": True, "precision": "float32"}, ratings({})
    whole = fit(in_process(data, "float32"), settings)
    split = fit(in_blocks(data, (2, 3), precision="float32", heavier_than=MOST), settings)
    assert_equal_fits(split, whole, 2e-4)


@pytest.mark.parametrize(
    "kind", ["probabilistic, all terms", "gradients", "held out", "factors, all pairs", "poisson, gammas"]
)
def test_runs_of_rows_change_nothing(kind: str) -> None:
    data = ratings(MODELS[kind])
    in_runs = in_process(data, pairs_per_run=7)
    assert_equal_fits(fit(in_runs, MODELS[kind]), fit(in_process(data), MODELS[kind]), 1e-9)


class Memory:
    def __init__(self, sweeps: float = float("inf")) -> None:
        self.left, self.made, self.sweeps = sweeps, 0, dict[str, KeptSweep]()

    def is_due(self, stage: str, is_last: bool) -> bool:
        return True

    def keep(self, stage: str, sweep: KeptSweep) -> None:
        self.sweeps[stage] = sweep
        self.made += 1
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def kept(self, stage: str) -> KeptSweep | None:
        return self.sweeps.get(stage)


def with_memory(memory: Memory | None, settings: dict[str, Any]) -> tuple[DeconfoundedMF, PoissonFactorization]:
    first, second = exposure(maxIter=LEAD + 3, tol=0.0), outcome(**{"tol": 0.0, "maxIter": 3, **settings})
    first.checkpoints = second.checkpoints = memory
    return second, first


@pytest.mark.parametrize("kind", ["probabilistic, all terms", "gradients", "poisson, gammas"])
@pytest.mark.parametrize(("broadcasts", "heavier_than"), [((False, False), MOST), ((True, True), None)])
def test_interrupted_fit_ends_as_one_that_was_not(
    kind: str, broadcasts: tuple[bool, bool], heavier_than: int | None
) -> None:
    """Interrupted with momentum in stage 1, between the stages, in stage 2, and after its last sweep."""
    settings = {**MODELS[kind], "maxIter": 3}
    layout = in_blocks(ratings(settings), (2, 3), broadcasts, heavier_than=heavier_than)
    whole = fit_stages(layout, *with_memory(None, settings))
    for sweeps in (LEAD + 2, LEAD + 3, LEAD + 5, LEAD + 6):
        memory = Memory(sweeps)
        with pytest.raises(KeyboardInterrupt):
            fit_stages(layout, *with_memory(memory, settings))
        memory.left = float("inf")
        resumed = fit_stages(layout, *with_memory(memory, settings))
        assert memory.made == LEAD + 6  # no sweep is repeated
        assert_equal_fits(resumed, whole)
