"""Fits over Spark's blocks, with heavy items: those of one process. Combinations are tested in test_blocks.py."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.models.fitting import cluster_layout
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout_settings import LayoutSettings, layout_settings
from tests.models.data_sets import by_id, exposure, marked, outcome
from tests.models.fitting.memory_layout import fit_stages
from tests.models.fitting.test_blocks import MODELS, MOST, assert_equal_fits

LAYOUTS: list[tuple[Any, ...]] = [(3, "blocks"), (None, "local")]
VALUES = {"rating": "`rating`", "exposure_count": "`count`"}


def by_ids(layout: Any, *of: Any) -> dict[str, Any]:
    return {name: values for name, values in by_id(layout.table(*of).drop("idx")).items() if name != "id"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "most_bytes"),
    [("probabilistic, all terms", 2**20), ("poisson, held out", 0)],
    ids=["probabilistic, ids looked up", "held out, ids joined"],
)
def test_spark_blocks_and_heavy_items_change_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, most_bytes: int
) -> None:
    monkeypatch.setattr(cluster_layout, "broadcast_bytes", lambda _: (most_bytes, 0))
    model, fits = MODELS[kind] | {"maxIter": 3}, []
    for where in LAYOUTS:
        settings = LayoutSettings(*where, "float64", 12, heavy_pairs=MOST)
        held_out = model.get("validationIndicatorCol")
        with FitResources() as resources:
            layout = lay_out(marked(spark), "user", "item", VALUES, settings, resources, held_out)
            fits.append(fit_stages(layout, outcome(**model), exposure(), by_ids))
    assert_equal_fits(*fits)


def test_if_executors_are_short_of_memory_blocks_stay_on_disk_and_are_more(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster_layout, "short_of_memory", lambda *_: "executors are short of memory")
    monkeypatch.setattr(cluster_layout, "least_blocks", lambda *_: 4)
    with FitResources() as resources:
        settings = LayoutSettings(None, "blocks", "float64", 12)
        layout = lay_out(marked(spark), "user", "item", VALUES, settings, resources, None)
        assert isinstance(layout, cluster_layout.ClusterLayout)
        assert [(side.frame.storageLevel.useMemory, side.n_blocks) for side in (layout.users, layout.items)] == [
            (False, 6)
        ] * 2
    assert "executors are short of memory" in caplog.text


def test_heavy_limit_follows_from_bytes() -> None:
    """Half a gigabyte of pairs' rows, 816 bytes each at rank 50; no limit if a family can't split items."""
    assert layout_settings(outcome(), width=102, splits=True).heavy_pairs == 2**29 // 816
    assert layout_settings(outcome(), width=102).heavy_pairs is None
