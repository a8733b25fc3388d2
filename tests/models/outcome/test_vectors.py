"""Scoring vectors made in this process are Spark's, to the last bit."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.kernels.exposure import PLAIN, Form, Scaling
from dcrec_spark.models.fitting.factors import arrow_table, cached_frame, list_array
from dcrec_spark.models.outcome.vectors import PartsOfVectors, scoring_vectors
from dcrec_spark.spark.compat import collect_arrow

TWO = Scaling((0.0, 0.0), (1.0, 1.0))
RNG = np.random.default_rng(5)


def table(is_user: bool, n_rows: int = 7) -> pa.Table:
    """Rows as a fit makes them: no two columns alike."""
    parts = {"features": 3, "exposure_shape": 2, "exposure_rate": 2, "slopes": 3 + is_user, "covariates": 4 - is_user}
    lists = {name: list_array(RNG.gamma(0.7, size=(n_rows, width))) for name, width in parts.items()}
    numbers = {name: RNG.normal(size=n_rows) for name in ("bias", *(["gamma"] if is_user else []))}
    return pa.table({"idx": np.arange(n_rows), "id": [f"r{at}" for at in range(n_rows)], **lists, **numbers})


@pytest.mark.parametrize("is_user", [True, False])
@pytest.mark.parametrize("has_biases", [True, False])
@pytest.mark.parametrize(
    "form",
    [
        *(PLAIN, Form("sqrt", 0.0, 0.3, 1.7), Form("identity", 0.0, 0.3, 1.7, composition=(TWO, TWO))),
        Form("log", 0.1, linked=3, composition=(TWO, TWO)),
    ],
)
def test_they_are_those_of_spark(spark: SparkSession, is_user: bool, has_biases: bool, form: Form) -> None:
    parts = PartsOfVectors(has_biases, form)
    vectors = scoring_vectors(cached_frame(spark, table(is_user)), is_user, parts)
    collected = collect_arrow(vectors).sort_by("idx")
    here = arrow_table(vectors)
    assert here.column_names == collected.column_names
    assert here.to_pydict() == collected.to_pydict()
