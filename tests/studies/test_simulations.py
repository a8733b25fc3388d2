"""The simulations: the paper's has the moments of its distributions, the fair one differs in the confounding alone."""

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from scipy import stats

from dcrec_spark.local.lists import ListPlaces
from studies.fair_simulation import FairSimulation, expected_of_rounded, value_of
from studies.paper_simulation import Simulation, draw_block, draw_items, draw_users, expected_rating, simulate

SMALL = Simulation(n_users=37, n_items=23, n_factors=4, gamma_reading="rate", test_pairs_per_user=5, seed=7)


def but(**changed: object) -> Simulation:
    return Simulation(**{**SMALL.model_dump(), **changed})


def rows(frame: DataFrame) -> list[tuple]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize("users_per_block", [4, 1000])
def test_spark_draws_what_numpy_draws_whatever_the_blocks(spark: SparkSession, users_per_block: int) -> None:
    block = draw_block(SMALL, np.arange(SMALL.n_users), draw_items(SMALL))
    data = simulate(spark, SMALL, users_per_block)
    user, item = np.nonzero(block.exposed)
    assert rows(data.ratings) == sorted(
        zip(user.tolist(), item.tolist(), block.rating[user, item].tolist(), strict=True)
    )
    test = data.test.toPandas()
    assert (test.groupby("user").size() == 5).all()
    assert not test.duplicated(["user", "item"]).any()
    np.testing.assert_array_equal(test["exposed"], block.exposed[test["user"], test["item"]])
    np.testing.assert_array_equal(test["rating"], block.rating[test["user"], test["item"]])


@pytest.mark.parametrize(("reading", "share", "scale"), [("rate", 0.90, 1 / 0.3), ("scale", 0.07, 0.3)])
def test_factors_and_exposures_have_the_moments_of_their_gamma(reading: str, share: float, scale: float) -> None:
    settings = Simulation(n_users=1500, n_items=1500, gamma_reading=reading, confounding_preference=0.25, seed=1)
    drawn = draw_block(settings, np.arange(1500), draw_items(settings)).exposed.mean()
    assert drawn == pytest.approx(share, abs=0.02)
    users = draw_users(settings, np.arange(20_000))
    assert users.confounder.mean() == pytest.approx(0.3 * scale, rel=0.03)
    assert users.confounder.var() == pytest.approx(0.3 * scale**2, rel=0.06)
    # theta = g c + (1 - g) own: the mean stays, Cov(theta, c) = g Var(c).
    assert users.preference.mean() == pytest.approx(0.3 * scale, rel=0.03)
    covariance = np.cov(users.preference.ravel(), users.confounder.ravel())[0, 1]
    assert covariance == pytest.approx(0.25 * 0.3 * scale**2, rel=0.06)


def test_unseen_test_pairs_are_never_exposed_and_withheld_ones_are_no_ratings(spark: SparkSession) -> None:
    users, exposed = np.arange(37), draw_block(SMALL, np.arange(37), draw_items(SMALL)).exposed
    unseen = simulate(spark, but(test_pairs="unseen")).test.toPandas()
    assert not unseen["exposed"].any()
    # A user who saw nearly everything gives all that is left.
    counts = unseen.groupby("user").size().reindex(users, fill_value=0)
    np.testing.assert_array_equal(counts, np.minimum((~exposed).sum(axis=1), 5))
    everything, withheld = simulate(spark, SMALL), simulate(spark, but(test_pairs="withheld"))
    in_both = {(user, item) for user, item, _, _, seen in rows(everything.test) if seen}
    assert in_both
    assert rows(withheld.ratings) == [row for row in rows(everything.ratings) if row[:2] not in in_both]


FAIR = {"n_users": 200, "n_items": 150, "test_pairs_per_user": 20, "seed": 3}


def seen_minus_all(data: FairSimulation) -> float:
    return float(data.rating[data.exposed].mean() - data.rating.mean())


def test_what_is_seen_is_rated_higher_or_lower_as_the_kind_says() -> None:
    gap = {kind: seen_minus_all(FairSimulation(kind, **FAIR)) for kind in ("raises", "lowers", "mixed", "none")}
    assert gap["raises"] > 0.2
    assert gap["lowers"] < -0.2
    assert abs(gap["mixed"]) < 0.15
    assert abs(gap["none"]) < 0.1
    assert seen_minus_all(FairSimulation("self-selection", **FAIR)) > 0.3
    assert seen_minus_all(FairSimulation("single-item", **FAIR)) > 0.3


def test_test_pairs_are_withheld_and_so_many_of_each_user() -> None:
    data = FairSimulation("raises", **{**FAIR, "rated": 0.1})
    assert data.exposed.mean() == pytest.approx(0.1, abs=0.01)
    assert set(np.unique(data.rating)) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    rated = set(zip(data.ratings["user"], data.ratings["item"], strict=True))
    tested = list(zip(data.test["user"], data.test["item"], strict=True))
    assert not rated & set(tested)
    assert np.bincount(data.test["user"]).tolist() == [20] * 200
    unseen = data.test["unseen"]
    assert 0.8 < unseen.mean() < 1.0
    assert not data.exposed[data.test["user"][unseen], data.test["item"][unseen]].any()


def test_draws_depend_on_the_seed_and_not_on_the_company() -> None:
    assert not np.array_equal(draw_items(SMALL), draw_items(but(seed=8)))
    np.testing.assert_array_equal(
        draw_users(SMALL, np.array([9])).confounder[0], draw_users(SMALL, np.arange(20))[0][9]
    )
    np.testing.assert_array_equal(draw_items(but(n_items=50))[: SMALL.n_items], draw_items(SMALL))


def test_value_and_regret_are_means_of_the_truth() -> None:
    expected = np.array([[5.0, 4.0, 1.0], [2.0, 3.0, 4.0]])
    seen = np.array([[True, False, False], [False, False, False]])
    places = ListPlaces(np.array([0, 1]), np.array([1, 1]), np.array([2, 2]), np.zeros(2))
    value, regret = value_of(places, expected, seen, 1)
    assert value == pytest.approx((1.0 + 4.0) / 2)
    assert regret == pytest.approx((4.0 + 4.0) / 2 - value)


@pytest.mark.parametrize("rate", [0.0, 0.3, 7.5, 800.0])
def test_expected_rating_is_the_sum_over_the_clipped_poisson(rate: float) -> None:
    clipped = np.minimum(1 + np.arange(2000), 5)
    on_paper = float(clipped @ stats.poisson.pmf(np.arange(2000), rate))
    assert expected_rating(np.array([rate]))[0] == pytest.approx(on_paper, rel=1e-12)


def test_expected_ratings_are_the_means_of_rounded_draws() -> None:
    level = np.array([0.4, 2.5, 3.3, 5.2])
    draws = np.random.default_rng(0).normal(level, 0.9, (200_000, 4))
    np.testing.assert_allclose(expected_of_rounded(level, 0.9), np.clip(np.rint(draws), 1, 5).mean(0), atol=0.01)
    data = FairSimulation("raises", **FAIR)
    user, item = data.test["user"], data.test["item"]
    assert np.mean(data.expected(user, item) - data.test["rating"]) == pytest.approx(0, abs=0.05)
