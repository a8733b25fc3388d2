"""The vectorised metrics against loops, and against numbers worked by hand."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcrec_spark.kernels import metrics
from dcrec_spark.kernels.metrics import Lists, PerRow
from tests.reference import metrics as slow
from tests.reference.metrics import Variant

SEEDS = st.integers(0, 2**32)
CUTS = st.integers(1, 9)
GAINS = st.sampled_from(metrics.GAINS)
ENDLESS = float("inf")
examples = settings(max_examples=40)


class Users(NamedTuple):
    """For each user a list, best first, of groups of test ratings or None, and the test ratings that it lacks."""

    ranked: list[list[list[float | None]]]
    missed: list[list[float]]

    @classmethod
    def without_ties(cls, ranked: list[list[float | None]], missed: list[list[float]]) -> "Users":
        return cls([[[rating] for rating in own] for own in ranked], missed)

    def lists(self, variant: Variant) -> Lists:
        place, tested, rating, tie, number = [], [], [], [], 0
        pointer = [0]
        for own, lacking in zip(self.ranked, self.missed, strict=True):
            at = 1
            for group in [*own, *[[r] for r in lacking]]:
                rating += [0.0 if r is None else r for r in group]
                tested += [r is not None for r in group]
                tie += [number] * len(group)
                number += 1
            listed = sum(map(len, own))
            place += [*range(at, at + listed), *[ENDLESS] * len(lacking)]
            pointer.append(len(rating))
        ratings, known = np.array(rating, float), np.array(tested, bool)
        return Lists(
            np.array(pointer, np.int64),
            np.array(place, float),
            np.where(known, metrics.gains(ratings, variant.gain), 0.0),
            known & (ratings >= variant.relevance),
            np.array(tie, np.int64),
        )


def draw_users(seed: int) -> Users:
    """Some users have an empty list, some nothing relevant, some nothing at all; up to three entries are equal."""
    rng = np.random.default_rng(seed)

    def ratings(n: int) -> list[float]:
        return [float(r) for r in rng.integers(0, 6, n)]

    def tied() -> list[list[float | None]]:
        sizes = rng.integers(1, 4, int(rng.integers(0, 4)))
        return [[r if rng.random() < 0.7 else None for r in ratings(size)] for size in sizes]

    n_users = int(rng.integers(1, 5))
    return Users([tied() for _ in range(n_users)], [ratings(int(rng.integers(0, 4))) for _ in range(n_users)])


def values(metric: PerRow) -> list[float | None]:
    return [v if counted else None for v, counted in zip(metric.value.tolist(), metric.counted.tolist(), strict=True)]


def at_cut(lists: Lists, k: float) -> dict[str, PerRow]:
    found = {"ndcg": metrics.ndcg(lists, k)}
    return found if k == ENDLESS else found | metrics.hit_metrics(lists, int(k))


def assert_close(found: list[float | None], expected: list[float | None]) -> None:
    as_numbers = [np.array([np.nan if v is None else v for v in side]) for side in (found, expected)]
    np.testing.assert_allclose(*as_numbers, rtol=1e-11, atol=1e-12)


@examples
@given(SEEDS, CUTS, GAINS, st.sampled_from([3.0, 4.0]))
def test_every_metric_is_the_mean_over_orders_of_equal_scores(seed: int, k: int, gain: str, relevance: float) -> None:
    users, variant = draw_users(seed), Variant(gain, relevance)
    lists, pairs = users.lists(variant), list(zip(users.ranked, users.missed, strict=True))
    for cut in (k, ENDLESS):
        for name, metric in at_cut(lists, cut).items():
            assert_close(values(metric), [slow.expected(slow.AT_K[name], *pair, cut, variant) for pair in pairs])
            moved = [move for pair in pairs for move in slow.moves(slow.AT_K[name], *pair, cut, variant)]
            assert_close(metric.move.tolist(), moved)


def test_lists_worked_by_hand() -> None:
    """Relevant from 3 on, gain 2^rel - 1. The first list's gains: 31, of the missed 4 15, 3; hits@2 are 1 of 2."""
    lists = Users.without_ties([[5, None, 2], [2, 4, 3]], [[4], []]).lists(Variant())
    at = {k: {name: values(metric) for name, metric in at_cut(lists, k).items()} for k in (1, 2, 3, ENDLESS)}
    assert (at[2]["recall"], at[2]["precision"]) == ([1 / 2, 1 / 2], [1 / 2, 1 / 2])
    assert at[2]["map"] == pytest.approx([1 / 2, 1 / 4])
    assert at[2]["ndcg"][0] == pytest.approx(31 / (31 + 15 / np.log2(3)))
    assert at[ENDLESS]["ndcg"][0] == pytest.approx(0.7745, abs=1e-4)
    assert [at[3][name][1] for name in ("recall", "precision", "map")] == pytest.approx([1.0, 2 / 3, 7 / 12])
    assert at[1]["recall"][1] == 0.0


def test_every_item_counts_once_with_its_own_mean() -> None:
    """Errors 1 and 3, one of 0, none; without the 3 the first one's mean is 1."""
    found = metrics.error_means(np.array([0, 2, 3, 3]), np.array([1.0, 3.0, 0.0]))
    assert values(found) == [2.0, 0.0, None]
    assert found.move.tolist() == [2.0 - 3.0, 2.0 - 1.0, 0.0]
