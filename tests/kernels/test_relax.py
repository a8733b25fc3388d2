"""Long steps: a row's count shared out anew, further than an update would."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels.relax import over_relaxed, over_relaxed_rows
from tests.kernels import ways
from tests.reference.poisson import Array, Priors, State, long_steps

LENGTHS = st.floats(1.0, 1.99)
examples = settings(max_examples=50)


@pytest.fixture(scope="module", autouse=True, params=[1, 3], ids=["one thread", "three threads"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """However few the numbers are."""
    with ways.threaded(request.param):
        yield


def shapes(seed: int) -> tuple[Array, Array, Array]:
    """Before and after an update, and the prior; row 0 is without counts."""
    rng = np.random.default_rng(seed)
    n, rank = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    prior = np.full(rank, rng.uniform(0.05, 2.0))
    before = prior * (1 + rng.gamma(0.3, 30.0, (n, rank)))
    updated = prior + rng.gamma(0.3, 30.0, (n, rank))
    updated[0] = prior
    return before, updated, prior


@examples
@given(st.integers(0, 2**32), LENGTHS)
def test_it_is_the_twin(seed: int, length: float) -> None:
    before, updated, prior = shapes(seed)
    one = np.ones_like(before)
    states = State(before, one, one, one), State(updated, one, one, one)
    expected = long_steps(*states, length, Priors(user_shape=float(prior[0]))).user_shape
    np.testing.assert_allclose(over_relaxed(before, updated, prior, length), expected, rtol=1e-10)


@examples
@given(st.integers(0, 2**32), LENGTHS)
def test_rows_keep_their_sums_and_stay_above_the_prior(seed: int, length: float) -> None:
    before, updated, prior = shapes(seed)
    relaxed = over_relaxed(before, updated, prior, length)
    np.testing.assert_allclose(relaxed.sum(axis=1), updated.sum(axis=1), rtol=1e-10)
    assert (relaxed >= prior).all()
    np.testing.assert_array_equal(relaxed[0], prior)


def test_what_grew_grows_more_and_length_1_is_the_update() -> None:
    before, updated, prior = np.array([[2.0, 2.0]]), np.array([[3.0, 1.0]]), np.array([0.3, 0.3])
    np.testing.assert_array_equal(over_relaxed(before, updated, prior, 1.0), updated)
    relaxed = over_relaxed(before, updated, prior, 1.5)
    assert relaxed[0, 0] > 3.0
    assert relaxed[0, 1] < 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_stay_finite_in_their_type(dtype: type) -> None:
    """From next to nothing to a million in one step, and back."""
    few, many = np.array([[0.3, 1e-2]], dtype), np.array([[1e6, 1e-2]], dtype)
    for before, updated in ((few, many), (many, few)):
        relaxed = over_relaxed(before, updated, np.full(2, 1e-2, dtype), 1.9)
        assert np.isfinite(relaxed).all()
        assert relaxed.dtype == dtype


@examples
@given(st.integers(0, 2**32), LENGTHS)
def test_a_long_step_of_least_squares_shrinks_what_the_loss_is_above_its_smallest(seed: int, length: float) -> None:
    rng = np.random.default_rng(seed)
    rows, before = rng.normal(size=(7, 4)), rng.normal(size=(1, 4))
    matrix, target = rows.T @ rows + np.eye(4), rng.normal(size=4)

    def loss(x: Array) -> float:
        return float(x[0] @ matrix @ x[0] - 2 * x[0] @ target)

    solved = np.linalg.solve(matrix, target)[None, :]
    after = over_relaxed_rows(before, solved, length)
    above = (1 - length) ** 2 * (loss(before) - loss(solved))
    assert loss(after) - loss(solved) == pytest.approx(above, rel=1e-9, abs=1e-9)


def test_a_step_to_the_solution_begins_nowhere() -> None:
    before, solved = np.zeros((2, 3)), np.ones((2, 3), np.float32)
    assert over_relaxed_rows(before, solved, 1.0) is solved
    assert over_relaxed_rows(None, solved, 1.7) is solved
    assert over_relaxed_rows(before, solved, 1.5).dtype == np.float32
