"""The vectorised metrics against loops, against numbers worked by hand, and against scikit-learn."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, mean_absolute_error, mean_squared_error, ndcg_score

from dcrec_spark.kernels import metrics
from dcrec_spark.kernels.metrics import Lists, PerRow
from tests.reference import metrics as slow
from tests.reference.metrics import Variant
from tests.reference.poisson import Array

SEEDS = st.integers(0, 2**32)
CUTS = st.integers(1, 9)
GAINS = st.sampled_from(metrics.GAINS)
ENDLESS = float("inf")


class Users(NamedTuple):
    """For each user a list, best first, of test ratings or None, and the test ratings that it lacks."""

    ranked: list[list[float | None]]
    missed: list[list[float]]

    def lists(self, variant: Variant) -> Lists:
        everything = [[*own, *lacking] for own, lacking in zip(self.ranked, self.missed, strict=True)]
        flat = [rating for own in everything for rating in own]
        rating = np.array([0.0 if value is None else value for value in flat])
        tested = np.array([value is not None for value in flat], bool)
        place = [
            place
            for own, lacking in zip(self.ranked, self.missed, strict=True)
            for place in [*range(1, len(own) + 1), *[ENDLESS] * len(lacking)]
        ]
        return Lists(
            np.concatenate([[0], np.cumsum([len(own) for own in everything])]).astype(np.int64),
            np.array(place, float),
            np.where(tested, metrics.gains(rating, variant.gain), 0.0),
            tested & (rating >= variant.relevance),
        )


def draw_users(seed: int) -> Users:
    """Some users have an empty list, some nothing relevant, some nothing at all."""
    rng = np.random.default_rng(seed)

    def ratings(n: int) -> list[float]:
        return [float(r) for r in rng.integers(0, 6, n)]

    n_users = int(rng.integers(1, 7))
    ranked = [[r if rng.random() < 0.7 else None for r in ratings(int(rng.integers(0, 9)))] for _ in range(n_users)]
    return Users(ranked, [ratings(int(rng.integers(0, 4))) for _ in range(n_users)])


def values(metric: PerRow) -> list[float | None]:
    return [t / w if w else None for t, w in zip(metric.total.tolist(), metric.weight.tolist(), strict=True)]


def at_cut(lists: Lists, k: float) -> dict[str, PerRow]:
    (ideal,) = metrics.ideal_dcg(lists.row_ptr, lists.gain, [k])
    found = {"ndcg": metrics.ndcg(lists, k, ideal)}
    return found if k == ENDLESS else found | metrics.hit_metrics(lists, int(k))


def assert_close(found: list[float | None], expected: list[float | None]) -> None:
    """The same users have a value, and the same one."""
    as_numbers = [np.array([np.nan if v is None else v for v in side]) for side in (found, expected)]
    np.testing.assert_allclose(*as_numbers, rtol=1e-12, atol=1e-14)


@given(SEEDS, CUTS, GAINS, st.sampled_from([3.0, 4.0]))
def test_every_metric_is_the_loops(seed: int, k: int, gain: str, relevance: float) -> None:
    users, variant = draw_users(seed), Variant(gain, relevance)
    pairs = list(zip(users.ranked, users.missed, strict=True))
    for name, metric in at_cut(users.lists(variant), k).items():
        assert_close(values(metric), [slow.AT_K[name](own, lacking, k, variant) for own, lacking in pairs])


@given(SEEDS, GAINS)
def test_ndcg_of_the_whole_list_is_the_loops(seed: int, gain: str) -> None:
    users, variant = draw_users(seed), Variant(gain)
    found = values(at_cut(users.lists(variant), ENDLESS)["ndcg"])
    pairs = zip(users.ranked, users.missed, strict=True)
    assert_close(found, [slow.ndcg(own, lacking, ENDLESS, variant) for own, lacking in pairs])


def test_lists_worked_by_hand() -> None:
    """The numbers stand in the docstring of the loops."""
    lists = Users([[5, None, 2], [2, 4, 3]], [[4], []]).lists(Variant())
    at_two = {name: values(metric) for name, metric in at_cut(lists, 2).items()}
    assert at_two["recall"] == [1 / 2, 1 / 2]
    assert at_two["precision"] == [1 / 2, 1 / 2]
    assert at_two["map"] == [1 / 2, 1 / 4]
    assert at_two["ndcg"][0] == pytest.approx(31 / (31 + 15 / np.log2(3)))
    assert values(at_cut(lists, ENDLESS)["ndcg"])[0] == pytest.approx(0.7745, abs=1e-4)
    at_three = {name: values(metric)[1] for name, metric in at_cut(lists, 3).items()}
    assert (at_three["recall"], at_three["precision"]) == (1.0, 2 / 3)
    assert at_three["map"] == pytest.approx(7 / 12)
    assert values(at_cut(lists, 1)["recall"])[1] == 0.0


@pytest.mark.parametrize(
    ("kind", "expected"), [("2^rel-1", [0, 1, 31]), ("2^(rel-1)", [0.5, 1, 16]), ("rel", [0, 1, 5])]
)
def test_gains_of_the_ratings_0_1_and_5(kind: str, expected: list[float]) -> None:
    assert metrics.gains(np.array([0.0, 1.0, 5.0]), kind).tolist() == expected


@given(SEEDS, st.integers(1, 12))
def test_lists_of_the_same_ratings_are_never_better_than_the_ideal_one(seed: int, n: int) -> None:
    """And the ideal one, of falling ratings, has exactly 1."""
    rng = np.random.default_rng(seed)
    ratings = rng.integers(1, 6, n).astype(float)
    best, any_order = sorted(ratings, reverse=True), rng.permutation(ratings)
    for k in (1, 3, ENDLESS):
        lists = Users([list(best), list(any_order)], [[], []]).lists(Variant())
        found = values(at_cut(lists, k)["ndcg"])
        assert found[0] == 1.0
        assert found[1] is not None
        assert 0 <= found[1] <= 1


@given(SEEDS)
def test_equal_scores_keep_the_order_they_came_in(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, int(rng.integers(1, 5)))
    row_ptr = np.concatenate([[0], np.cumsum(sizes)])
    score = rng.integers(0, 3, row_ptr[-1]).astype(float)
    expected = [
        entry
        for start, end in pairwise(row_ptr)
        for entry in sorted(range(start, end), key=lambda entry: (-score[entry], entry))
    ]
    assert metrics.best_first(row_ptr, score).tolist() == expected
    assert metrics.places(row_ptr).tolist() == [place for size in sizes for place in range(1, size + 1)]


def test_a_hundred_thousand_rows_are_sorted_as_few_are() -> None:
    """Their numbers do not fit into the 16 bits that sort fastest."""
    row_ptr = np.arange(100_001) * 2
    score = np.tile([1.0, 2.0], 100_000)
    expected = np.arange(200_000).reshape(-1, 2)[:, ::-1].ravel()
    np.testing.assert_array_equal(metrics.best_first(row_ptr, score), expected)


@given(SEEDS)
def test_errors_are_sums_over_the_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    row_ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 5, 4))])
    rating, prediction = rng.integers(1, 6, row_ptr[-1]).astype(float), rng.normal(3, 2, row_ptr[-1])
    found = metrics.error_metrics(row_ptr, rating, prediction)
    for row, (start, end) in enumerate(pairwise(row_ptr)):
        errors = [p - r for p, r in zip(prediction[start:end], rating[start:end], strict=True)]
        assert found["mse"].total[row] == pytest.approx(sum(e**2 for e in errors))
        assert found["mae"].total[row] == pytest.approx(sum(map(abs, errors)))
        assert found["mse"].weight[row] == len(errors)


def test_every_item_counts_once_with_its_own_mean() -> None:
    """Two ratings with errors 1 and 3, one with 0, none."""
    sums = PerRow(np.array([1.0 + 9.0, 0.0, 0.0]), np.array([2.0, 1.0, 0.0]))
    assert values(metrics.row_means(sums)) == [5.0, 0.0, None]


# An independent library


def scored(seed: int) -> tuple[Array, Array, Lists]:
    """Ratings of one user and scores without ties, and the list that they make."""
    rng = np.random.default_rng(seed)
    rating, score = rng.integers(1, 6, 12).astype(float), rng.permutation(12).astype(float)
    row_ptr = np.array([0, 12])
    ranked = metrics.best_first(row_ptr, score)
    gain = metrics.gains(rating, "2^rel-1")
    return rating, score, Lists(row_ptr, metrics.places(row_ptr), gain[ranked], rating[ranked] >= 4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 5, None])
def test_ndcg_is_scikit_learns(seed: int, k: int | None) -> None:
    """Which takes gains as they are, so it gets 2^rel - 1."""
    rating, score, lists = scored(seed)
    expected = ndcg_score([2**rating - 1], [score], k=k)
    assert values(at_cut(lists, k or ENDLESS)["ndcg"])[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_average_precision_of_the_whole_list_is_scikit_learns(seed: int) -> None:
    rating, score, lists = scored(seed)
    expected = average_precision_score(rating >= 4, score)
    assert values(at_cut(lists, 12)["map"])[0] == pytest.approx(expected, rel=1e-12)


def test_errors_are_scikit_learns() -> None:
    rating, score, lists = scored(3)
    found = metrics.error_metrics(lists.row_ptr, rating, score)
    assert values(found["mse"])[0] == pytest.approx(mean_squared_error(rating, score), rel=1e-12)
    assert values(found["mae"])[0] == pytest.approx(mean_absolute_error(rating, score), rel=1e-12)
