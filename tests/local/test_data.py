"""Data sets that are brought to the driver."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.splits import split_within_users
from dcrec_spark.local.data import Gathered, gather
from dcrec_spark.local.fits import Ratings
from tests.frames import frame_of


def test_both_parts_are_the_frames_over_the_places_of_sorted_ids(spark: SparkSession) -> None:
    rng = np.random.default_rng(4)
    user, item = np.nonzero(rng.random((30, 20)) < 0.4)
    rows = [(f"u{u}", int(i), float(r)) for u, i, r in zip(user, item, rng.integers(1, 6, len(user)), strict=True)]
    whole = frame_of(spark, rows, "user string, item int, rating double").repartition(3)
    frames = split_within_users(whole, (0.7, 0.3), seed=1)
    gathered = gather(*frames)
    users, items = sorted({row[0] for row in rows}), sorted({row[1] for row in rows})
    for frame, pairs in zip(frames, (vars(gathered.train), gathered.held_out), strict=True):
        columns = (pairs[name].tolist() for name in ("user", "item", "rating"))
        found = {(users[u], items[i]): rating for u, i, rating in zip(*columns, strict=True)}
        assert found == {(row.user, row.item): row.rating for row in frame.collect()}
    with pytest.raises(ConfigError, match="more than 10 ratings are too many for a task"):
        gather(*frames, most=10)


def test_users_and_items_without_training_are_no_test_and_have_no_place() -> None:
    train = Ratings(*np.array([[0, 0, 2], [1, 3, 3]]), np.array([1.0, 2.0, 3.0]), np.arange(7, 10), np.arange(4))
    held_out = {
        "user": np.array([0, 1, 2, 2]),
        "item": np.array([3, 1, 1, 2]),
        "rating": np.array([4.0, 5.0, 6.0, 7.0]),
    }
    known = Gathered(train, held_out).select_known()
    assert known.held_out["rating"].tolist() == [4.0, 6.0]
    compact = known.compact()
    assert {name: column.tolist() for name, column in vars(compact.train).items()} == {
        "user": [0, 0, 1], "item": [0, 1, 1], "rating": [1.0, 2.0, 3.0], "user_key": [7, 9], "item_key": [1, 3]
    }  # fmt: skip
    assert {name: column.tolist() for name, column in compact.held_out.items()} == {
        "user": [0, 1], "item": [1, 0], "rating": [4.0, 6.0]
    }  # fmt: skip
