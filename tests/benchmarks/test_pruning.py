"""Bounds that leave scores out leave no list out of its best, and what is left is counted as a scan counts it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pruning import (
    Vectors,
    by_leading,
    by_norms,
    by_norms_apart,
    from_the_mean,
    shares,
    still_to_make,
    turned,
)
from tests.reference.poisson import Array
from tests.reference.topn import top_n

SEEDS = st.integers(0, 2**32)
BOUNDS: dict[str, Callable[[Vectors], Array]] = {
    "norms": by_norms,
    "norms apart": by_norms_apart,
    "leading": lambda vectors: by_leading(turned(vectors), 2),
}


def drawn(seed: int, whole_numbers: bool) -> Vectors:
    """``whole_numbers``: so that many scores are equal, and many items go in a user's own direction."""
    rng = np.random.default_rng(seed)
    n_users, n_items, *widths = rng.integers(1, (6, 12, 4, 4))

    def draw(rows: int, width: int) -> Array:
        return rng.integers(-1, 2, (rows, width)).astype(float) if whole_numbers else rng.normal(size=(rows, width))

    return Vectors(*((draw(n_users, width), draw(n_items, width)) for width in widths))


def scan(scores: Array, bounds: Array, n: int) -> tuple[list[int], int]:
    """The n best of a user's items, and how many were made, by falling bounds until these are below the n-th best."""
    made: list[int] = []
    for item in np.argsort(-bounds):
        best = sorted(made, key=lambda i: (-scores[i], i))[:n]
        if len(best) == n and bounds[item] < scores[best[-1]]:
            break
        if scores[item] > -np.inf:
            made.append(int(item))
    return sorted(made, key=lambda i: (-scores[i], i))[:n], len(made)


@pytest.mark.parametrize("way", BOUNDS)
@given(SEEDS, st.booleans())
def test_lists_of_what_is_still_made_are_the_full_ones(way: str, seed: int, whole_numbers: bool) -> None:
    """As many scores are made as are counted; some pairs are left out."""
    vectors, rng = drawn(seed, whole_numbers), np.random.default_rng(seed)
    bounds, scores = BOUNDS[way](vectors), vectors.scores()
    n, seen = int(rng.integers(1, scores.shape[1] + 1)), rng.random(scores.shape) < 0.3
    left = np.where(seen, -np.inf, scores)
    scanned = [scan(*row, n) for row in zip(left, bounds, strict=True)]
    assert [best for best, _ in scanned] == top_n(scores, n, seen)
    assert [made for _, made in scanned] == still_to_make(left, bounds, n).tolist()


@given(SEEDS, st.booleans())
def test_turned_vectors_and_those_from_the_mean_rank_alike(seed: int, whole_numbers: bool) -> None:
    vectors = drawn(seed, whole_numbers)
    scores = vectors.scores()
    np.testing.assert_allclose(turned(vectors).scores(), scores, atol=1e-12)
    common = scores.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(from_the_mean(vectors).scores(), scores - common, atol=1e-12)


def test_shares_by_hand() -> None:
    """The best of four items, and the best but the first, for a user who is 1 in preference and 0 in the confounder.

    scores                      3    0    2    1       from the mean of items    1.5   -1.5   .5    -.5
    norms                       3    4    2    1                                 1.80  3.35   1.12  1.12
    norms apart                 3    0    2    1                                 1.5   1.5    .5    .5
    all directions are made     3    0    2    1
    """
    items = np.array([[3.0], [0.0], [2.0], [1.0]]), np.array([[0.0], [4.0], [0.0], [0.0]])
    vectors = Vectors((np.ones((1, 1)), items[0]), (np.zeros((1, 1)), items[1]))
    found = shares(vectors, np.array([[0], [0]]), n=1, more=0)
    of_four, of_three = zip(*(share.values() for share in found.values()), strict=True)
    assert of_four == (2 / 4, 1 / 4, 2 / 4, 2 / 4, 1 / 4)
    np.testing.assert_allclose(of_three, [2 / 3, 1 / 3, 3 / 3, 3 / 3, 1 / 3], atol=1e-4)
