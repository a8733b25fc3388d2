"""Rows are read by the layout that they were joined by."""

import numpy as np
import pytest

from dcrec_spark.engine.rows import RowLayout

LAYOUT = RowLayout({"factors": 2, "gamma": 1, "mean": 2})
PARTS = {"mean": np.full((3, 2), 3.0), "factors": np.arange(6.0).reshape(3, 2), "gamma": np.full((3, 1), 9.0)}


def test_what_was_joined_is_read_by_its_name() -> None:
    rows = LAYOUT.join(PARTS)
    assert rows.shape == (3, 5)
    for name, part in PARTS.items():
        np.testing.assert_array_equal(LAYOUT.part(rows, name), part)
        assert np.shares_memory(LAYOUT.part(rows, name), rows)


def test_a_part_that_rows_do_not_have_is_an_error() -> None:
    rows = LAYOUT.join(PARTS)
    with pytest.raises(KeyError, match="bias"):
        LAYOUT.part(rows, "bias")
    with pytest.raises(KeyError, match="gamma"):
        LAYOUT.join({"factors": PARTS["factors"], "mean": PARTS["mean"]})
