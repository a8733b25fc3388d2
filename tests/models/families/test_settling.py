"""Users who settle after a Poisson fit: never to a lower ELBO than the one that the fit reports."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from dcrec_spark.engine import ascent
from dcrec_spark.engine.ascent import Fit, Stopping, alternate
from dcrec_spark.engine.blocks import read_block
from dcrec_spark.engine.half_step import memory_of
from dcrec_spark.local.layout import LocalLayout, lay_out
from dcrec_spark.local.ratings import Ratings
from dcrec_spark.models.families.gamma_poisson import GammaPrior
from dcrec_spark.models.families.poisson_steps import GammaPoissonSteps
from tests.reference import poisson_outcome as dense

PRIOR = GammaPrior(0.3, 0.3)
PRIORS = dense.OutcomePriors()


def ratings(seed: int) -> LocalLayout:
    """Few ratings of many users: most of them have more than one optimum."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((60, 25)) < 0.15)
    keys = rng.integers(-(2**62), 2**62, 85)
    data = Ratings(user, item, rng.integers(1, 6, len(user)).astype(float), keys[:60], keys[60:])
    return lay_out(data, {"rating": data.rating}, "float64")


def steps(layout: LocalLayout, seed: int, **of: bool) -> GammaPoissonSteps:
    return GammaPoissonSteps("outcome", "rating", 4, PRIOR, PRIOR, seed, intercept=PRIOR, n_pairs=layout.n_pairs, **of)


def fit(layout: LocalLayout, model: GammaPoissonSteps, sweeps: int, tol: float = 0.0) -> Fit:
    return alternate(layout.users, layout.items, model, Stopping(sweeps, tol), lambda *_: None)


@pytest.mark.parametrize(("seed", "accelerates"), [(7, False), (10, False), (10, True), (12, True), (29, True)])
def test_settling_costs_nothing(seed: int, accelerates: bool) -> None:
    """These fits would end up to 0.1 lower, did they not go on from the settled users."""
    layout = ratings(seed)
    model = steps(layout, seed, accelerates=accelerates)
    result = fit(layout, model, 600, tol=1e-6)
    at_rest = model.at_rest(result.users.sums, result.items.sums, result.shared)
    assert at_rest >= result.objective[-1] - 1e-9 * abs(result.objective[-1])


def test_without_going_on_a_fit_would_end_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascent, "MOST_MENDS", 0)
    layout = ratings(10)
    model = steps(layout, 10)
    result = fit(layout, model, 600, tol=1e-7)
    assert model.at_rest(result.users.sums, result.items.sums, result.shared) < result.objective[-1] - 0.01


@pytest.mark.parametrize("unobserved", [1.0, 0.2])
def test_the_elbo_at_rest_is_the_twins(unobserved: float) -> None:
    layout = ratings(3)
    model = replace(steps(layout, 3), unobserved=unobserved)
    result = fit(layout, model, 5)
    at_rest = model.at_rest(result.users.sums, result.items.sums, result.shared)
    assert at_rest == pytest.approx(dense_elbo(layout, result, unobserved), rel=1e-9)


def dense_elbo(layout: LocalLayout, result: Fit, unobserved: float) -> float:
    users, items, intercept = memory_of(result.users), memory_of(result.items), result.shared.intercept
    block = read_block(layout.users.data)
    rating, item = block.fitted.value("rating").astype(float), block.need_at[block.fitted.col]
    rated = csr_array((rating, item, block.fitted.row_ptr), shape=(60, 25)).toarray()
    data = dense.OutcomeData(rated, np.where(rated > 0, 1.0, unobserved), np.zeros_like(rated), "user", True)
    state = dense.initial_outcome_state(np.random.default_rng(0), data, 4, PRIORS, noise=0.0)
    state = replace(
        state,
        user_shape=users["shape"],
        user_rate=np.broadcast_to(users["rate"], users["shape"].shape),
        item_shape=items["shape"],
        item_rate=np.broadcast_to(items["rate"], items["shape"].shape),
        intercept_shape=np.full_like(state.intercept_shape, intercept.shape),
        intercept_rate=np.full_like(state.intercept_rate, intercept.rate),
    )
    return dense.outcome_elbo(state, data, PRIORS)
