"""Rankings by an index on the cluster: exact in all that they find, the same whatever the partitions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, errors
from dcrec_spark.errors import ConfigError, MissingExtraError
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.outcome import rank_here, rank_indexed
from dcrec_spark.models.outcome.vectors import Offer, ScoringVectors
from tests.frames import frame_of
from tests.reference.poisson import Array

N_USERS, N_ITEMS, N = 60, 2500, 4


@pytest.fixture(autouse=True)
def on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is to rank; in three pieces, asked for by two groups of users."""
    monkeypatch.setattr(rank_here, "LOCAL_ROWS", 0)
    monkeypatch.setattr(rank_indexed, "LEAST_COLS", 4)
    monkeypatch.setattr(rank_indexed, "INDEX_COLS", 1000)
    monkeypatch.setattr(rank_indexed, "INDEX_ROWS", 40)


# Of many items, by a search of few lists


def side(spark: SparkSession, preference: Array, confounder: Array) -> DataFrame:
    rows = [
        (idx, f"{idx:04}", *pair) for idx, pair in enumerate(zip(preference.tolist(), confounder.tolist(), strict=True))
    ]
    return frame_of(spark, rows, "idx long, id string, preference array<double>, confounder array<double>")


@pytest.fixture(scope="module")
def vectors(spark: SparkSession) -> ScoringVectors:
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape)

    near = normal(50, 6)[rng.integers(0, 50, N_ITEMS)] + 0.2 * normal(N_ITEMS, 6)
    users = side(spark, normal(N_USERS, 6), np.abs(normal(N_USERS, 2)) / 10.0)
    items = side(spark, near, np.abs(normal(N_ITEMS, 2)) * 10.0)
    return ScoringVectors(users.cache(), items.cache(), N_USERS, N_ITEMS, 3.0)


@pytest.fixture(scope="module")
def seen(spark: SparkSession) -> DataFrame:
    """Of some users some hundred items, of one user all but three."""
    pairs = [(f"{u:04}", f"{i:04}") for u in range(5) for i in range(0, N_ITEMS, 10 + u)]
    pairs += [("0007", f"{i:04}") for i in range(3, N_ITEMS)]
    return frame_of(spark, pairs, "user_id string, item_id string")


Lists = dict[str, list[tuple[Any, ...]]]


def lists_of(table: DataFrame) -> Lists:
    lists: Lists = {}
    for row in table.orderBy("user_id", "rank").collect():
        lists.setdefault(row["user_id"], []).append(tuple(row)[1:])
    return lists


@pytest.fixture(scope="module")
def exact(vectors: ScoringVectors, seen: DataFrame) -> Lists:
    return lists_of(vectors.best(N, seen))


def test_what_is_found_is_scored_and_ordered_exactly(vectors: ScoringVectors, seen: DataFrame, exact: Lists) -> None:
    """Few lists are looked through, so something is missing; what is there has the exact ranking's scores."""
    found = lists_of(vectors.best(N, seen, searched_share=0.05))
    assert found.keys() == exact.keys()
    every = {user: {entry[1]: entry[2:] for entry in entries} for user, entries in lists_of(vectors.best(50)).items()}
    left_out = {(row["user_id"], row["item_id"]) for row in seen.collect()}
    hits = 0
    for user, entries in found.items():
        assert [rank for rank, *_ in entries] == list(range(1, len(exact[user]) + 1))
        scores = [entry[2] for entry in entries]
        assert scores == sorted(scores, reverse=True)
        for _, item, *parts in entries:
            assert (user, item) not in left_out
            assert every[user].get(item, tuple(parts)) == tuple(parts)
        hits += len({entry[1] for entry in entries} & {entry[1] for entry in exact[user]})
    assert 0.6 < hits / sum(map(len, exact.values())) < 1.0


def test_who_has_few_items_left_gets_all_of_them(vectors: ScoringVectors, seen: DataFrame, exact: Lists) -> None:
    found = lists_of(vectors.best(N, seen, searched_share=0.02))
    assert found["0007"] == exact["0007"]
    assert len(exact["0007"]) == 3


def test_the_lists_are_the_same_whatever_the_partitions_and_whoever_is_asked_for(
    spark: SparkSession,
    vectors: ScoringVectors,
    seen: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = lists_of(vectors.best(N, seen, searched_share=0.05))
    monkeypatch.setattr(rank_indexed, "INDEX_ROWS", 7)
    few = frame_of(spark, [("0003",), ("0041",), ("0007",)], "id string")
    for partitions in (1, 5):
        shuffled = (table.repartition(partitions) for table in (vectors.users, vectors.items))
        placed = ScoringVectors(*shuffled, N_USERS, N_ITEMS, 3.0)
        assert lists_of(placed.best(N, seen.repartition(partitions), searched_share=0.05)) == usual
        asked = lists_of(placed.best(N, seen, few, searched_share=0.05))
        assert asked == {user: usual[user] for user in ("0003", "0041", "0007")}


def test_a_search_of_all_lists_is_the_exact_ranking(vectors: ScoringVectors, seen: DataFrame, exact: Lists) -> None:
    assert lists_of(vectors.best(N, seen, searched_share=1.0)) == exact


def test_a_small_catalogue_is_ranked_exactly(
    vectors: ScoringVectors, seen: DataFrame, exact: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_indexed, "LEAST_COLS", N_ITEMS)
    assert lists_of(vectors.best(N, seen, searched_share=0.01)) == exact


def test_a_small_offer_of_a_large_catalogue_is_ranked_exactly(
    spark: SparkSession, vectors: ScoringVectors, seen: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_indexed, "LEAST_COLS", 300)
    offer = Offer(frame_of(spark, [(f"{i:04}",) for i in range(0, N_ITEMS, 10)], "id string"))
    exactly = lists_of(vectors.best(N, seen, offer=offer))
    assert lists_of(vectors.best(N, seen, offer=offer, searched_share=0.01)) == exactly


# Every call that takes it


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    rows = [(u, i, float((u * i) % 5 + 1)) for u in range(12) for i in range(20) if (u + i) % 3]
    return frame_of(spark, rows, "user int, item int, rating double")


@pytest.fixture(scope="module")
def model(ratings: DataFrame) -> Iterator[DeconfoundedMFModel]:
    fitted = DeconfoundedMF(outcome="probabilistic", rank=3, exposureRank=2, maxIter=2).fit(ratings)
    yield fitted
    fitted.release()


def test_every_call_finds_by_all_lists_what_the_exact_one_does(
    spark: SparkSession, model: DeconfoundedMFModel, ratings: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_indexed, "INDEX_COLS", 7)
    items = frame_of(spark, [(i, "ab"[i % 2]) for i in range(1, 20)], "item int, category string")
    some = ratings.where("user % 3 = 1 and item % 3 = 1")
    calls = [
        lambda share: model.recommendationTable(3, ratings, some, items, 1, searchedShare=share),
        lambda share: model.recommendForAllUsers(3, ratings, searchedShare=share),
        lambda share: model.recommendForUserSubset(some, 3, ratings, searchedShare=share),
        lambda share: model.recommendForAllItems(3, ratings, searchedShare=share),
        lambda share: model.recommendForItemSubset(some, 3, ratings, searchedShare=share),
        lambda share: model.similarItems(3, "cosine", items, searchedShare=share),
    ]
    for call in calls:
        found, expected = (sorted(map(tuple, call(share).collect())) for share in (1.0, None))
        assert found == expected
        assert found


@pytest.mark.parametrize("share", [0, 0.0, 1.5, -0.1, True, "0.1", float("nan")])
def test_a_share_that_is_none_is_refused(model: DeconfoundedMFModel, share: Any) -> None:
    expected = r"^searchedShare: found .*, expected a number above 0 and at most 1, or None"
    for call in (model.recommendationTable, model.recommendForAllUsers, model.similarItems):
        with pytest.raises(ValueError, match=expected):
            call(2, searchedShare=share)


def test_a_link_of_the_exposure_is_refused(vectors: ScoringVectors) -> None:
    linked = ScoringVectors(vectors.users, vectors.items, N_USERS, N_ITEMS, 3.0, Form("sqrt", 0.0, 1.0, 2.0))
    with pytest.raises(ConfigError, match="searchedShare needs confounderLink=identity; this model has sqrt"):
        linked.best(2, searched_share=0.1)


def test_without_faiss_it_is_said_what_to_install(
    model: DeconfoundedMFModel, ratings: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "is_installed", lambda package: package != "faiss")
    with pytest.raises(MissingExtraError, match=r"^faiss is not installed.*pip install 'dcrec-spark\[index\]'$"):
        model.recommendationTable(2, ratings, searchedShare=0.1)
    assert model.recommendationTable(2, ratings).count()
