"""The fair simulation: data sets of a seed differ in the confounding alone, which is what its name says."""

import numpy as np
import pytest

from studies.fair_simulation import FairSimulation, expected_of_rounded

SMALL = {"n_users": 200, "n_items": 150, "test_pairs_per_user": 20, "seed": 3}


def seen_minus_all(data: FairSimulation) -> float:
    return float(data.rating[data.exposed].mean() - data.rating.mean())


def test_data_sets_of_a_seed_share_all_but_the_effect() -> None:
    up, down, none = (FairSimulation(kind, **SMALL) for kind in ("raises", "lowers", "none"))
    for other in (down, none):
        np.testing.assert_array_equal(up.exposed, other.exposed)
        np.testing.assert_array_equal(up.in_test, other.in_test)
    np.testing.assert_allclose(up.level - none.level, none.level - down.level, atol=1e-12)
    assert not np.array_equal(up.exposed, FairSimulation("raises", **{**SMALL, "seed": 4}).exposed)


def test_what_is_seen_is_rated_higher_or_lower_as_the_kind_says() -> None:
    gap = {kind: seen_minus_all(FairSimulation(kind, **SMALL)) for kind in ("raises", "lowers", "mixed", "none")}
    assert gap["raises"] > 0.2
    assert gap["lowers"] < -0.2
    assert abs(gap["mixed"]) < 0.15
    assert abs(gap["none"]) < 0.1
    assert seen_minus_all(FairSimulation("self-selection", **SMALL)) > 0.3
    assert seen_minus_all(FairSimulation("single-item", **SMALL)) > 0.3


def test_confounders_of_single_items_say_nothing_of_other_items() -> None:
    data = FairSimulation("single-item", **SMALL)
    left_over = data.level - FairSimulation("none", **SMALL).level
    between_items = np.corrcoef(left_over, rowvar=False)
    assert np.abs(between_items[~np.eye(len(between_items), dtype=bool)]).mean() < 0.1


def test_test_pairs_are_withheld_and_so_many_of_each_user() -> None:
    data = FairSimulation("raises", **{**SMALL, "rated": 0.1})
    assert data.exposed.mean() == pytest.approx(0.1, abs=0.01)
    assert set(np.unique(data.rating)) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    rated = set(zip(data.ratings["user"], data.ratings["item"], strict=True))
    tested = list(zip(data.test["user"], data.test["item"], strict=True))
    assert not rated & set(tested)
    assert np.bincount(data.test["user"]).tolist() == [20] * 200
    unseen = data.test["unseen"]
    assert 0.8 < unseen.mean() < 1.0
    assert not data.exposed[data.test["user"][unseen], data.test["item"][unseen]].any()


def test_expected_ratings_are_the_means_of_rounded_draws() -> None:
    level = np.array([0.4, 2.5, 3.3, 5.2])
    draws = np.random.default_rng(0).normal(level, 0.9, (200_000, 4))
    np.testing.assert_allclose(expected_of_rounded(level, 0.9), np.clip(np.rint(draws), 1, 5).mean(0), atol=0.01)
    data = FairSimulation("raises", **SMALL)
    user, item = data.test["user"], data.test["item"]
    assert np.mean(data.expected(user, item) - data.test["rating"]) == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [("confounding", "both"), ("effect", -1.0), ("rated", 0.0), ("n_users", 0), ("concentration", 0.0), ("seed", -1)],
)
def test_a_setting_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        FairSimulation(**{"confounding": "raises", **SMALL, name: value})
