"""A family of outcome models is one class: a toy one in a file of its own does all that the built-in ones do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel
from dcrec_spark.config.stages import OutcomeConfig
from dcrec_spark.errors import ConfigError
from dcrec_spark.local.fits import Outcome, Ratings, fit_outcome
from dcrec_spark.models.families.gaussian import Probabilistic, Weighted
from dcrec_spark.models.families.registry import FAMILIES, family_of, register
from dcrec_spark.settings.tables import OUTCOMES
from tests.models.data_sets import NAMES, by_id
from tests.models.families.toy import Plain
from tests.problems import assert_same

TOY = Path(__file__).with_name("toy.py")
HOW_TO = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "add-a-family.md"


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """What a package with a family of its own does when it is imported."""
    register("plain", Plain, "the observed ratings, no intercept")
    yield
    del FAMILIES["plain"], OUTCOMES["plain"]


def plain(**changes: Any) -> DeconfoundedMF:
    settings = {"outcome": "plain", "adjustment": "none", "rank": 2, "regParam": 0.5, "maxIter": 4, "tol": 0.0}
    return DeconfoundedMF(**{**settings, **changes})


@pytest.fixture(scope="module")
def ratings(spark: SparkSession) -> DataFrame:
    return NAMES.frame(spark)


@pytest.fixture(scope="module")
def in_one_process(spark: SparkSession) -> Outcome:
    user, item = np.nonzero(NAMES.counts)
    here = Ratings(user, item, NAMES.ratings[user, item], *NAMES.keys(spark))
    return fit_outcome(here, plain())


@pytest.fixture(scope="module")
def fitted(ratings: DataFrame) -> DeconfoundedMFModel:
    return plain(exchange="blocks", numBlocks=3).fit(ratings)


def test_it_fits_in_one_process_and_on_spark_alike(in_one_process: Outcome, fitted: DeconfoundedMFModel) -> None:
    history = fitted.objectiveHistory
    np.testing.assert_allclose(in_one_process.objective, history, rtol=1e-9)
    assert (np.diff(history) < 0).all()
    assert_same(by_id(fitted.userFactors)["features"], in_one_process.users, 1e-9)
    error = (NAMES.ratings - in_one_process.users @ in_one_process.items.T)[NAMES.counts > 0]
    squares = np.square(in_one_process.users).sum() + np.square(in_one_process.items).sum()
    # The users are solved once more after the last sweep.
    assert 0.95 * history[-1] < np.square(error).sum() + 0.5 * squares <= history[-1]


def test_it_predicts_and_recommends(ratings: DataFrame, in_one_process: Outcome, fitted: DeconfoundedMFModel) -> None:
    expected = in_one_process.users @ in_one_process.items.T
    predicted = {(r.user, r.item): r.prediction for r in fitted.transform(ratings).collect()}
    for (user, item), score in predicted.items():
        assert score == pytest.approx(expected[NAMES.users.index(user), NAMES.items.index(item)], rel=1e-8)
    best = {r.user_id: r.item_id for r in fitted.recommendationTable(1).collect()}
    assert best == {user: NAMES.items[i] for user, i in zip(NAMES.users, expected.argmax(axis=1), strict=True)}


def test_it_is_saved_loaded_and_folds_in(ratings: DataFrame, fitted: DeconfoundedMFModel, tmp_path: Path) -> None:
    fitted.save(str(tmp_path / "model"))
    loaded = DeconfoundedMFModel.load(str(tmp_path / "model"))
    assert (loaded.facts, loaded.getOrDefault("outcome")) == (fitted.facts, "plain")
    folded = by_id(loaded.foldInUsers(ratings.where("user = 'zoë'")))
    before = by_id(fitted.userFactors)
    assert_same(folded["features"][0], before["features"][before["id"].index("zoë")], 1e-9)
    loaded.release()


def test_it_starts_from_a_fitted_model(ratings: DataFrame, fitted: DeconfoundedMFModel) -> None:
    warm = plain(maxIter=1, initialModel=fitted).fit(ratings)
    whole = plain(maxIter=5).fit(ratings)
    assert warm.objectiveHistory[0] == pytest.approx(whole.objectiveHistory[-1], rel=1e-9)


def test_it_says_what_it_can_not_do(ratings: DataFrame, fitted: DeconfoundedMFModel) -> None:
    with pytest.raises(ConfigError, match="outcome=plain can't be explained"):
        fitted.explain(ratings.limit(1), ratings)
    with pytest.raises(ConfigError, match="outcome=plain has no confounder"):
        plain(adjustment="deconfounded").fit(ratings)
    with pytest.raises(ConfigError, match=r"initialModel was fitted with rank=2 \(here 3\)"):
        plain(rank=3, initialModel=fitted).fit(ratings)


def test_names_are_those_of_the_registry() -> None:
    assert FAMILIES.keys() == OUTCOMES.keys() == {"weighted", "probabilistic", "poisson", "plain"}
    assert isinstance(family_of(plain()), Plain)
    assert OutcomeConfig(outcome="plain").outcome == "plain"
    with pytest.raises(TypeError, match=r"outcome: found 'plane', expected one of .*, plain"):
        plain(outcome="plane")
    register("weighted", Weighted)
    with pytest.raises(ValueError, match="outcome='weighted' is Weighted already"):
        register("weighted", Probabilistic)


def test_the_documentation_shows_this_very_family() -> None:
    assert TOY.read_text(encoding="utf-8") in HOW_TO.read_text(encoding="utf-8")
