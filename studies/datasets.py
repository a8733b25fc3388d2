"""The studies' data: train, validation and test of each data set, by seed.

| | training | test |
| --- | --- | --- |
| coat, yahoo-r3 | what users chose to rate, 80/20 within users (train, validation) | items drawn at random |
| coat-interventions | of it; another fifth is a test as users choose | random items |
| coat-new-users, ... | of some users; others are folded in, for validation and for the test | random items |
| movielens-100k, -1m | 60/20 within users | the other 20 |
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config.sections import InputConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.evaluation.splits import is_held_out, split_within_users
from dcrec_spark.local.data import Parts, gather
from studies.paper_simulation import Simulation, simulate

# Tests of a fit that has several: pairs that users chose, and these as if exposure to all items were equal.
REGULAR, REWEIGHTED = "regular", "reweighted"
Split = Callable[[SparkSession, Path, int], Parts]
# A seed of its own for each random choice, so that none repeats another.
_USERS_SEED, _VALIDATION_SEED = 1000, 2000
# New users of the test; and among the others those that are new to the fits of validation.
_NEW_USERS, _VALIDATION_USERS = 0.3, 0.25


class Files(NamedTuple):
    """Format and paths of a data set with a random test."""

    kind: Literal["coat", "yahoo-r3"]
    train: str
    test: str

    def read(self, spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
        """Read training and test. Pairs that are in training too are no test."""
        fit, random = (_ratings(spark, self.kind, folder / name) for name in (self.train, self.test))
        return fit, random.join(fit, ["user", "item"], "left_anti")


def _random_test(files: Files, spark: SparkSession, folder: Path, seed: int) -> Parts:
    """Known users, and items that were drawn at random for them."""
    fit, random = files.read(spark, folder)
    train, validation = split_within_users(fit, (0.8, 0.2), seed)
    return _usable(gather({"train": train, "validation": validation, "test": random}))


def _random_and_regular_test(files: Files, spark: SparkSession, folder: Path, seed: int) -> Parts:
    """Two tests of one fit: a fifth of what users chose to rate, ``regular``, and items drawn at random, ``test``."""
    fit, random = files.read(spark, folder)
    train, validation, regular = split_within_users(fit, (0.64, 0.16, 0.2), seed)
    parts = gather({"train": train, "validation": validation, REGULAR: regular, "test": random})
    return _usable(parts).select_known(REGULAR, ("train", "validation"))


def _random_test_of_new_users(files: Files, spark: SparkSession, folder: Path, seed: int) -> Parts:
    """Users who take no part in the fit: folded in by all that they chose to rate, tested on random items."""
    fit, random = files.read(spark, folder)
    new = is_held_out("user", _NEW_USERS, seed + _USERS_SEED)
    known, new_to_train = fit.where(~new), is_held_out("user", _VALIDATION_USERS, seed + _VALIDATION_SEED)
    given, validation = split_within_users(known.where(new_to_train), (0.8, 0.2), seed)
    of_validation = {"validation_fold_in": given, "validation": validation}
    of_test = {"fold_in": fit.where(new), "test": random.where(new)}
    whole = gather({"train": known.where(~new_to_train), **of_validation, **of_test})
    whole = whole.select_known("validation", ("train",), ("validation_fold_in",))
    return whole.select_known("test", ("train", "validation", "validation_fold_in"), ("fold_in",))


def _regular_test(path: str, spark: SparkSession, folder: Path, seed: int) -> Parts:
    """Test on a random fifth of each user's ratings, of MovieLens."""
    train, validation, test = split_within_users(_ratings(spark, "movielens", folder / path), (0.6, 0.2, 0.2), seed)
    return _usable(gather({"train": train, "validation": validation, "test": test}))


def simulated(spark: SparkSession, settings: Simulation, seed: int) -> Parts:
    """Draw the paper's simulation; its tests are random pairs of all."""
    data = simulate(spark, settings)
    train, validation = split_within_users(data.ratings, (0.8, 0.2), seed)
    return _usable(gather({"train": train, "validation": validation, "test": data.test}))


_COAT = Files("coat", "coat/train.ascii", "coat/test.ascii")
_YAHOO = Files("yahoo-r3", *(f"yahoo-r3/ydata-ymusic-rating-study-v1_0-{part}.txt" for part in ("train", "test")))
DATASETS: dict[str, Split] = {
    "coat": partial(_random_test, _COAT),
    "coat-plain": partial(_random_test, _COAT),
    "coat-interventions": partial(_random_and_regular_test, _COAT),
    "coat-new-users": partial(_random_test_of_new_users, _COAT),
    "yahoo-r3": partial(_random_test, _YAHOO),
    "yahoo-r3-new-users": partial(_random_test_of_new_users, _YAHOO),
    "movielens-100k": partial(_regular_test, "ml-100k/u.data"),
    "movielens-1m": partial(_regular_test, "ml-1m/ratings.dat"),
}


def _ratings(spark: SparkSession, kind: Literal["coat", "movielens", "yahoo-r3"], path: Path) -> DataFrame:
    raw = read_ratings(spark, InputConfig(format=kind, path=str(path)))
    ratings = validate(raw, ValidationConfig(scale_min=1, scale_max=5)).ratings
    return ratings.select(F.col("user_id").alias("user"), F.col("item_id").alias("item"), "rating")


def _usable(parts: Parts) -> Parts:
    """Leave out of validation and test what no fit knows."""
    return parts.select_known("validation", ("train",)).select_known("test", ("train", "validation"))
