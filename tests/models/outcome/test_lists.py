"""The list for users without ratings, and similar items: against NumPy and plain loops."""

from dataclasses import replace

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.outcome import rank
from dcrec_spark.models.outcome import vectors as module
from dcrec_spark.models.outcome.lists import Similarity, fallback, similar
from dcrec_spark.models.outcome.vectors import Offer, ScoringVectors
from tests.frames import frame_of
from tests.reference.poisson import Array

RNG = np.random.default_rng(3)
THETA, BETA = RNG.standard_normal((7, 3)), RNG.standard_normal((9, 3))
PI, LAMBDA = RNG.random((7, 2)), RNG.random((9, 2))


def table(spark: SparkSession, side: str, preference: Array, confounder: Array) -> DataFrame:
    rows = [(n, f"{side}{n}", preference[n].tolist(), confounder[n].tolist()) for n in range(len(preference))]
    return frame_of(spark, rows, "idx long, id string, preference array<double>, confounder array<double>")


def vectors(spark: SparkSession, form: Form) -> ScoringVectors:
    return ScoringVectors(table(spark, "u", THETA, PI), table(spark, "i", BETA, LAMBDA), 7, 9, 0.5, form)


def test_items_come_by_the_mean_of_all_potential_ratings(spark: SparkSession) -> None:
    scores = (THETA @ BETA.T + PI @ LAMBDA.T + 0.5).mean(axis=0)
    rows = fallback(vectors(spark, Form()), 4, None).orderBy("rank").collect()
    best = np.argsort(-scores)[:4]
    assert [(row["rank"], row["item_id"]) for row in rows] == [(n + 1, f"i{i}") for n, i in enumerate(best)]
    np.testing.assert_allclose([row["score"] for row in rows], scores[best])
    some = [f"i{i}" for i in best[1:3]]
    offered = fallback(vectors(spark, Form()), 4, Offer(frame_of(spark, [(item,) for item in some], "id string")))
    assert [row["item_id"] for row in offered.orderBy("rank").collect()] == some


def test_a_link_has_the_mean_of_its_own(spark: SparkSession) -> None:
    """The mean of logarithms of products, next to products in front of them."""
    gamma, front = RNG.standard_normal(7), RNG.standard_normal((16, 2))
    form = Form("log", 0.3, -0.2, 0.8, linked=3)
    users, items = np.column_stack([front[:7], PI, gamma]), np.column_stack([front[7:], LAMBDA, np.zeros(9)])
    expected = THETA @ BETA.T + front[:7] @ front[7:].T + gamma[:, None] * form.of(PI @ LAMBDA.T) + 0.5
    given = replace(vectors(spark, form), users=table(spark, "u", THETA, users), items=table(spark, "i", BETA, items))
    rows = fallback(given, 9, None).orderBy("rank").collect()
    best = np.argsort(-expected.mean(axis=0))
    assert [row["item_id"] for row in rows] == [f"i{i}" for i in best]
    np.testing.assert_allclose([row["score"] for row in rows], expected.mean(axis=0)[best])


FEATURES = np.array([[1.0, 0.0], [10.0, 1.0], [0.0, 2.0], [1.0, 1.0], [0.0, 0.0], [-3.0, 0.0], [0.0, 1e-18]])
IDS = [f"i{number}" for number in range(len(FEATURES))]


def expected(similarity: str, n: int, offered: list[int]) -> list[tuple[str, int, str, float]]:
    rows = []
    for i, one in enumerate(FEATURES):
        likeness = []
        for j in offered:
            length = np.linalg.norm(one) * np.linalg.norm(FEATURES[j])
            product = float(one @ FEATURES[j])
            value = product if similarity == "inner_product" or not length else product / length
            if j != i and (similarity == "inner_product" or length > 1e-6):
                likeness.append((-value, j))
        rows += [(IDS[i], place, IDS[j], -value) for place, (value, j) in enumerate(sorted(likeness)[:n], start=1)]
    return rows


@pytest.mark.parametrize("similarity", ["cosine", "inner_product"])
@pytest.mark.parametrize("offered", [None, [0, 2, 3]])
def test_the_nearest_items_are_plain_loops(
    spark: SparkSession, similarity: Similarity, offered: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item is not similar to itself. One of zeros, but for rounding, has no direction and no list."""
    monkeypatch.setattr(rank, "PIECE_COLS", 4)
    monkeypatch.setattr(module, "are_few", lambda *of: False)
    rows = [(idx, IDS[idx], FEATURES[idx].tolist()) for idx in range(len(IDS))]
    items = frame_of(spark, rows, "idx long, id string, features array<double>")
    offer = None
    if offered is not None:
        offer = Offer(frame_of(spark, [(IDS[j],) for j in offered], "id string"))
    found = similar(items, len(IDS), 2, similarity, offer).orderBy("item_id", "rank").collect()
    with pytest.raises(ValueError, match="similarity: found 'jaccard', expected cosine or inner_product"):
        similar(items, len(IDS), 2, "jaccard", None)  # type: ignore[arg-type]
    wanted = expected(similarity, 2, offered or list(range(len(IDS))))
    assert [tuple(row)[:3] for row in found] == [row[:3] for row in wanted]
    np.testing.assert_allclose([row["similarity"] for row in found], [row[3] for row in wanted], atol=1e-12)
