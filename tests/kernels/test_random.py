"""Draws by key: the right distributions, and the same ones in whatever block a row lies."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from scipy import stats

from dcrec_spark.kernels.gamma import noise
from dcrec_spark.kernels.random import gamma_draws, keys_of, poisson_draws, stream
from dcrec_spark.spark.compat import collect_arrow, frame_of_arrow

SEEDS = st.integers(0, 2**32)
KEYS = np.random.default_rng(0).integers(-(2**63), 2**63, 20_000)


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 7.5, 400.0])
def test_gamma_draws_are_gamma(shape: float) -> None:
    """Each component, and two of them together; consecutive keys are as good as hashes."""
    drawn = gamma_draws(3, np.arange(20_000), np.full((20_000, 2), shape))
    for component in drawn.T:
        assert stats.kstest(component, stats.gamma(shape).cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(*drawn.T).statistic) < 0.03  # four standard deviations
    other = gamma_draws(4, np.arange(20_000), np.full((20_000, 1), shape))
    assert abs(stats.spearmanr(drawn[:, 0], other[:, 0]).statistic) < 0.03


@given(SEEDS)
def test_a_row_draws_the_same_in_whatever_block_it_lies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = np.exp(rng.uniform(-3.0, 3.0, (200, 3)))
    whole = gamma_draws(seed, KEYS[:200], shape)
    some = rng.permutation(200)[:20]
    np.testing.assert_array_equal(gamma_draws(seed, KEYS[some], shape[some]), whole[some])


@pytest.mark.parametrize("mean", [1e-9, 0.03, 0.7, 6.0, 90.0, 20_000.0])
def test_poisson_draws_are_the_inverse_of_the_distribution(mean: float) -> None:
    uniform = np.concatenate([[0.0, 1.0 - 2.0**-53], noise(1, KEYS[:2000], 1)[:, 0]])
    drawn = poisson_draws(uniform, np.full(len(uniform), mean))
    assert drawn.min() >= 0
    expected = stats.poisson(mean).ppf(uniform[2:])
    np.testing.assert_array_equal(drawn[2:], expected)


def test_streams_are_unrelated() -> None:
    assert len({stream(seed, a, b) for seed in range(20) for a in range(20) for b in range(20)}) == 8000
    assert stream(5) == 5
    assert stream(-1, 2) != stream(1, 2)


TEXTS = ["", "a", "user 17", "Zoë", "ユーザー", "\x00", "a" * 31, "b" * 32, "c" * 33, "d" * 100_000, "-1", "🙂" * 9]
NUMBERS = [0, 1, -1, 2**31 - 1, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("ids", [TEXTS, NUMBERS], ids=["strings", "whole numbers"])
def test_a_key_is_sparks_hash_of_the_ids_text(spark: SparkSession, ids: list[str] | list[int]) -> None:
    rows = frame_of_arrow(spark, pa.table({"id": ids, "place": np.arange(len(ids))}))
    hashed = rows.select("place", F.xxhash64(F.col("id").cast("string")).alias("key")).orderBy("place")
    np.testing.assert_array_equal(keys_of([str(one) for one in ids]), collect_arrow(hashed)["key"].to_numpy())
