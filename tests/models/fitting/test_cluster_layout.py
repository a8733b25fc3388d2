"""Fits over Spark's blocks, with heavy items: those of one process. Combinations are tested in test_blocks.py."""

from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.models.fitting import cluster_layout
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout_settings import LayoutSettings, layout_settings
from tests.models.data_sets import NAMES, by_id, exposure, outcome
from tests.models.fitting.memory_layout import fit_stages
from tests.models.fitting.test_blocks import MODELS, MOST, assert_equal_fits

BLOCKS = partial(LayoutSettings, 2, 3, "blocks", heavy_pairs=MOST, most_heavy=100)
BROADCAST = partial(LayoutSettings, 3, 2, "broadcast", heavy_pairs=MOST, most_heavy=100)
LOCAL = partial(LayoutSettings, None, None, "local")
VALUES = {"rating": "`rating`", "exposure_count": "`count`"}


def marked(spark: SparkSession) -> DataFrame:
    """One pair in four is held out, those of heavy items too."""
    return NAMES.frame(spark).withColumn("held", F.pmod(F.xxhash64("user", "item"), F.lit(4)) == 0)


def fit(ratings: DataFrame, settings: LayoutSettings, model: dict[str, Any]) -> dict[str, Any]:
    """Numbers of both stages."""
    with FitResources() as resources:
        held_out = model.get("validationIndicatorCol")
        layout = lay_out(ratings, "user", "item", VALUES, settings, resources, held_out)
        return fit_stages(layout, outcome(**model), exposure(), by_ids)


def by_ids(layout: Any, *of: Any) -> dict[str, Any]:
    """Columns of one side's table, its rows in the order of their ids."""
    return {name: values for name, values in by_id(layout.table(*of).drop("idx")).items() if name != "id"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings", "broadcast_ids"),
    [
        ("probabilistic, all terms", BLOCKS, True),
        ("poisson, gammas", BROADCAST, False),
        ("poisson, held out", BLOCKS, True),
    ],
    ids=["probabilistic, blocks", "poisson, broadcast, joined ids", "held out, blocks"],
)
def test_spark_blocks_and_heavy_items_change_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str, settings: Any, broadcast_ids: bool
) -> None:
    if not broadcast_ids:
        monkeypatch.setattr(cluster_layout, "BROADCAST_BYTES", 0)
    model = MODELS[kind] | {"maxIter": 3}
    whole = fit(marked(spark), LOCAL("float64", 12), model)
    assert_equal_fits(fit(marked(spark), settings("float64", 12), model), whole)


def test_heavy_limit_follows_from_bytes() -> None:
    """Half a gigabyte of pairs' rows, 816 bytes each at rank 50; no limit if a family can't split items."""
    assert layout_settings(outcome(), width=102, splits=True).heavy_pairs == 2**29 // 816
    assert layout_settings(outcome(), width=102).heavy_pairs is None
