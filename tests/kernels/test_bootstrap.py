"""The bootstrap's weights are Poisson(1), belong to the id alone, and its intervals cover what they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, poisson

from dcrec_spark.kernels import bootstrap
from dcrec_spark.kernels.bootstrap import Cells, Pooled, percentile_interval, poisson_weights, resampled_sums
from dcrec_spark.kernels.metrics import PerRow, error_means
from tests.reference.poisson import Array


def keys(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, n)


def test_weights_are_poisson_with_mean_one() -> None:
    weights = poisson_weights(3, keys(20_000), 30)
    seen = np.bincount(weights.ravel(), minlength=6)
    expected = poisson.pmf(np.arange(5), 1.0) * weights.size
    observed = np.append(seen[:5], seen[5:].sum())
    assert chisquare(observed, np.append(expected, weights.size - expected.sum())).pvalue > 0.01


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 30))
def test_a_weight_belongs_to_its_key_and_replication(seed: int, replications: int, more: int) -> None:
    key = keys(7, seed)
    weights = poisson_weights(seed, key, replications)
    order = np.random.default_rng(seed).permutation(7)
    np.testing.assert_array_equal(poisson_weights(seed, key[order], replications), weights[order])
    np.testing.assert_array_equal(poisson_weights(seed, key, replications + more)[:, :replications], weights)
    assert not np.array_equal(poisson_weights(seed + 1, keys(99), 9), poisson_weights(seed, keys(99), 9))


SEEDS = 4, 5


def table(n_rows: int, n_cols: int, seed: int = 0) -> Cells:
    """About two thirds of all cells; rows may have none."""
    rng = np.random.default_rng(seed)
    row, col = np.nonzero(rng.random((n_rows, n_cols)) < 0.7)
    return Cells(np.searchsorted(row, np.arange(n_rows + 1)), col, keys(n_rows, seed + 1), keys(n_cols, seed + 2))


def test_sums_are_those_of_loops_over_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell as often as its row times its column; of means over rows, each row as often as it is drawn."""
    monkeypatch.setattr(bootstrap, "_HELD", 64)  # few replications at a time
    cells, rng = table(9, 6), np.random.default_rng(1)
    value = rng.standard_normal(len(cells.col))
    counted = (rng.random(9) < 0.8).astype(float)
    metric = PerRow(rng.standard_normal(9) * counted, counted, rng.standard_normal(len(cells.col)))
    weight = rng.random(len(cells.col))
    found = resampled_sums(cells, [Pooled(value), metric], SEEDS, 7)
    by_weight = resampled_sums(cells._replace(weight=weight), [Pooled(value), metric], SEEDS, 7)
    of_rows, of_cols = (
        poisson_weights(seed, key, 7).astype(float)
        for seed, key in zip(SEEDS, (cells.row_key, cells.col_key), strict=True)
    )
    for replication in range(8):
        w, v = (np.ones(len(of)) if not replication else of[:, replication - 1] for of in (of_rows, of_cols))
        pooled, weighted, means = np.zeros(2), np.zeros(2), np.zeros(2)
        for row in range(9):
            own = slice(cells.row_ptr[row], cells.row_ptr[row + 1])
            drawn = v[cells.col[own]]
            pooled += w[row] * np.array([drawn @ value[own], drawn.sum()])
            weighted += w[row] * np.array([drawn @ (weight[own] * value[own]), drawn @ weight[own]])
            moved = metric.value[row] + (drawn - 1.0) @ metric.move[own]
            means += w[row] * counted[row] * np.array([moved, 1.0])
        np.testing.assert_allclose(found[replication], [pooled, means], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(by_weight[replication], [weighted, means], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["over ratings", "over rows"])
def test_an_interval_covers_the_truth_where_users_and_items_have_errors_of_their_own(kind: str) -> None:
    """In 200 simulated data sets; by users alone, as if items were given, it does not."""
    rng, covered = np.random.default_rng(2), {"both": 0, "users": 0}
    for number in range(200):
        cells = table(40, 30, 10 * number)
        row = np.repeat(np.arange(40), np.diff(cells.row_ptr))
        error = rng.standard_normal(40)[row] + rng.standard_normal(30)[cells.col] + rng.standard_normal(len(row))
        metric = Pooled(error) if kind == "over ratings" else error_means(cells.row_ptr, error)
        no_items = cells._replace(col=np.zeros_like(cells.col), col_key=keys(1))
        users_alone = metric if isinstance(metric, Pooled) else metric._replace(move=np.zeros(len(row)))
        for name, of, measured in (("both", cells, metric), ("users", no_items, users_alone)):
            sums = resampled_sums(of, [measured], (number, number + 1), 200)[1:, 0]
            with np.errstate(invalid="ignore"):
                interval = percentile_interval(sums[:, 0] / sums[:, 1], 0.9)
            covered[name] += interval[0] <= 0.0 <= interval[1]
    assert covered["both"] / 200 == pytest.approx(0.9, abs=0.07)
    assert covered["users"] / 200 < 0.8


def test_replications_that_drew_nobody_are_left_out() -> None:
    assert percentile_interval(np.array([1.0, np.nan, 1.0]), 0.9) == (1.0, 1.0)
    assert percentile_interval(np.array([np.nan]), 0.9) is None
    assert percentile_interval(np.array([]), 0.9) is None
