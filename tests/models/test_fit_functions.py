"""Both stages on Spark against the dense twins: the same start, the same sweeps, the same numbers.

However the blocks lie: one block or many, results held by the driver or placed on the cluster.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from pyspark.sql import SparkSession
from scipy.special import ndtri

from dcrec_spark.arrays import unpack
from dcrec_spark.blocks import Side
from dcrec_spark.engine.half_step import State, memories
from dcrec_spark.kernels.gamma import noise
from dcrec_spark.kernels.ridge import Off, Regulariser
from dcrec_spark.models.exposure_fit import ExposureFit, ExposureSettings, GammaPrior, fit_exposure
from dcrec_spark.models.outcome_fit import OutcomeFit, OutcomeSettings, attach_confounder, fit_outcome
from tests.problems import assert_same, random_counts
from tests.reference import poisson as dense_poisson
from tests.reference import ridge as dense
from tests.reference.poisson import Array
from tests.sides import Layout, Sides, sides_of

N_USERS, N_ITEMS, RANK = 8, 7, 2
PRIORS = dense_poisson.Priors(0.3, 0.4, 0.5, 0.6)
REG = Regulariser(user=0.7, item=1.3, confounder=0.4, intercept=0.2)
ALPHA = 5.0
EXPOSURE = ExposureSettings(
    rank=RANK,
    max_iter=4,
    tol=0.0,
    users=GammaPrior(PRIORS.user_shape, PRIORS.user_rate),
    items=GammaPrior(PRIORS.item_shape, PRIORS.item_rate),
    seed=17,
)
LAYOUTS = [
    Layout(1, 1, True, True),
    Layout(2, 3, False, False),
    Layout(5, 3, True, False),
    Layout(3, 2, False, True),
]
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def outcome_settings(off: Off, **changes: float) -> OutcomeSettings:
    settings = {"max_iter": 3, "tol": 0.0, "alpha": ALPHA, "fit_intercept": True, "seed": 5, **changes}
    return OutcomeSettings(rank=3, off=off, reg=REG, **settings)


class Data(NamedTuple):
    """Counts of exposures, and a rating where there is one; user 0 and the last item have none."""

    counts: Array
    ratings: Array


def data() -> Data:
    rng = np.random.default_rng(8)
    counts = random_counts(rng, N_USERS, N_ITEMS, largest=3)
    return Data(counts, np.where(counts > 0, rng.integers(0, 6, counts.shape), 0.0))


class Told:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.values: list[tuple[str, int, float]] = []

    def __call__(self, stage: str, iteration: int, value: float) -> None:
        self.values.append((stage, iteration, value))


@contextmanager
def sides_on(spark: SparkSession, layout: Layout, dtype: str = "float64") -> Iterator[Sides]:
    counts, ratings = data()
    values = {"rating": ratings, "exposure_count": counts}
    with sides_of(spark, counts > 0, values, layout, dtype) as sides:
        yield sides


def table_of(side: Side, state: State, name: str) -> Array:
    """What the blocks of a side remember under a name, in the order of the indices."""
    cells = {row.block: unpack(row.data)[name] for row in memories(side, state).collect()}
    table = np.empty((side.n_rows, *cells[0].shape[1:]))
    for block, rows in cells.items():
        table[block :: side.n_blocks] = rows
    return table


def twin_start(sides: Sides, settings: ExposureSettings) -> dense_poisson.State:
    """The priors' shapes, raised by each row's own noise."""
    shapes = [
        prior * (1.0 + noise(seed, keys, RANK))
        for prior, seed, keys in (
            (PRIORS.user_shape, settings.seed, sides.user_keys),
            (PRIORS.item_shape, settings.seed + 1, sides.item_keys),
        )
    ]
    rates = np.full((N_USERS, RANK), PRIORS.user_rate), np.full((N_ITEMS, RANK), PRIORS.item_rate)
    return dense_poisson.State(shapes[0], rates[0], shapes[1], rates[1])


def assert_exposure_is_the_twins(sides: Sides, fit: ExposureFit, tolerance: float) -> None:
    twin, history = twin_start(sides, EXPOSURE), []
    for _ in range(EXPOSURE.max_iter):
        twin = dense_poisson.cavi_sweep(twin, data().counts, PRIORS)
        history.append(dense_poisson.elbo(twin, data().counts, PRIORS))
    np.testing.assert_allclose(fit.elbo, history, rtol=tolerance)
    for side, state, shape, rate in (
        (sides.users, fit.users, twin.user_shape, twin.user_rate),
        (sides.items, fit.items, twin.item_shape, twin.item_rate),
    ):
        assert_same(table_of(side, state, "shape"), shape, tolerance)
        for memory in memories(side, state).collect():
            assert_same(unpack(memory.data)["rate"], rate[0], tolerance)


def twin_problem(off: Off, a_hat: Array | None) -> dense.Problem:
    counts, ratings = data()
    observed = counts > 0
    return dense.Problem(
        ratings,
        np.where(observed, 1.0 + ALPHA * ratings, off.unobserved),
        np.where(observed, 1.0, float(off.everywhere)),
        np.zeros(counts.shape) if a_hat is None else a_hat,
        "none" if a_hat is None else "user",
        *REG,
    )


def assert_outcome_is_the_twins(sides: Sides, fit: OutcomeFit, settings: OutcomeSettings, a_hat: Array | None) -> None:
    """Sweeps of the twin from the same start, and one more solve of the users."""
    problem, history = twin_problem(settings.off, a_hat), []
    start = 0.1 * ndtri(noise(settings.seed, sides.item_keys, settings.rank) + 2.0**-54)
    twin = dense.Factors(np.zeros((N_USERS, settings.rank)), start, np.zeros(N_USERS), 0.0)
    for _ in range(settings.max_iter):
        twin = dense.sweep(problem, twin)
        history.append(dense.objective(problem, twin))
    twin = dense.update_users(problem, twin)
    users = table_of(sides.users, fit.users, "rows")
    assert_same(users[:, : settings.rank], twin.user_preference, 1e-8)
    if a_hat is not None:
        assert_same(users[:, settings.rank], twin.confounder_weight, 1e-8)
    assert_same(table_of(sides.items, fit.items, "rows"), twin.item_attribute, 1e-8)
    assert fit.intercept == pytest.approx(twin.intercept, rel=1e-8)
    np.testing.assert_allclose(fit.objective, history, rtol=1e-8)


@layouts
def test_both_stages_are_the_twins(spark: SparkSession, layout: Layout) -> None:
    """Exposure, a_hat beside the ratings, then deconfounded weighted matrix factorization."""
    settings, told = outcome_settings(Off(0.37, True)), Told()
    with sides_on(spark, layout) as sides, ExitStack() as kept:
        exposure = fit_exposure(sides.users, sides.items, EXPOSURE, told)
        assert_exposure_is_the_twins(sides, exposure, 1e-8)
        assert (np.diff(exposure.elbo) > 0).all()

        users, items = attach_confounder(sides.users, sides.items, exposure.users, exposure.items, kept)
        fit = fit_outcome(users, items, settings, told)
        means = (
            table_of(side, state, "shape") / unpack(memories(side, state).first().data)["rate"]
            for side, state in ((sides.users, exposure.users), (sides.items, exposure.items))
        )
        user_exposure, item_exposure = means
        assert_outcome_is_the_twins(sides, fit, settings, user_exposure @ item_exposure.T)
        assert (np.diff(fit.objective) < 0).all()
    assert told.values == [
        *(("exposure", number, value) for number, value in enumerate(exposure.elbo, 1)),
        *(("outcome", number, value) for number, value in enumerate(fit.objective, 1)),
    ]


@pytest.mark.parametrize("off", [Off(1.0, True), Off(0.0, False)], ids=["weighted", "probabilistic"])
def test_the_classical_model_needs_no_exposure(spark: SparkSession, off: Off) -> None:
    settings = outcome_settings(off)
    with sides_on(spark, Layout(2, 3, True, False)) as sides:
        fit = fit_outcome(sides.users, sides.items, settings, Told())
        assert_outcome_is_the_twins(sides, fit, settings, None)
        assert (np.diff(fit.objective) < 0).all()


def test_without_an_intercept_it_stays_at_zero(spark: SparkSession) -> None:
    with sides_on(spark, Layout(1, 1, True, True)) as sides:
        settings = outcome_settings(Off(1.0, True), fit_intercept=False, max_iter=1)
        assert fit_outcome(sides.users, sides.items, settings, Told()).intercept == 0.0


def test_a_fit_ends_when_it_has_settled(spark: SparkSession) -> None:
    """The last step, and only the last, changed the objective by less than the tolerance."""
    with sides_on(spark, Layout(1, 1, True, True)) as sides:
        settings = outcome_settings(Off(1.0, True), max_iter=30, tol=0.05)
        objective = fit_outcome(sides.users, sides.items, settings, Told()).objective
    assert 2 < len(objective) < 30
    change = np.abs(np.diff(objective)) / np.array(objective[:-1])
    assert change[-1] < 0.05
    assert (change[:-1] >= 0.05).all()


def test_single_precision_ends_near_the_twin(spark: SparkSession) -> None:
    """To a ten-thousandth of the largest factor, and of the evidence bound."""
    with sides_on(spark, Layout(2, 3, True, True), dtype="float32") as sides:
        fit = fit_exposure(sides.users, sides.items, replace(EXPOSURE, precision="float32"), Told())
        assert unpack(memories(sides.users, fit.users).first().data)["shape"].dtype == np.float32
        assert_exposure_is_the_twins(sides, fit, 1e-4)
