"""Many small fits side by side: the same as each of them alone."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.evaluation.splits import split_within_users
from dcrec_spark.local.data import Parts, gather
from dcrec_spark.local.fits import fit_exposure, fit_outcome
from dcrec_spark.local.trial import Bench, Fitted, Trial, confounder
from tests.frames import frame_of

EXPOSURE = {"rank": 2, "maxIter": 5}


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    rng = np.random.default_rng(4)
    user, item = np.nonzero(rng.random((30, 20)) < 0.4)
    rows = [(f"u{u}", int(i), float(r)) for u, i, r in zip(user, item, rng.integers(1, 6, len(user)), strict=True)]
    whole = frame_of(spark, rows, "user string, item int, rating double").repartition(3).persist()
    return dict(zip(("train", "validation"), split_within_users(whole, (0.7, 0.3), seed=1), strict=True))


@pytest.fixture(scope="module")
def parts(frames: dict[str, DataFrame]) -> Parts:
    return gather(frames)


def test_parts_are_the_frames(frames: dict[str, DataFrame], parts: Parts) -> None:
    for name, frame in frames.items():
        expected = {(r.user, r.item): r.rating for r in frame.collect()}
        pairs = parts.of[name]
        users, items = parts.user_ids.take(pairs["user"]).to_pylist(), parts.item_ids.take(pairs["item"]).to_pylist()
        assert dict(zip(zip(users, items, strict=True), pairs["rating"], strict=True)) == expected
    assert parts.item_ids.to_pylist() == sorted(parts.item_ids.to_pylist())
    with pytest.raises(ConfigError, match="more than 10 ratings are too many for a task"):
        gather(frames, most=10)


def test_trials_are_fits_and_share_their_exposure_models(spark: SparkSession, parts: Parts) -> None:
    outcomes = [{"outcome": "weighted", "rank": rank, "maxIter": 3} for rank in (1, 2, 3)]
    trials = [Trial(outcome, EXPOSURE) for outcome in outcomes]
    trials.append(Trial({"adjustment": "ipw", "outcome": "probabilistic", "rank": 2, "maxIter": 3}, None))
    bench = Bench(spark, {"": parts})
    found = list(bench.run(trials))
    assert len(bench.exposures) == 1
    ratings, pairs = parts.ratings("train"), parts.of["validation"]
    exposure = fit_exposure(ratings, PoissonFactorization(**EXPOSURE))
    for trial, result in zip(trials, found, strict=True):
        alone = fit_outcome(ratings, DeconfoundedMF(**trial.outcome), exposure if trial.exposure else None)
        np.testing.assert_array_equal(result.scores["validation"], alone.scores(pairs["user"], pairs["item"]))
        np.testing.assert_array_equal(result.objective, alone.objective)


def test_a_fit_that_fails_is_returned_in_its_place_and_ends_no_other(spark: SparkSession, parts: Parts) -> None:
    """More factors than a user has ratings, and nothing that holds them; an exposure model fails all that need it."""
    outcome = {"outcome": "weighted", "rank": 2, "maxIter": 2}
    unheld = dict.fromkeys(("regParam", "confounderReg", "unobservedWeight"), 0.0)
    hopeless = {**outcome, **unheld, "outcome": "probabilistic", "rank": 50}
    trials = [Trial(hopeless, EXPOSURE), Trial(outcome, EXPOSURE), Trial({**outcome, "regParam": 1e12}, EXPOSURE)]
    first, second, third = Bench(spark, {"": parts}).attempt(trials)
    assert isinstance(first, FitError)
    assert isinstance(second, Fitted)
    assert isinstance(third, Fitted)
    assert (second.vanished, third.vanished) == (False, True)
    with pytest.raises(FitError):
        list(Bench(spark, {"": parts}).run(trials))
    bench, free = Bench(spark, {"": parts}), Trial({**outcome, "adjustment": "none"}, None)
    bench.failures[trials[1].stage_one] = FitError("no exposure model")
    found = list(bench.attempt([trials[1], free, trials[1]]))
    assert [str(f) if isinstance(f, FitError) else "" for f in found] == ["no exposure model", "", "no exposure model"]


def test_the_placebo_keeps_the_size_of_the_confounder_and_no_user_or_item(parts: Parts) -> None:
    fitted = fit_exposure(parts.ratings("train"), PoissonFactorization(**EXPOSURE))
    shuffled, whole = confounder(fitted, "shuffled"), fitted.users @ fitted.items.T
    np.testing.assert_allclose(np.sort(shuffled.users @ shuffled.items.T, axis=None), np.sort(whole, axis=None))
    for dealt, of in ((shuffled.users, fitted.users), (shuffled.items, fitted.items)):
        assert not np.allclose(dealt, of)


def test_users_and_items_without_training_are_no_test(parts: Parts) -> None:
    train, validation = parts.of["train"], parts.of["validation"]
    seen = {name: column[(train["user"] < 9) & (train["item"] != 3)] for name, column in train.items()}
    small = Parts(parts.user_ids, parts.item_ids, parts.user_key, parts.item_key, {**parts.of, "train": seen})
    known = small.select_known("validation", ("train",)).of["validation"]
    kept = (validation["user"] < 9) & np.isin(validation["item"], seen["item"])
    assert 0 < kept.sum() < len(kept)
    np.testing.assert_array_equal(known["rating"], validation["rating"][kept])
