"""Metrics by plain loops: one user's list at a time, each formula as it is written on paper.

A list is a sequence of test ratings, best first; None stands for an item without a test rating. ``missed`` are the
user's test ratings that are not in the list. Where scores are equal, a metric is its mean over all orders of them, and
what an entry moves is the difference that leaving it out makes.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise, permutations, product
from math import log2
from typing import NamedTuple

List = Sequence[float | None]


class Variant(NamedTuple):
    gain: str = "2^rel-1"
    relevance: float = 3.0

    def worth(self, rating: float) -> float:
        if self.gain == "rel":
            return rating
        return 2**rating - 1 if self.gain == "2^rel-1" else 2 ** (rating - 1)


def dcg(gains: Sequence[float], k: float) -> float:
    return sum(gain / log2(place + 1) for place, gain in enumerate(gains, start=1) if place <= k)


def ndcg(ranked: List, missed: Sequence[float], k: float, variant: Variant) -> float | None:
    """None for a user whose ratings are worth nothing."""
    found = [0.0 if rating is None else variant.worth(rating) for rating in ranked]
    ideal = sorted([*found, *map(variant.worth, missed)], reverse=True)
    return dcg(found, k) / dcg(ideal, k) if dcg(ideal, k) > 0 else None


def hits(ranked: List, variant: Variant) -> int:
    return sum(rating is not None and rating >= variant.relevance for rating in ranked)


def recall(ranked: List, missed: Sequence[float], k: int, variant: Variant) -> float | None:
    """None for a user without a relevant item; so for the next two."""
    relevant = hits([*ranked, *missed], variant)
    return hits(ranked[:k], variant) / min(k, relevant) if relevant else None


def precision(ranked: List, missed: Sequence[float], k: int, variant: Variant) -> float | None:
    return hits(ranked[:k], variant) / k if hits([*ranked, *missed], variant) else None


def average_precision(ranked: List, missed: Sequence[float], k: int, variant: Variant) -> float | None:
    relevant = hits([*ranked, *missed], variant)
    if not relevant:
        return None
    places = [n for n in range(1, min(k, len(ranked)) + 1) if hits(ranked[n - 1 : n], variant)]
    return sum(hits(ranked[:place], variant) / place for place in places) / min(k, relevant)


AT_K: dict[str, "Metric"] = {"ndcg": ndcg, "recall": recall, "precision": precision, "map": average_precision}


# A list with ties: groups of equal scores, the best first.
Tied = Sequence[Sequence[float | None]]
Metric = Callable[[List, Sequence[float], int, Variant], float | None]


def orders(tied: Tied) -> Iterator[list[float | None]]:
    """All lists that the scores allow."""
    for order in product(*map(permutations, tied)):
        yield [rating for group in order for rating in group]


def expected(metric: Metric, tied: Tied, missed: Sequence[float], k: float, variant: Variant) -> float | None:
    """Mean over all orders; None for a user who has no value in any."""
    values = [metric(order, missed, k, variant) for order in orders(tied)]  # type: ignore[arg-type]
    return None if None in values else sum(filter(None, values)) / len(values)


def moves(metric: Metric, tied: Tied, missed: Sequence[float], k: float, variant: Variant) -> list[float]:
    """For each entry, the listed ones first: by how much the value falls without it."""

    def less(tied: Tied, missed: Sequence[float]) -> float:
        others = expected(metric, tied, missed, k, variant)
        return 0.0 if whole is None or others is None else whole - others

    whole = expected(metric, tied, missed, k, variant)
    listed = [
        less([[r for at, r in enumerate(own) if (g, at) != (group, place)] for g, own in enumerate(tied)], missed)
        for group in range(len(tied))
        for place in range(len(tied[group]))
    ]
    return listed + [less(tied, [r for at, r in enumerate(missed) if at != out]) for out in range(len(missed))]


class Row(NamedTuple):
    """A test rating and its prediction; users and items by ids that sort."""

    user: object
    item: object
    rating: float
    prediction: float


def own_rows(rows: Sequence[Row], user: object) -> list[list[Row]]:
    """A user's rows by falling prediction, in groups of equal ones."""
    own = sorted((row for row in rows if row.user == user), key=lambda row: row.item)
    assert all(one.item != other.item for one, other in pairwise(own))
    ranked = sorted(own, key=lambda row: -row.prediction)
    return [list(group) for _, group in groupby(ranked, key=lambda row: row.prediction)]


def ranked_ratings(rows: Sequence[Row], user: object) -> list[list[float]]:
    return [[row.rating for row in group] for group in own_rows(rows, user)]


def mean(values: Sequence[float | None]) -> tuple[float, int]:
    """Of those that are defined, and their number."""
    defined = [value for value in values if value is not None]
    return (sum(defined) / len(defined) if defined else float("nan")), len(defined)


def evaluate(
    rows: Sequence[Row], ks: Sequence[int], variant: Variant, clip: tuple[float, float] | None = None
) -> dict[str, tuple[float, int]]:
    lists = [ranked_ratings(rows, user) for user in sorted({row.user for row in rows})]
    found = {"ndcg": mean([expected(ndcg, own, [], float("inf"), variant) for own in lists])}
    for k in ks:
        for name, metric in AT_K.items():
            found[f"{name}@{k}"] = mean([expected(metric, own, [], k, variant) for own in lists])
    errors = [(row.item, clipped(row.prediction, clip) - row.rating) for row in rows]
    for name, loss in (("mse", lambda error: error**2), ("mae", abs)):
        found[name] = mean([loss(error) for _, error in errors])
        of_items = [mean([loss(e) for item, e in errors if item == this])[0] for this in {item for item, _ in errors}]
        found[f"item_{name}"] = mean(of_items)
    return found


def clipped(value: float, clip: tuple[float, float] | None) -> float:
    return value if clip is None else min(max(value, clip[0]), clip[1])
