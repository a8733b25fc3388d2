"""Settings that go together: where a first fit to data of a kind begins."""

from collections.abc import Mapping
from typing import Any

from dcrec_spark.settings.setting import camel

# Name -> section -> setting. Those of ratings are about the medians of what validation chose in fifteen searches, five
# each on Coat, MovieLens 100K and 1M, for the model with biases and the confounder (docs/explanation/findings.md).
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "ratings": {
        "exposure": {"rank": 2},
        "outcome": {
            "outcome": "probabilistic",
            "unobserved_weight": 0.0,
            "fit_biases": True,
            "reg_by_count": True,
            "user_reg": 0.2,
            "item_reg": 0.2,
            "user_bias_reg": 0.1,
            "item_bias_reg": 0.1,
            "confounder_weight": "pooled",
            "confounder_reg": 100.0,
            "standardize_confounder": True,
        },
    }
}


def as_params(preset: str) -> dict[str, Any]:
    """Return a preset as the estimator of the outcome spells it."""
    sections = PRESETS[preset]
    return {"exposureRank": sections["exposure"]["rank"]} | {
        camel(name): value for name, value in sections["outcome"].items()
    }
