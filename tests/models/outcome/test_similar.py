"""Similar items against plain loops."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.models.outcome import rank, vectors
from dcrec_spark.models.outcome.lists import Similarity, similar
from dcrec_spark.models.outcome.vectors import Offer
from tests.frames import frame_of

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
    monkeypatch.setattr(vectors, "are_few", lambda *of: False)
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
