"""Keys of ids made here are those that the cluster makes, or a fit would depend on where it runs."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark.kernels.keys import keys_of

TEXTS = ["", "a", "user 17", "Zoë", "ユーザー", "\x00", "a" * 31, "b" * 32, "c" * 33, "d" * 100_000, "-1", "🙂" * 9]
NUMBERS = [0, 1, -1, 2**31 - 1, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("ids", [TEXTS, NUMBERS], ids=["strings", "whole numbers"])
def test_a_key_is_sparks_hash_of_the_ids_text(spark: SparkSession, ids: list[str] | list[int]) -> None:
    rows = spark.createDataFrame(pa.table({"id": ids, "place": np.arange(len(ids))}))
    hashed = rows.select("place", F.xxhash64(F.col("id").cast("string")).alias("key")).orderBy("place")
    np.testing.assert_array_equal(keys_of([str(one) for one in ids]), hashed.toArrow()["key"].to_numpy())
