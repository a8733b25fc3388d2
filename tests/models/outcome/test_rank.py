"""Rankings on the cluster against the dense reference's, whatever the chunks and pieces."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.ridge_terms import Shared
from dcrec_spark.models.fitting.factors import completed
from dcrec_spark.models.fitting.facts import FitFacts, OutcomeFacts
from dcrec_spark.models.outcome import rank
from dcrec_spark.models.outcome.tables import FactorTables
from tests.frames import frame_of, persisted, persisted_before
from tests.reference import topn as dense
from tests.reference.poisson import Array

N_USERS, N_ITEMS, RANK, EXPOSURE_RANK, INTERCEPT = 11, 13, 3, 2, 0.5
USERS = [f"u{number:02}" for number in range(N_USERS)]
ITEMS = [10 * number for number in range(N_ITEMS)]


class Fitted(NamedTuple):
    """A model with factors of whole numbers, so that scores are exact and often equal, and its scores."""

    model: DeconfoundedMFModel
    scores: dense.Scores
    seen: DataFrame
    seen_table: Array
    a_hat: Array

    def expected(self, n: int, seen: bool | Array, *cap: Any, weight: float = 0.0) -> list[tuple[Any, ...]]:
        """seen : whether seen pairs are left out, or those that are. weight : of the exposure, in the order."""
        left_out = seen if isinstance(seen, np.ndarray) else self.seen_table if seen else None
        baseline = np.full(N_USERS, INTERCEPT)
        value = dense.dial(self.scores.score, baseline, self.a_hat, weight) if weight else None
        rows = dense.recommend(self.scores, n, left_out, *cap, value=value)
        return [(USERS[r.user_idx], r.rank, ITEMS[r.item_idx], r.score, r.preference, r.confounder) for r in rows]


def factors_of(spark: SparkSession, ids: list[Any], columns: dict[str, Array]) -> DataFrame:
    rows = [(idx, name, *(c[idx].tolist() for c in columns.values())) for idx, name in enumerate(ids)]
    types = ", ".join(f"{name} {'array<double>' if c.ndim == 2 else 'double'}" for name, c in columns.items())
    id_type = "string" if isinstance(ids[0], str) else "int"
    return frame_of(spark, rows, f"idx long, id {id_type}, {types}").repartition(3)


def make_fitted(spark: SparkSession, confounder: bool) -> Fitted:
    """Of the users, u00 has seen nothing and u01 everything."""
    rng = np.random.default_rng(4)

    def draw(*shape: int) -> Array:
        return rng.integers(-1, 2, shape).astype(float)

    theta, beta, gamma = draw(N_USERS, RANK), draw(N_ITEMS, RANK), draw(N_USERS) * confounder
    pi, lam = rng.integers(1, 3, (N_USERS, EXPOSURE_RANK)), rng.integers(1, 3, (N_ITEMS, EXPOSURE_RANK))
    users = factors_of(spark, USERS, {"features": theta, "gamma": gamma})
    items = factors_of(spark, ITEMS, {"features": beta})
    # A mean of shape / rate that is exact: rate 1/2.
    stage_one = [
        factors_of(spark, ids, {"shape": mean / 2, "rate": np.full(mean.shape, 0.5)}).drop("idx")
        for ids, mean in ((USERS, pi), (ITEMS, lam))
    ]
    exposure = PoissonFactorizationModel(*stage_one, [0.0]) if confounder else None
    sides = [users, items]
    if confounder:
        named = {"shape": "exposure_shape", "rate": "exposure_rate"}
        sides = [side.join(of.withColumnsRenamed(named), "id") for side, of in zip(sides, stage_one, strict=True)]
    tables = FactorTables.cached(*map(completed, sides))
    model = DeconfoundedMFModel(tables, OutcomeFacts(Shared(INTERCEPT), 3.0, FitFacts([0.0])), exposure)
    settings = DeconfoundedMF(outcome="probabilistic", fitBiases=False)
    settings._copyValues(model)
    seen_table = rng.random((N_USERS, N_ITEMS)) < 0.5
    seen_table[0], seen_table[1] = False, True
    pairs = [(USERS[u], ITEMS[i], 5.0) for u, i in zip(*np.nonzero(seen_table), strict=True)]
    seen = frame_of(spark, pairs, "user string, item int, rating double")
    scores = dense.score_all((theta, beta), (gamma[:, None] * pi, lam), INTERCEPT)
    return Fitted(model, scores, seen, seen_table, pi @ lam.T)


@pytest.fixture(autouse=True, params=["here", "on the cluster"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    where = str(request.param)
    if where != "here":
        monkeypatch.setattr(rank, "LOCAL_ROWS", 0)
    return where


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> Fitted:
    return make_fitted(spark, confounder=True)


def rows_of(table: DataFrame) -> list[tuple[Any, ...]]:
    assert table.columns == ["user_id", "rank", "item_id", "score", "preference", "confounder"]
    return [tuple(row) for row in table.orderBy("user_id", "rank").collect()]


def test_table_matches_the_dense_reference(fitted: Fitted) -> None:
    assert rows_of(fitted.model.recommendationTable(1)) == fitted.expected(1, seen=False)
    table = fitted.model.recommendationTable(N_ITEMS + 1, fitted.seen)
    assert rows_of(table) == fitted.expected(N_ITEMS + 1, seen=True)


def test_exposure_weight_orders_by_what_users_see_too(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores stay potential ratings. Every list has the order, from pieces of two items too."""
    monkeypatch.setattr(rank, "PIECE_COLS", 2)
    model = fitted.model.copy({fitted.model.exposureWeight: 0.5})
    table, expected = model.recommendationTable(4, fitted.seen), fitted.expected(4, seen=True, weight=0.5)
    assert [row[:3] for row in rows_of(table)] == [row[:3] for row in expected]
    np.testing.assert_allclose([row[3:] for row in rows_of(table)], [row[3:] for row in expected])
    assert expected != fitted.expected(4, seen=True)
    lists = {user: [entry[0] for entry in entries] for user, entries in lists_of(model.recommendForAllUsers(4)).items()}
    everything = fitted.expected(4, seen=False, weight=0.5)
    assert lists == {user: [row[2] for row in everything if row[0] == user] for user in USERS}
    value = dense.dial(fitted.scores.score, np.full(N_USERS, INTERCEPT), fitted.a_hat, 0.5)
    best = dense.recommend(dense.Scores(*(part.T for part in fitted.scores)), 4, value=value.T)
    found = {row.item: [entry.user for entry in row.recommendations] for row in model.recommendForAllItems(4).collect()}
    assert found == {item: [USERS[row.item_idx] for row in best if ITEMS[row.user_idx] == item] for item in ITEMS}


def test_without_exposures_their_part_is_zero_and_a_weight_of_them_refused(spark: SparkSession, fitted: Fitted) -> None:
    classical = make_fitted(spark, confounder=False)
    assert rows_of(classical.model.recommendationTable(4, classical.seen)) == classical.expected(4, seen=True)
    assert not classical.scores.confounder.any()
    with pytest.raises(ConfigError, match=r"exposureWeight: found 0.5, expected 0: the model has no exposure model"):
        classical.model.setExposureWeight(0.5).recommendationTable(2)
    with pytest.raises(ConfigError, match="exposureWeight"):
        DeconfoundedMF(adjustment="none", exposureWeight=0.5).fit(fitted.seen)


def test_seen_pairs_may_be_strange_or_told_twice(spark: SparkSession, fitted: Fitted) -> None:
    """Unknown users and items, and a pair given again, leave out no more than the known pairs. Any width of ids is."""
    strange = frame_of(
        spark, [("nobody", 0, 1.0), ("u02", 999, 1.0), (None, 0, 1.0), ("u01", 0, 1.0)], fitted.seen.schema
    )
    before = persisted_before(spark)
    table = fitted.model.recommendationTable(3, fitted.seen.union(strange))
    assert rows_of(table) == fitted.expected(3, seen=True)
    assert persisted(spark) == before  # ranking leaves nothing cached
    wide = fitted.seen.selectExpr("user", "cast(item as long) as item")
    assert rows_of(fitted.model.recommendationTable(3, wide)) == fitted.expected(3, seen=True)


def test_lists_keep_the_offer_and_a_limit_on_categories(
    spark: SparkSession, fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "CHUNK_ROWS", 6)
    monkeypatch.setattr(rank, "PIECE_COLS", 2)
    categories = [("drama", "comedy", None, "drama", "drama")[i % 5] for i in range(N_ITEMS)]
    groups = np.array([{"drama": 0, "comedy": 1, None: -1}[category] for category in categories])
    rows = [(ITEMS[i], categories[i]) for i in range(N_ITEMS) if i % 4]
    items = frame_of(spark, [*rows, (999, "comedy")], "item int, category string")
    left_out = fitted.seen_table | (np.arange(N_ITEMS) % 4 == 0)
    for most in (None, 2):
        table = fitted.model.recommendationTable(5, fitted.seen, items=items, maxPerCategory=most)
        assert rows_of(table) == fitted.expected(5, left_out, groups, most)


def test_a_limit_without_categories_is_refused(spark: SparkSession, fitted: Fitted) -> None:
    with pytest.raises(ValueError, match="maxPerCategory: expected items with a column 'category'"):
        fitted.model.recommendationTable(2, maxPerCategory=1)
    with pytest.raises(DataError, match="column 'category' is missing"):
        fitted.model.recommendationTable(2, items=fitted.seen.select("item").distinct(), maxPerCategory=1)
    with pytest.raises(ValueError, match="maxPerCategory: found 0, expected a whole number"):
        fitted.model.recommendationTable(2, items=fitted.seen, maxPerCategory=0)


def lists_of(frame: DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    return {row.user: [tuple(entry) for entry in row.recommendations] for row in frame.collect()}


def expected_lists(fitted: Fitted, n: int) -> dict[str, list[tuple[Any, ...]]]:
    lists: dict[str, list[tuple[Any, ...]]] = {}
    for user, _, item, score, *_ in fitted.expected(n, seen=True):
        lists.setdefault(user, []).append((item, score))
    return lists


def test_for_all_users_and_some(spark: SparkSession, fitted: Fitted) -> None:
    everyone = fitted.model.recommendForAllUsers(4, fitted.seen)
    assert dict(everyone.dtypes) == {"user": "string", "recommendations": "array<struct<item:int,rating:float>>"}
    assert lists_of(everyone) == expected_lists(fitted, 4)
    wanted = frame_of(spark, [("u03", 1), ("u03", 2), ("u07", 1), ("nobody", 1), (None, 1)], "user string, n int")
    some = fitted.model.recommendForUserSubset(wanted, 2, fitted.seen)
    assert some.dtypes == everyone.dtypes
    assert lists_of(some) == {user: expected_lists(fitted, 2)[user] for user in ("u03", "u07")}


def test_for_all_items_and_some(spark: SparkSession, fitted: Fitted) -> None:
    everything = fitted.model.recommendForAllItems(3, fitted.seen)
    assert dict(everything.dtypes) == {"item": "int", "recommendations": "array<struct<user:string,rating:float>>"}
    expected: dict[int, list[tuple[str, float]]] = {}
    for row in dense.recommend(dense.Scores(*(part.T for part in fitted.scores)), 3, fitted.seen_table.T):
        expected.setdefault(ITEMS[row.user_idx], []).append((USERS[row.item_idx], row.score))
    found = {row.item: [tuple(entry) for entry in row.recommendations] for row in everything.collect()}
    assert found == expected
    wanted = frame_of(spark, [(ITEMS[3],), (ITEMS[3],), (ITEMS[5],), (-1,), (None,)], "item int")
    some = fitted.model.recommendForItemSubset(wanted, 3, fitted.seen)
    assert some.dtypes == everything.dtypes
    found = {row.item: [tuple(entry) for entry in row.recommendations] for row in some.collect()}
    assert found == {item: expected[item] for item in (ITEMS[3], ITEMS[5])}


def test_names_of_columns_are_those_of_training(spark: SparkSession, fitted: Fitted) -> None:
    model = fitted.model.copy({fitted.model.userCol: "who.reads", fitted.model.itemCol: "book id"})
    seen = fitted.seen.withColumnsRenamed({"user": "who.reads", "item": "book id"})
    frame = model.recommendForUserSubset(seen, 1, seen)
    assert dict(frame.dtypes) == {"who.reads": "string", "recommendations": "array<struct<book id:int,rating:float>>"}
    assert frame.count() == N_USERS - 2  # of two one has seen nothing, and is not in the frame, and one everything


def test_what_cannot_be_ranked_is_refused(fitted: Fitted) -> None:
    for n in (0, -1, 2.0, True, "3", None):
        with pytest.raises(ValueError, match=r"^n: found .*, expected a whole number of recommendations >= 1"):
            fitted.model.recommendationTable(n)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="column 'user' is missing"):
        fitted.model.recommendForUserSubset(fitted.seen.drop("user"), 2)
    with pytest.raises(DataError, match="column 'item' is missing"):
        fitted.model.recommendForItemSubset(fitted.seen.drop("item"), 2)
    with pytest.raises(DataError, match="column 'item' is missing"):
        fitted.model.recommendationTable(2, fitted.seen.drop("item"))


def test_nobody_to_rank_for_and_nothing_to_rank(spark: SparkSession, fitted: Fitted) -> None:
    strangers, nothing = frame_of(spark, [("nobody",)], "user string"), frame_of(spark, [(-1,)], "item int")
    for restricted in ({"users": strangers}, {"items": nothing}):
        empty = fitted.model.recommendationTable(2, fitted.seen, **restricted)
        assert empty.count() == 0
        assert empty.dtypes == fitted.model.recommendationTable(2, fitted.seen).dtypes
    lists = fitted.model.recommendForUserSubset(strangers, 2)
    assert lists.count() == 0
    assert lists.dtypes == fitted.model.recommendForAllUsers(2).dtypes
