"""The simulated world: equal whatever the blocks, with the moments its distributions have on paper."""

import dataclasses

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from scipy import integrate, stats

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.simulate import (
    Simulation,
    draw_block,
    draw_items,
    draw_users,
    expected_outcomes,
    expected_rating,
    simulate,
)

SMALL = Simulation(n_users=37, n_items=23, n_factors=4, gamma_reading="rate", test_pairs_per_user=5, seed=7)


def rows(frame: DataFrame) -> list[tuple]:
    return sorted(map(tuple, frame.collect()))


def exposure_share_on_paper(settings: Simulation) -> float:
    """E[1 - exp(-c.beta)] = 1 - E[exp(-c_1 beta_1)]^K, with E[exp(-c_1 b)] = (1 + scale b)^-shape."""
    gamma = stats.gamma(settings.gamma_shape, scale=settings.gamma_scale)

    def not_exposed(quantile: float) -> float:
        return (1 + settings.gamma_scale * gamma.ppf(quantile)) ** -settings.gamma_shape

    return 1 - integrate.quad(not_exposed, 0, 1, limit=200)[0] ** settings.n_factors


@pytest.mark.parametrize("users_per_block", [1, 4, 37, 1000])
def test_the_blocks_leave_no_trace(spark: SparkSession, users_per_block: int) -> None:
    expected, got = simulate(spark, SMALL), simulate(spark, SMALL, users_per_block)
    assert rows(got.ratings) == rows(expected.ratings)
    assert rows(got.test) == rows(expected.test)


def test_spark_returns_the_exposed_pairs_of_the_numpy_core(spark: SparkSession) -> None:
    block = draw_block(SMALL, np.arange(SMALL.n_users), draw_items(SMALL))
    user, item = np.nonzero(block.exposed)
    expected = sorted(zip(user.tolist(), item.tolist(), block.rating[user, item].tolist(), strict=True))
    assert rows(simulate(spark, SMALL, 5).ratings) == expected


def test_another_seed_is_another_world() -> None:
    other = dataclasses.replace(SMALL, seed=8)
    assert not np.array_equal(draw_items(SMALL), draw_items(other))
    users = np.arange(5)
    assert not np.array_equal(draw_users(SMALL, users).confounder, draw_users(other, users).confounder)


def test_a_user_is_the_same_in_any_company_and_in_a_larger_world() -> None:
    alone, together = draw_users(SMALL, np.array([9])), draw_users(SMALL, np.arange(20))
    np.testing.assert_array_equal(alone.confounder[0], together.confounder[9])
    np.testing.assert_array_equal(alone.preference[0], together.preference[9])
    larger = dataclasses.replace(SMALL, n_items=50)
    np.testing.assert_array_equal(draw_items(larger)[: SMALL.n_items], draw_items(SMALL))


def test_the_outcome_strength_alone_leaves_exposures_and_test_pairs_alone() -> None:
    users = np.arange(SMALL.n_users)
    weak = draw_block(dataclasses.replace(SMALL, confounding_outcome=0.0), users, draw_items(SMALL))
    strong = draw_block(SMALL, users, draw_items(SMALL))
    np.testing.assert_array_equal(weak.exposed, strong.exposed)
    np.testing.assert_array_equal(weak.in_test, strong.in_test)
    assert weak.rating.mean() < strong.rating.mean()


@pytest.mark.parametrize(("reading", "share"), [("rate", 0.90), ("scale", 0.07)])
def test_the_reading_of_the_gamma_decides_the_exposure_share(reading: str, share: float) -> None:
    settings = Simulation(n_users=1500, n_items=1500, gamma_reading=reading, seed=1)
    on_paper = exposure_share_on_paper(settings)
    drawn = draw_block(settings, np.arange(1500), draw_items(settings)).exposed.mean()
    assert on_paper == pytest.approx(share, abs=0.02)
    assert drawn == pytest.approx(on_paper, rel=0.05)


@pytest.mark.parametrize(("reading", "scale"), [("rate", 1 / 0.3), ("scale", 0.3)])
def test_factors_have_the_moments_of_their_gamma(reading: str, scale: float) -> None:
    settings = Simulation(n_items=20_000, gamma_reading=reading, confounding_preference=0.25, seed=3)
    items, users = draw_items(settings), draw_users(settings, np.arange(20_000))
    for factors in (items, users.confounder):
        assert factors.mean() == pytest.approx(0.3 * scale, rel=0.03)
        assert factors.var() == pytest.approx(0.3 * scale**2, rel=0.06)
    # theta = g c + (1 - g) own: the mean stays, Cov(theta, c) = g Var(c).
    covariance = np.cov(users.preference.ravel(), users.confounder.ravel())[0, 1]
    assert users.preference.mean() == pytest.approx(0.3 * scale, rel=0.03)
    assert covariance == pytest.approx(0.25 * 0.3 * scale**2, rel=0.06)


def test_full_confounding_of_the_preference_makes_it_the_confounder() -> None:
    truth = draw_users(dataclasses.replace(SMALL, confounding_preference=1.0), np.arange(10))
    np.testing.assert_array_equal(truth.preference, truth.confounder)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exposure_tells_more_about_the_rating_the_stronger_the_confounding(seed: int) -> None:
    def correlation(outcome_strength: float) -> float:
        settings = Simulation(500, 500, confounding_preference=0.0, confounding_outcome=outcome_strength, seed=seed)
        block = draw_block(settings, np.arange(500), draw_items(settings))
        return float(np.corrcoef(block.exposed.ravel(), block.rating.ravel())[0, 1])

    none, some, strong = (correlation(strength) for strength in (0.0, 1.0, 5.0))
    assert none + 0.05 < some < strong - 0.05


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.3, 2.0, 7.5, 800.0])
def test_expected_rating_is_the_sum_over_the_clipped_poisson(rate: float) -> None:
    clipped = np.minimum(1 + np.arange(2000), 5)
    on_paper = float(clipped @ stats.poisson.pmf(np.arange(2000), rate))
    assert expected_rating(np.array([rate]))[0] == pytest.approx(on_paper, rel=1e-12)


def test_expected_rating_is_the_mean_of_drawn_ratings() -> None:
    settings = Simulation(n_users=400, n_items=400, seed=5)
    block = draw_block(settings, np.arange(400), draw_items(settings))
    expected = expected_rating(block.outcome_rate)
    assert block.rating.min() == 1.0
    assert block.rating.max() == 5.0
    # Also within each fifth of the pairs by expectation: 32,000 pairs, so 5 standard errors are about 0.04.
    for fifth in np.array_split(np.argsort(expected.ravel(), kind="stable"), 5):
        assert block.rating.ravel()[fifth].mean() == pytest.approx(expected.ravel()[fifth].mean(), abs=0.04)


def test_the_test_set_is_a_random_sample_of_all_pairs(spark: SparkSession) -> None:
    settings = Simulation(n_users=300, n_items=100, n_factors=6, gamma_reading="rate", test_pairs_per_user=30)
    world = simulate(spark, settings)
    block = draw_block(settings, np.arange(300), draw_items(settings))
    test = world.test.toPandas()
    assert (test.groupby("user").size() == 30).all()
    assert len(test) == 9000
    assert not test.duplicated(["user", "item"]).any()
    assert test["rating"].mean() == pytest.approx(block.rating.mean(), abs=0.05)
    assert test["exposed"].mean() == pytest.approx(block.exposed.mean(), abs=0.03)
    np.testing.assert_array_equal(test["exposed"], block.exposed[test["user"], test["item"]])
    np.testing.assert_array_equal(test["rating"], block.rating[test["user"], test["item"]])


def test_unseen_test_pairs_are_never_exposed(spark: SparkSession) -> None:
    settings = dataclasses.replace(SMALL, test_pairs="unseen")
    test = simulate(spark, settings).test.toPandas()
    exposed = draw_block(settings, np.arange(SMALL.n_users), draw_items(settings)).exposed
    unseen = (~exposed).sum(axis=1)
    assert not test["exposed"].any()
    # A user who saw nearly everything gives all that is left.
    assert (unseen < 5).any()
    counts = test.groupby("user").size().reindex(range(SMALL.n_users), fill_value=0)
    np.testing.assert_array_equal(counts, np.minimum(unseen, 5))


def test_withheld_test_pairs_are_left_out_of_the_ratings(spark: SparkSession) -> None:
    everything = simulate(spark, SMALL)
    withheld = simulate(spark, dataclasses.replace(SMALL, test_pairs="withheld"))
    assert rows(withheld.test) == rows(everything.test)
    exposed_tests = {(user, item) for user, item, _, _, exposed in rows(everything.test) if exposed}
    kept = [row for row in rows(everything.ratings) if row[:2] not in exposed_tests]
    assert exposed_tests
    assert rows(withheld.ratings) == kept


def test_the_truth_of_chosen_pairs() -> None:
    users, items = np.array([3, 3, 0]), np.array([1, 22, 1])
    block = draw_block(SMALL, np.arange(4), draw_items(SMALL))
    on_paper = expected_rating(block.outcome_rate[users, items])
    np.testing.assert_array_equal(expected_outcomes(SMALL, users, items), on_paper)


def test_the_truth_of_a_pair_outside_the_world_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"item 23 is not simulated; expected ids from 0 to 22"):
        expected_outcomes(SMALL, np.array([0]), np.array([23]))


def test_one_user_and_one_item_make_a_world(spark: SparkSession) -> None:
    world = simulate(spark, Simulation(n_users=1, n_items=1, n_factors=1, test_pairs_per_user=1))
    assert [row[:2] for row in rows(world.test)] == [(0, 0)]


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("n_users", 0, "at least 1"),
        ("n_factors", -1, "at least 1"),
        ("confounding_preference", 1.5, "from 0 to 1"),
        ("confounding_outcome", float("nan"), "a finite number from 0"),
        ("gamma_shape", 0.0, "a finite number above 0"),
        ("gamma_reading", "precision", "one of"),
        ("test_pairs", "some", "one of"),
        ("test_pairs_per_user", 1001, "from 0 to n_items = 1000"),
        ("seed", -1, "at least 0"),
    ],
)
def test_a_setting_out_of_range_is_named(setting: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"simulation setting {setting} is .* expected {expected}"):
        Simulation(**{setting: value})
