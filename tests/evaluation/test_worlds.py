"""Fair worlds: one seed's worlds differ in the confounding alone, and each kind confounds as it says."""

import numpy as np
import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.worlds import FairWorld, expected_of_rounded

SMALL = {"n_users": 200, "n_items": 150, "test_pairs_per_user": 20, "seed": 3}


def seen_minus_all(world: FairWorld) -> float:
    return float(world.rating[world.exposed].mean() - world.rating.mean())


def test_worlds_of_a_seed_share_all_but_the_effect() -> None:
    up, down, none = (FairWorld(kind, **SMALL) for kind in ("raises", "lowers", "none"))
    for other in (down, none):
        np.testing.assert_array_equal(up.exposed, other.exposed)
        np.testing.assert_array_equal(up.in_test, other.in_test)
    np.testing.assert_allclose(up.level - none.level, none.level - down.level, atol=1e-12)
    assert not np.array_equal(up.exposed, FairWorld("raises", **{**SMALL, "seed": 4}).exposed)


def test_what_is_seen_is_rated_higher_or_lower_as_the_kind_says() -> None:
    gap = {kind: seen_minus_all(FairWorld(kind, **SMALL)) for kind in ("raises", "lowers", "mixed", "none")}
    assert gap["raises"] > 0.2
    assert gap["lowers"] < -0.2
    assert abs(gap["mixed"]) < 0.15
    assert abs(gap["none"]) < 0.1
    assert seen_minus_all(FairWorld("self-selection", **SMALL)) > 0.3
    assert seen_minus_all(FairWorld("single-item", **SMALL)) > 0.3


def test_confounders_of_single_items_say_nothing_of_other_items() -> None:
    world = FairWorld("single-item", **SMALL)
    left_over = world.level - FairWorld("none", **SMALL).level
    between_items = np.corrcoef(left_over, rowvar=False)
    assert np.abs(between_items[~np.eye(len(between_items), dtype=bool)]).mean() < 0.1


def test_test_pairs_are_withheld_and_so_many_of_each_user() -> None:
    world = FairWorld("raises", **SMALL)
    rated = set(zip(world.ratings["user"], world.ratings["item"], strict=True))
    tested = list(zip(world.test["user"], world.test["item"], strict=True))
    assert not rated & set(tested)
    assert np.bincount(world.test["user"]).tolist() == [20] * 200
    unseen = world.test["unseen"]
    assert 0.9 < unseen.mean() < 1.0
    assert not world.exposed[world.test["user"][unseen], world.test["item"][unseen]].any()


def test_the_share_of_rated_pairs_is_the_one_asked_for() -> None:
    world = FairWorld("none", **{**SMALL, "rated": 0.2})
    assert world.exposed.mean() == pytest.approx(0.2, abs=0.01)
    assert set(np.unique(world.rating)) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_expected_ratings_are_the_means_of_rounded_draws() -> None:
    level = np.array([0.4, 2.5, 3.3, 5.2])
    draws = np.random.default_rng(0).normal(level, 0.9, (200_000, 4))
    np.testing.assert_allclose(expected_of_rounded(level, 0.9), np.clip(np.rint(draws), 1, 5).mean(0), atol=0.01)
    world = FairWorld("raises", **SMALL)
    user, item = world.test["user"], world.test["item"]
    assert np.mean(world.expected(user, item) - world.test["rating"]) == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [("confounding", "both"), ("effect", -1.0), ("rated", 0.0), ("n_users", 0), ("concentration", 0.0), ("seed", -1)],
)
def test_a_setting_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        FairWorld(**{"confounding": "raises", **SMALL, name: value})
