"""The users solved at the end of a Poisson fit: the ELBO is never lower than the one that the fit reports."""

from dataclasses import replace

import numpy as np
import pytest

from dcrec_spark.engine.ascent import AfterSweep, Fit, Moment, Stopping, alternate
from dcrec_spark.local.fits import Ratings, lay_out
from dcrec_spark.models.families.gamma_poisson import Gamma, GammaPoisson
from dcrec_spark.models.fitting.process_layout import ProcessLayout
from tests.reference.poisson import Array

PRIOR = Gamma(0.3, 0.3)


def ratings(seed: int) -> ProcessLayout:
    """Few ratings of many users: most of them have more than one optimum."""
    rng = np.random.default_rng(seed)
    return layout_of(rng, rng.random((60, 25)) < 0.15, largest=5)


def layout_of(rng: np.random.Generator, rated: Array, largest: int) -> ProcessLayout:
    (user, item), n_users = np.nonzero(rated), len(rated)
    keys = rng.integers(-(2**62), 2**62, sum(rated.shape))
    rating = rng.integers(1, largest + 1, len(user)).astype(float)
    return lay_out(Ratings(user, item, rating, keys[:n_users], keys[n_users:]), {"rating": rating}, "float64")


def steps(layout: ProcessLayout, seed: int, **of: bool) -> GammaPoisson:
    return GammaPoisson("outcome", "rating", 4, PRIOR, seed, intercept=PRIOR, n_pairs=layout.n_pairs, **of)


def fit(layout: ProcessLayout, model: GammaPoisson, sweeps: int, tol: float = 0.0) -> Fit:
    return alternate(layout.users, layout.items, model, Stopping(sweeps, tol), lambda *_: None)


@pytest.mark.parametrize(("seed", "accelerates"), [(7, False), (10, False), (7, True), (10, True), (16, True)])
def test_solving_the_users_costs_nothing(seed: int, accelerates: bool) -> None:
    layout = ratings(seed)
    model = steps(layout, seed, accelerates=accelerates)
    result = fit(layout, model, 600, tol=1e-6)
    assert result.final_objective == model.converged_objective(result.users.sums, result.items.sums, result.shared)
    assert result.final_objective == result.objective[-1] >= result.objective[-2]


@pytest.mark.parametrize("kind", ["exposure", "outcome"])
def test_tight_tolerance_ends_at_a_fixed_point(kind: str) -> None:
    """Solved users may leave the optimum of the sweeps: these fits would miss the fixed point by 0.1 to 0.6."""
    layout = ratings(4)
    model = steps(layout, 4) if kind == "outcome" else steps(layout, 4, accelerates=True)
    tight = fit(layout, model, 5_000, tol=1e-8)
    assert tight.converged
    assert movement(layout, model, tight, 1)[0] < 1e-3
    if kind == "exposure":
        tightest = fit(layout, model, 5_000, tol=1e-14)
        assert movement(layout, model, tightest, 400)[1] < 0.05


def test_fixed_point_takes_more_item_updates_where_solved_users_are_worse() -> None:
    """Popular items and rare ones: ten such updates would miss it by 0.009."""
    rng = np.random.default_rng(6)
    popularity = rng.lognormal(0.0, 1.0, 80)
    layout = layout_of(rng, rng.random((200, 80)) < 0.1 * popularity / popularity.mean(), largest=1)
    model = GammaPoisson("exposure", "rating", 8, PRIOR, 6, accelerates=True)
    result = fit(layout, model, 5_000, tol=1e-8)
    assert result.converged
    assert movement(layout, model, result, 1)[0] < 1e-3


@pytest.mark.parametrize("accelerates", [True, False])
def test_fit_interrupted_on_its_way_to_a_fixed_point_ends_as_one_that_was_not(accelerates: bool) -> None:
    """By the sweep that solved users refute, or by the one after it."""
    layout, sweeps = ratings(4), list[Moment]()
    model = steps(layout, 4, accelerates=accelerates)

    def run(start: Moment | None, after: AfterSweep | None) -> Fit:
        stop = Stopping(5_000, 1e-8)
        return alternate(layout.users, layout.items, model, stop, lambda *_: None, start, after)

    whole = run(None, sweeps.append)
    refuted = [at for at, moment in enumerate(sweeps[:-1]) if moment.past.converged]
    assert refuted
    for at in {at + after for at in (refuted[0], refuted[-1]) for after in (0, 1)}:
        resumed = run(sweeps[at], None)
        np.testing.assert_allclose(resumed.objective, whole.objective, rtol=1e-12)
        for one, other in ((resumed.users, whole.users), (resumed.items, whole.items)):
            np.testing.assert_allclose(one.memory_of(0)["shape"], other.memory_of(0)["shape"], rtol=1e-9)


def movement(layout: ProcessLayout, model: GammaPoisson, result: Fit, sweeps: int) -> tuple[float, float]:
    """The largest relative change by the first of so many plain sweeps, and how much all of them raise the ELBO."""
    plain, users, items, shared = replace(model, accelerates=False), result.users, result.items, result.shared
    changes, objective = [], np.nan
    for _ in range(sweeps):
        before = users, items
        users = layout.users.half_step(plain.update(shared, True), items, users)
        items = layout.items.half_step(plain.update(shared, False), users, items)
        objective, shared = plain.conclude(users.sums, items.sums, shared)
        memories = [(now.memory_of(0), last.memory_of(0)) for now, last in zip((users, items), before, strict=True)]
        changes.append(max(float(np.abs(a[n] / b[n] - 1).max()) for a, b in memories for n in ("shape", "rate")))
    return changes[0], objective - result.final_objective
