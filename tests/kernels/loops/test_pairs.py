"""Loops over rated pairs do what NumPy does, with any terms of a model, and the same to the last bit on any threads."""

from collections.abc import Callable

import numpy as np
import pytest

from dcrec_spark.kernels import ridge_sums
from dcrec_spark.kernels.pairs import Known, confounder_sums, pulls, ratings_and_weights
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Shared
from tests.kernels import ways
from tests.kernels.loops.problems import counts_of
from tests.reference.poisson import Array

ROWS, COLS, RANK = 90, 300, 13
SHARED = Shared(intercept=0.4, gamma=-0.7)
Kernel = Callable[[RatingBlock, Design, Callable[[int, int], Array], bool], Array]
# w0, z, a weight of the confounder for each user, one that they depart from, biases; then whether there is a
# confounder, whether the sums over all pairs have another number for it.
MODELS = {
    "rated pairs alone": (Design(0.0, False), False, False),
    "all pairs": (Design(0.4, True), False, False),
    "biases": (Design(0.4, True, biases=True), False, False),
    "a weight for each user": (Design(0.4, True), True, False),
    "biases, rated pairs' preference, own votes left out": (Design(0.4, False, biases=True), True, True),
    "one weight for all users": (Design(0.4, True, False), True, False),
    "weights that depart from a common one, all terms": (Design(0.4, True, True, True, True), True, True),
}


def block_of(confounder: bool, low_rank: bool, dtype: str) -> RatingBlock:
    """Row 1 without pairs, row 2 with more than a piece of the loops."""
    rng, counts = np.random.default_rng(4), counts_of(0, ROWS, COLS, 0.1, dtype)

    def drawn(there: bool) -> Array:
        return rng.uniform(0.1, 2.0, len(counts.col) * there).astype(dtype)

    exposure = np.ones((ROWS, 2 * confounder), dtype)
    of_pairs = (drawn(confounder), exposure, drawn(low_rank))
    return RatingBlock(counts.row_ptr, counts.col, counts.counts, drawn(True), *of_pairs)


def curvatures_and_pulls(block: RatingBlock, design: Design, numbers: Callable[[int, int], Array], _: bool) -> Array:
    of_users = numbers(COLS, 2 if block.has_confounder else 1)
    known = Known(of_users[:, 0], of_users[:, 1]) if block.has_confounder else Known(of_users[:, 0])
    return np.concatenate(pulls(block, known, design, block.rating.dtype))


def those_of_all_alike(block: RatingBlock, design: Design, numbers: Callable[[int, int], Array], _: bool) -> Array:
    known = Known(np.array([0.3]), np.array([-0.8])) if block.has_confounder else Known(np.array([0.3]))
    return np.concatenate(pulls(block, known, design, block.rating.dtype))


def sums_of_the_confounder(block: RatingBlock, design: Design, numbers: Callable[[int, int], Array], _: bool) -> Array:
    of_sources = numbers(COLS, 2)
    known, shown = Known(of_sources[:, 0]), Known(of_sources[:, 1])
    return np.concatenate(confounder_sums(block, known, shown, design))


def sums_of_the_objective(
    block: RatingBlock, design: Design, numbers: Callable[[int, int], Array], is_user: bool
) -> Array:
    """Held-out sums, too, of the same pairs."""
    own_weight = block.has_confounder and design.per_user
    of_items, of_users = RANK + design.biases, RANK + design.biases + own_weight
    rows, others = (of_users, of_items) if is_user else (of_items, of_users)
    given = (block, numbers(ROWS, rows), numbers(COLS, others), SHARED, design, is_user)
    sums = ridge_sums.observed_sums(*given) | ridge_sums.held_out_sums(*given)
    assert list(sums) == [*("square", "linear", "curvature"), *("held_square", "held_linear", "held_curvature")]
    return np.concatenate([np.ravel(each) for each in sums.values()])


def computed(kernel: Kernel, model: str, dtype: str) -> list[Array]:
    """For either side, or either kind of sum."""
    design, *terms = MODELS[model]
    block = block_of(*terms, dtype)
    if kernel is sums_of_the_confounder and not block.has_confounder:
        block = block_of(True, False, dtype)

    def numbers(n: int, width: int) -> Array:
        return np.random.default_rng(n * width).standard_normal((n, width)).astype(dtype)

    return [kernel(block, design, numbers, either) for either in (False, True)]


every_model = pytest.mark.parametrize("model", MODELS)
every_kernel = pytest.mark.parametrize(
    "kernel",
    [curvatures_and_pulls, those_of_all_alike, sums_of_the_confounder, sums_of_the_objective],
    ids=lambda kernel: kernel.__name__,
)


@every_model
@every_kernel
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-11), ("float32", 2e-5)])
def test_loops_do_what_numpy_does(kernel: Kernel, model: str, dtype: str, rtol: float) -> None:
    with ways.numpy_only():
        expected = computed(kernel, model, dtype)
    with ways.loops():
        found = computed(kernel, model, dtype)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@every_model
@every_kernel
def test_the_number_of_threads_changes_no_bit(kernel: Kernel, model: str) -> None:
    found = []
    for n_threads in (1, 2, 5):
        with ways.loops(n_threads):
            found.append(computed(kernel, model, "float32"))
    for each in found[1:]:
        for ours, first in zip(each, found[0], strict=True):
            np.testing.assert_array_equal(ours, first)


@pytest.mark.parametrize("stored", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("factors", [0, 1])
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-15), ("float32", 2e-7)])
def test_ratings_and_weights_however_ratings_are_stored(stored: str, factors: int, dtype: str, rtol: float) -> None:
    rng = np.random.default_rng(6)
    given, factor = rng.integers(0, 6, 50_001).astype(stored), rng.uniform(0.1, 3.0, 50_001 * factors)
    with ways.numpy_only():
        expected = ratings_and_weights(given, factor, 40.0, dtype)
    for n_threads in (1, 2, 5):
        with ways.loops(n_threads):
            rating, weight = ratings_and_weights(given, factor, 40.0, dtype)
        assert rating.dtype == weight.dtype == expected[1].dtype == dtype
        np.testing.assert_array_equal(rating, expected[0])
        np.testing.assert_allclose(weight, expected[1], rtol=rtol)
