"""PoissonFactorization as its users call it: the dense twin's posterior by id, however the work is laid out."""

from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from dcrec_spark import PoissonFactorizationModel
from dcrec_spark.errors import DataError
from dcrec_spark.models.fitting import layout_settings
from tests.frames import frame_of
from tests.models.world import NAMES, NUMBERS, PRIORS, World, by_id, exposure
from tests.problems import assert_same
from tests.reference import poisson as dense


@pytest.fixture(scope="module")
def fitted(spark: SparkSession) -> PoissonFactorizationModel:
    """String ids, each pair counted once, everything left to itself."""
    return exposure().fit(NAMES.frame(spark))


def assert_same_model(one: PoissonFactorizationModel, other: PoissonFactorizationModel, tolerance: float) -> None:
    np.testing.assert_allclose(one.elboHistory, other.elboHistory, rtol=tolerance)
    for side in ("userFactors", "itemFactors"):
        mine, theirs = by_id(getattr(one, side)), by_id(getattr(other, side))
        assert mine["id"] == theirs["id"]
        assert_same(mine["shape"], theirs["shape"], tolerance)
        assert_same(mine["rate"], theirs["rate"], tolerance)


def assert_is_the_twin(spark: SparkSession, model: PoissonFactorizationModel, world: World, counted: bool) -> None:
    state, elbo = world.exposure_twin(spark, counted)
    np.testing.assert_allclose(model.elboHistory, elbo, rtol=1e-8)
    users, items = by_id(model.userFactors), by_id(model.itemFactors)
    assert (users["id"], items["id"]) == (world.users, world.items)
    assert_same(users["shape"], state.user_shape, 1e-4)  # they settle to a tolerance
    assert_same(users["rate"], state.user_rate, 1e-8)
    assert_same(items["shape"], state.item_shape, 1e-8)
    assert_same(items["rate"], state.item_rate, 1e-8)


# The twin


def test_fit_is_the_twin(spark: SparkSession, fitted: PoissonFactorizationModel) -> None:
    """By id; ids are any strings, empty ones and two ways to write an accent too."""
    assert_is_the_twin(spark, fitted, NAMES, counted=False)
    assert (np.diff(fitted.elboHistory) > 0).all()


def test_counts_of_exposures_are_the_twins(spark: SparkSession) -> None:
    model = exposure(countCol="count", exchange="blocks").fit(NUMBERS.frame(spark))
    assert_is_the_twin(spark, model, NUMBERS, counted=True)
    model.release()


def test_tables_have_the_promised_columns(fitted: PoissonFactorizationModel) -> None:
    for factors in (fitted.userFactors, fitted.itemFactors):
        assert dict(factors.dtypes) == {"id": "string", "shape": "array<double>", "rate": "array<double>"}


# Layout


@pytest.mark.parametrize(
    "layout_of_work",
    [
        {"numBlocks": 5, "exchange": "auto"},
    ],
    ids=["5x3-mixed"],
)
def test_layout_changes_nothing(
    spark: SparkSession,
    fitted: PoissonFactorizationModel,
    layout_of_work: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Auto holds the items on the driver here, and places the users, who are more than fit."""
    monkeypatch.setattr(layout_settings, "BROADCAST_BYTES", 8 * 2 * 2 * len(NAMES.items))
    model = exposure(**layout_of_work).fit(NAMES.frame(spark))
    assert_same_model(model, fitted, 1e-8)
    model.release()


def test_order_and_partitions_of_the_input_change_nothing(
    spark: SparkSession, fitted: PoissonFactorizationModel
) -> None:
    """Nor does a second fit with the same seed: not one bit."""
    model = exposure().fit(NAMES.frame(spark, partitions=7, seed=99))
    assert model.elboHistory == fitted.elboHistory
    for side in ("userFactors", "itemFactors"):
        mine, theirs = by_id(getattr(model, side)), by_id(getattr(fitted, side))
        np.testing.assert_array_equal(mine["shape"], theirs["shape"])
    model.release()


def test_another_seed_starts_elsewhere(spark: SparkSession, fitted: PoissonFactorizationModel) -> None:
    model = exposure(seed=18).fit(NAMES.frame(spark))
    assert np.abs(by_id(model.userFactors)["shape"] - by_id(fitted.userFactors)["shape"]).max() > 1e-3
    model.release()


def test_single_precision_ends_near_double(spark: SparkSession, fitted: PoissonFactorizationModel) -> None:
    """To a ten-thousandth of the largest number; tables hold doubles all the same."""
    model = exposure(precision="float32").fit(NAMES.frame(spark))
    assert_same_model(model, fitted, 1e-4)
    assert model.userFactors.schema["shape"].dataType.simpleString() == "array<double>"
    model.release()


# a_hat


def test_transform_adds_the_expected_exposure(spark: SparkSession, fitted: PoissonFactorizationModel) -> None:
    """E[pi_u] . E[lambda_i], for pairs never seen together too; the other columns stay as they are."""
    a_hat = dense.a_hat(NAMES.exposure_twin(spark, counted=False).state)
    pairs = [(item, number, user) for number, user in enumerate(NAMES.users) for item in NAMES.items]
    answer = fitted.transform(frame_of(spark, pairs, "item string, note long, user string"))
    assert answer.columns == ["item", "note", "user", "a_hat"]
    found = {(row.user, row.item): row.a_hat for row in answer.collect()}
    expected = [found[user, item] for user in NAMES.users for item in NAMES.items]
    assert_same(np.reshape(expected, a_hat.shape), a_hat, 1e-4)
    with pytest.raises(DataError, match="column 'a_hat' is there already, and exposureCol adds one"):
        fitted.transform(answer)


# Fold-in


def test_training_users_get_their_factors_back(spark: SparkSession, fitted: PoissonFactorizationModel) -> None:
    """From their own exposures, whatever else is held out."""
    pairs = [(NAMES.users[u], NAMES.items[i], bool(count == 0)) for (u, i), count in np.ndenumerate(NAMES.counts)]
    data = frame_of(spark, pairs, "user string, item string, held boolean")
    folded = fitted.copy({fitted.validationIndicatorCol: "held"}).foldInUsers(data)
    before, after = by_id(fitted.userFactors), by_id(folded)
    assert after["id"] == before["id"]
    assert_same(after["shape"], before["shape"], 1e-9)
    assert_same(after["rate"], before["rate"], 1e-9)
    folded.unpersist()


def test_new_items_are_the_twins(spark: SparkSession, fitted: PoissonFactorizationModel) -> None:
    """Where the fitted users hold them, and they know nothing of each other."""
    folded, users = fitted.foldInItems(NAMES.frame(spark).where("item != '10'")), by_id(fitted.userFactors)
    items = by_id(folded)
    chosen = [item != "10" for item in NAMES.items]
    assert items["id"] == [item for item in NAMES.items if item != "10"]
    mirrored = dense.State(np.ones((6, 2)), np.ones((6, 2)), users["shape"], users["rate"])
    priors = dense.Priors(PRIORS.item_shape, PRIORS.item_rate, PRIORS.user_shape, PRIORS.user_rate)
    settled = dense.converged_users(mirrored, (NAMES.counts > 0).astype(float)[:, chosen].T, priors)
    assert_same(items["shape"], settled.user_shape, 1e-4)  # they settle to a tolerance
    assert_same(items["rate"], settled.user_rate, 1e-8)
    folded.unpersist()
