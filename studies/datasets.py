"""The studies' data: train, validation and test of each data set, by seed.

| | training | test |
| --- | --- | --- |
| coat, yahoo-r3 | what users chose to rate, 80/20 within users (train, validation) | items drawn at random |
| coat-interventions | of it; another fifth is a test as users choose | random items |
| coat-new-users, ... | of some; others are folded in by theirs, for validation and for the test | random items |
| movielens-100k, -1m | 60/20 within users | the other 20 |
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import InputConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.evaluation.splits import is_held_out, split_within_users
from dcrec_spark.local.data import Parts, gather
from studies.paper_simulation import Simulation, simulate

# Tests of a fit that has several: pairs that users chose, and these as if items were come across equally often.
REGULAR, REWEIGHTED = "regular", "reweighted"
Split = Callable[[SparkSession, Path, int], Parts]
# Their format, and the paths of training and test.
Files = tuple[Literal["coat", "yahoo-r3"], str, str]
# A seed of its own for each random choice, so that none repeats another.
_USERS_SEED = 1000
_NEW_USERS = 0.3
# Of the others, who are new to the fits that validation chooses among.
_VALIDATION_USERS, _VALIDATION_SEED = 0.25, 2000


def random_test(kind: Literal["coat", "yahoo-r3"], train: str, test: str) -> Split:
    """Known users, and items that were drawn at random for them. Cells that are in training too are no test."""

    def split(spark: SparkSession, folder: Path, seed: int) -> Parts:
        fit, random = _train_and_test(spark, kind, folder, train, test)
        parts = dict(zip(("train", "validation"), split_within_users(fit, (0.8, 0.2), seed), strict=True))
        return _usable(gather({**parts, "test": random}))

    return split


def random_and_regular_test(kind: Literal["coat", "yahoo-r3"], train: str, test: str) -> Split:
    """Two tests of one fit: a fifth of what users chose to rate, ``regular``, and items drawn at random, ``test``."""

    def split(spark: SparkSession, folder: Path, seed: int) -> Parts:
        fit, random = _train_and_test(spark, kind, folder, train, test)
        chosen = split_within_users(fit, (0.64, 0.16, 0.2), seed)
        parts = dict(zip(("train", "validation", REGULAR), chosen, strict=True))
        return _usable(gather({**parts, "test": random})).select_known(REGULAR, ("train", "validation"))

    return split


def random_test_of_new_users(kind: Literal["coat", "yahoo-r3"], train: str, test: str) -> Split:
    """Users who take no part in the fit: folded in by all that they chose to rate, tested on random items."""

    def split(spark: SparkSession, folder: Path, seed: int) -> Parts:
        fit, random = _train_and_test(spark, kind, folder, train, test)
        new = is_held_out("user", _NEW_USERS, seed + _USERS_SEED)
        known, new_to_train = fit.where(~new), is_held_out("user", _VALIDATION_USERS, seed + _VALIDATION_SEED)
        given, validation = split_within_users(known.where(new_to_train), (0.8, 0.2), seed)
        of_validation = {"validation_fold_in": given, "validation": validation}
        of_test = {"fold_in": fit.where(new), "test": random.where(new)}
        whole = gather({"train": known.where(~new_to_train), **of_validation, **of_test})
        whole = whole.select_known("validation", ("train",), ("validation_fold_in",))
        return whole.select_known("test", ("train", "validation", "validation_fold_in"), ("fold_in",))

    return split


def regular_test(*path: str) -> Split:
    """Test on a random fifth of each user's ratings, of MovieLens."""

    def split(spark: SparkSession, folder: Path, seed: int) -> Parts:
        ratings = _ratings(spark, "movielens", folder.joinpath(*path))
        parts = split_within_users(ratings, (0.6, 0.2, 0.2), seed)
        return _usable(gather(dict(zip(("train", "validation", "test"), parts, strict=True))))

    return split


def simulated(spark: SparkSession, settings: Simulation, seed: int) -> Parts:
    """Simulate a world whose truth is known; its tests are random pairs of all."""
    world = simulate(spark, settings)
    parts = split_within_users(world.ratings, (0.8, 0.2), seed)
    return _usable(gather({**dict(zip(("train", "validation"), parts, strict=True)), "test": world.test}))


_COAT: Files = ("coat", "coat/train.ascii", "coat/test.ascii")
_YAHOO: Files = (
    "yahoo-r3",
    "yahoo-r3/ydata-ymusic-rating-study-v1_0-train.txt",
    "yahoo-r3/ydata-ymusic-rating-study-v1_0-test.txt",
)
DATASETS: dict[str, Split] = {
    "coat": random_test(*_COAT),
    "coat-plain": random_test(*_COAT),
    "coat-interventions": random_and_regular_test(*_COAT),
    "coat-new-users": random_test_of_new_users(*_COAT),
    "yahoo-r3": random_test(*_YAHOO),
    "yahoo-r3-new-users": random_test_of_new_users(*_YAHOO),
    "movielens-100k": regular_test("ml-100k", "u.data"),
    "movielens-1m": regular_test("ml-1m", "ratings.dat"),
}


def _train_and_test(
    spark: SparkSession, kind: Literal["coat", "yahoo-r3"], folder: Path, train: str, test: str
) -> tuple[DataFrame, DataFrame]:
    fit, random = (_ratings(spark, kind, folder / name) for name in (train, test))
    return fit, random.join(fit, ["user", "item"], "left_anti")


def _ratings(spark: SparkSession, kind: Literal["coat", "movielens", "yahoo-r3"], path: Path) -> DataFrame:
    raw = read_ratings(spark, InputConfig(format=kind, path=str(path)))
    ratings = validate(raw, ValidationConfig(scale_min=1, scale_max=5)).ratings
    return ratings.select(F.col("user_id").alias("user"), F.col("item_id").alias("item"), "rating")


def _usable(parts: Parts) -> Parts:
    """Leave out of validation and test what no fit knows."""
    return parts.select_known("validation", ("train",)).select_known("test", ("train", "validation"))
