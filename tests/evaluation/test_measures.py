"""Names of measures, and what is read from them."""

import json
import pickle

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import Measure, MeasureKind

MEASURES = {
    "ndcg": Measure(MeasureKind.NDCG),
    "recall@5": Measure(MeasureKind.RECALL, 5),
    "catalogue_map@10": Measure(MeasureKind.MAP, 10, over_catalogue=True),
    "coverage@1": Measure(MeasureKind.COVERAGE, 1),
    "catalogue_hit_rating@10": Measure(MeasureKind.HIT_RATING, 10, over_catalogue=True),
    "catalogue_rare_share@10": Measure(MeasureKind.RARE_SHARE, 10, over_catalogue=True),
    "item_mae": Measure(MeasureKind.ITEM_MAE),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_name_and_its_parts_are_one(name: str) -> None:
    measure = MEASURES[name]
    assert str(measure) == name
    for other in (Measure.parse(name), pickle.loads(pickle.dumps(measure))):
        assert other == measure
        assert (other.kind, other.k, other.over_catalogue) == (measure.kind, measure.k, measure.over_catalogue)
    assert json.loads(json.dumps({measure: 0.5})) == {name: 0.5}
    assert measure.is_error == (name == "item_mae")
    assert measure.is_small_good == (name in ("item_mae", "catalogue_rare_share@10"))


WRONG = "ndgc recall ndcg@0 ndcg@05 ndcg@x mse@5 catalogue_mse catalogue_ndcg hit_rating@5 NDCG"


@pytest.mark.parametrize("name", ["", *WRONG.split()])
def test_what_is_no_measure_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="measure"):
        Measure.parse(name)
