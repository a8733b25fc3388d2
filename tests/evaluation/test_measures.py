"""Names of measures, and what is read from them."""

import copy
import json
import pickle

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import Kind, Measure, MetricSettings

MEASURES = {
    "ndcg": Measure(Kind.NDCG),
    "recall@5": Measure(Kind.RECALL, 5),
    "catalogue_map@10": Measure(Kind.MAP, 10, over_catalogue=True),
    "coverage@1": Measure(Kind.COVERAGE, 1),
    "item_mae": Measure(Kind.ITEM_MAE),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_name_and_its_parts_are_one(name: str) -> None:
    measure = MEASURES[name]
    assert str(measure) == name
    for twin in (Measure.parse(name), pickle.loads(pickle.dumps(measure)), copy.deepcopy(measure)):
        assert twin == measure
        assert (twin.kind, twin.k, twin.over_catalogue) == (measure.kind, measure.k, measure.over_catalogue)


def test_a_measure_is_found_by_its_name_and_written_as_it() -> None:
    values = dict.fromkeys(MEASURES.values(), 0.5)
    assert values["recall@5"] == 0.5
    assert json.loads(json.dumps(values)).keys() == MEASURES.keys()


@pytest.mark.parametrize(
    "name", ["", "ndgc", "recall", "ndcg@0", "ndcg@05", "ndcg@x", "mse@5", "catalogue_mse", "catalogue_ndcg", "NDCG"]
)
def test_what_is_no_measure_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="measure"):
        Measure.parse(name)


def test_of_errors_less_is_better() -> None:
    assert [name for name, measure in MEASURES.items() if measure.is_error] == ["item_mae"]


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("catalogue_ndcg@5", "catalogue_ndcg@5(rel)"),
        ("precision@5", "precision@5(rating>=4)"),
        ("mae", "mae(clipped to 1..5)"),
        ("coverage@5", "coverage@5"),
    ],
)
def test_the_variant_stands_in_the_published_name(name: str, variant: str) -> None:
    settings = MetricSettings(relevance=4, gain="rel", clip=(1, 5))
    assert settings.variant(Measure.parse(name)) == variant
