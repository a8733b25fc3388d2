"""Biases, a pooled, standardised confounder without the pair's own vote: the dense twin, on Spark and in process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.special import ndtri

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.gamma import noise
from dcrec_spark.local.fits import Exposure, Outcome, Ratings, fit_outcome
from dcrec_spark.models.families.gaussian import INTERCEPT_REG
from tests.frames import frame_of
from tests.models.world import NAMES, OUTCOME, by_id, exposure, outcome
from tests.problems import assert_same
from tests.reference import biased
from tests.reference import exposure as dense_exposure
from tests.reference.poisson import Array

ALL: dict[str, Any] = {
    "fitBiases": True,
    "biasReg": 0.9,
    "confounderWeight": "pooled",
    "leaveOneOut": True,
    "maxIter": 3,
}
RATED: dict[str, Any] = {**ALL, "outcome": "probabilistic"}
KINDS: dict[str, dict[str, Any]] = {
    "everywhere": {**ALL, "outcome": "weighted", "maxIter": 2, "numBlocks": 2, "exchange": "blocks"},
    "rated": {**RATED, "confounderLink": "log", "regByCount": True},
    "many sweeps": {**RATED, "maxIter": 6, "confounderReg": 2.5},
    "log": {**RATED, "confounderLink": "log", "numBlocks": 3, "exchange": "blocks"},
    "factors": {**ALL, "outcome": "weighted", "confounder": "factors", "numBlocks": 2, "exchange": "blocks"},
    "factors and features": {**RATED, "confounder": "factors", "confounderReg": 2.0},
    # So many gradient steps that each sweep ends where the reference's does.
    "gradients": {**ALL, "outcome": "weighted", "rank": 1, "solver": "cg"},
}
OBSERVED = NAMES.counts > 0
# Features of users and of items. One number is missing, and one user has none.
USER_FEATURES = np.column_stack([np.arange(9.0) % 4, np.cos(np.arange(9.0))])
USER_FEATURES[3, 0] = np.nan
ITEM_FEATURES = np.array([[0.0], [1], [1], [0], [0], [1], [0]])
WITHOUT = "用户"


def estimator(spark: SparkSession, kind: str, **settings: Any) -> DeconfoundedMF:
    """The estimator of a kind, with the features that it has."""
    made = outcome(**{**KINDS[kind], **settings})
    if "features" in kind:
        users, items = feature_frames(spark)
        made.setParams(userFeatures=users, itemFeatures=items)
    return made


def feature_frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    users = [(u, *map(float, row)) for u, row in zip(NAMES.users, USER_FEATURES, strict=True) if u != WITHOUT]
    items = [(i, int(x)) for i, (x,) in zip(NAMES.items, ITEM_FEATURES, strict=True)]
    return frame_of(spark, users, "user string, age double, `a.b` double"), frame_of(
        spark, items, "item string, new int"
    )


def covariates_of(posterior: "Posterior", kind: str) -> tuple[Array, Array] | tuple[None, None]:
    """p (U, P) and q (I, Q): composition of exposure at one scale, each feature at a scale of its own."""
    if "factors" not in kind:
        return None, None
    both = []
    for (shape, rate), features in zip(posterior, (USER_FEATURES, ITEM_FEATURES), strict=True):
        composition = shape / rate / (shape / rate).sum(axis=1, keepdims=True)
        composition = composition - composition.mean(axis=0)
        parts = [composition / composition.std()]
        if "features" in kind:
            known = features.copy()
            if len(known) == len(NAMES.users):
                known[NAMES.users.index(WITHOUT)] = np.nan
            parts.append(np.nan_to_num((known - np.nanmean(known, axis=0)) / np.nanstd(known, axis=0)))
        both.append(np.hstack(parts))
    return both[0], both[1]


class Posterior(NamedTuple):
    """Shapes and rates of the exposure factors, of users and of items."""

    users: tuple[Array, Array]
    items: tuple[Array, Array]

    @classmethod
    def of(cls, model: PoissonFactorizationModel) -> "Posterior":
        users, items = by_id(model.userFactors), by_id(model.itemFactors)
        return cls((users["shape"], users["rate"]), (items["shape"], items["rate"]))

    @property
    def a_hat(self) -> Array:
        return np.asarray((self.users[0] / self.users[1]) @ (self.items[0] / self.items[1]).T)


def confounder_of(posterior: Posterior, link: str) -> tuple[Array, Array]:
    """h of rated and other pairs, and h as it is predicted; (U, I) each."""
    a_hat, rated = posterior.a_hat, OBSERVED.astype(float)
    alone = np.where(OBSERVED, dense_exposure.leave_one_out(*posterior, rated), a_hat)
    if link == "log":
        offset = a_hat.mean()
        a_hat, alone = np.log(a_hat + offset), np.log(alone + offset)
        mean, scale = dense_exposure.standardised(alone[OBSERVED])
    else:
        mean, scale = dense_exposure.standardised(a_hat)
    return (alone - mean) / scale, (a_hat - mean) / scale


def twin_of(spark: SparkSession, posterior: Posterior, kind: str) -> tuple[list[float], biased.Unknowns, Array, Array]:
    """Objectives of the sweeps and of the end, unknowns there, users solved once more, all predictions, gamma h."""
    settings = KINDS[kind]
    everywhere = settings["outcome"] == "weighted"
    link = settings.get("confounderLink", "identity")
    h, predicted = confounder_of(posterior, link)
    ratings = np.where(OBSERVED, NAMES.ratings, 0.0)
    weights = np.where(OBSERVED, 1.0 + OUTCOME["alpha"] * ratings if everywhere else 1.0, float(everywhere))
    count = [OBSERVED.sum(axis=a) if settings.get("regByCount") else np.ones(ratings.shape[1 - a]) for a in (1, 0)]
    factor, gamma, bias = ({**OUTCOME, **settings}[name] for name in ("regParam", "confounderReg", "biasReg"))
    regs = factor, factor, gamma, INTERCEPT_REG, bias, bias
    mask = np.where(OBSERVED, 1.0, float(everywhere))
    covariates = covariates_of(posterior, kind)
    problem = biased.Problem(ratings, weights, mask, h, "pooled", count[0], count[1], True, *regs, *covariates)
    mean, rank = ratings[OBSERVED].mean(), settings.get("rank", OUTCOME["rank"])
    uniform = np.clip(noise(OUTCOME["seed"], NAMES.keys(spark)[1], rank), 2.0**-53, 1 - 2.0**-53)
    rated = OBSERVED.sum() * (1.0 + OUTCOME["alpha"] * ratings[OBSERVED].mean() * everywhere)
    first = mean * rated / (rated + everywhere * (~OBSERVED).sum() + INTERCEPT_REG)
    x, history = biased.start(problem, 0.1 * ndtri(uniform), rank, float(first)), []
    for _ in range(settings["maxIter"]):
        x = biased.sweep(problem, x)
        history.append(biased.objective(problem, x))
    x = biased.update_users(problem, x)
    history.append(biased.objective(problem, x))
    scores = biased.preference(problem, x) + x.weight[:, None] * predicted + x.intercept
    return history, x, scores, x.weight[:, None] * predicted


@pytest.fixture(scope="module")
def stage_one(spark: SparkSession) -> Iterator[PoissonFactorizationModel]:
    model = exposure().fit(NAMES.frame(spark))
    yield model
    model.release()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def fitted(spark: SparkSession, stage_one: PoissonFactorizationModel, kind: str) -> Iterator[DeconfoundedMFModel]:
    model = estimator(spark, kind, exposureModel=stage_one).fit(NAMES.frame(spark))
    yield model
    model.release()


def all_pairs(spark: SparkSession) -> DataFrame:
    return frame_of(spark, [(u, i) for u in NAMES.users for i in NAMES.items], "user string, item string")


def scores_of(frame: DataFrame, columns: list[str]) -> Array:
    found = {(row.user, row.item): [row[c] for c in columns] for row in frame.collect()}
    rows = [found[u, i] for u in NAMES.users for i in NAMES.items]
    return np.array(rows).T.reshape(len(columns), len(NAMES.users), len(NAMES.items))


def test_a_fit_is_the_dense_twin_and_its_parts_add_up(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel, kind: str
) -> None:
    posterior = Posterior.of(stage_one)
    history, x, expected, of_gamma = twin_of(spark, posterior, kind)
    np.testing.assert_allclose([*fitted.objectiveHistory, fitted.objective], history, rtol=1e-8)
    users, items = by_id(fitted.userFactors), by_id(fitted.itemFactors)
    for found, wanted in (
        *((users["features"], x.theta), (users["bias"], x.user_bias), (users["gamma"], x.weight)),
        *((items["features"], x.beta), (items["bias"], x.item_bias)),
    ):
        assert_same(found, wanted, 1e-7)
    assert (fitted.intercept, fitted.globalGamma) == pytest.approx((x.intercept, x.gamma), rel=1e-7)
    names = ["prediction", "preference", "confounder"]
    score, liked, drawn = scores_of(fitted.predictParts(all_pairs(spark)), names)
    assert_same(score, expected, 1e-7)
    p, q = covariates_of(posterior, kind)
    if p is not None and q is not None:
        of_gamma = of_gamma + x.kappa[:, :2] @ q[:, :2].T + p[:, :2] @ x.rho[:, :2].T
        table = by_id(fitted.tables()[0].drop("idx"))
        assert_same(table["slopes"], x.kappa, 1e-7)
        assert_same(table["covariates"], p, 1e-9)
    assert_same(drawn, of_gamma, 1e-7)
    assert_same(score, liked + drawn + fitted.intercept, 1e-12)
    ranked = fitted.recommendationTable(2).orderBy("user_id", "rank").collect()
    best = np.argsort(-expected, axis=1)[:, :2]
    assert [row.item_id for row in ranked] == [NAMES.items[i] for row in best for i in row]
    assert_same(np.array([row.score for row in ranked]), np.take_along_axis(expected, best, 1).ravel(), 1e-7)
    by_item = fitted.recommendForAllItems(1).collect()
    assert {r.item: r.recommendations[0].user for r in by_item} == {
        item: NAMES.users[expected[:, i].argmax()] for i, item in enumerate(NAMES.items)
    }


def test_one_process_finds_the_same(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel, kind: str
) -> None:
    (s_u, r_u), (s_i, r_i) = Posterior.of(stage_one)
    first = Exposure(s_u / r_u, s_i / r_i, (), r_u, r_i)
    user, item = np.nonzero(OBSERVED)
    ratings = Ratings(user, item, NAMES.ratings[user, item], *NAMES.keys(spark))
    features = (USER_FEATURES.copy(), ITEM_FEATURES) if "features" in kind else (None, None)
    if features[0] is not None:
        features[0][NAMES.users.index(WITHOUT)] = np.nan
    here: Outcome = fit_outcome(ratings, outcome(**KINDS[kind]), first, features=features)
    np.testing.assert_allclose(here.objective, fitted.objectiveHistory, rtol=1e-9)
    everyone = np.nonzero(np.ones(OBSERVED.shape))
    expected = scores_of(fitted.transform(all_pairs(spark)), ["prediction"])[0]
    assert_same(here.scores(*everyone), expected.ravel(), 1e-7)


def test_it_is_saved_folded_into_explained_and_started_from(
    spark: SparkSession, stage_one: PoissonFactorizationModel, fitted: DeconfoundedMFModel, kind: str, tmp_path: Path
) -> None:
    ratings, some = NAMES.frame(spark), ["zoë", "🦊"]
    pairs = all_pairs(spark).where(F.col("user").isin(some))
    fitted.save(str(tmp_path / "model"))
    loaded = DeconfoundedMFModel.load(str(tmp_path / "model"))
    assert loaded.facts == fitted.facts
    before = {(r.user, r.item): r.prediction for r in fitted.transform(pairs).collect()}
    assert {(r.user, r.item): r.prediction for r in loaded.transform(pairs).collect()} == before
    features = feature_frames(spark)[0] if "features" in kind else None
    folded = loaded.foldInUsers(ratings.where(F.col("user").isin(some)), features)
    served = {(r.user, r.item): r.prediction for r in loaded.withUsers(folded).transform(pairs).collect()}
    assert served == pytest.approx(before, rel=1e-6)
    explained = loaded.explain(pairs, ratings, n=2).collect()
    assert len(explained) == len(before)
    for row in explained:
        named = sum(reason.contribution for reason in row.reasons)
        parts = row.user_bias, row.item_bias, row.features, row.baseline, named, row.others
        assert (row.composition != 0) == ("factors" in kind)
        assert (row.features != 0) == ("features" in kind)
        assert row.preference == pytest.approx(sum(parts), rel=1e-9, abs=1e-9)
        assert row.score == pytest.approx(row.preference + row.confounder + row.intercept, rel=1e-12)
        assert row.score == pytest.approx(before[row.user_id, row.item_id], rel=1e-6)
        assert row.user_bias != 0
    warm = estimator(spark, kind, maxIter=1, exposureModel=stage_one, initialModel=fitted).fit(ratings)
    assert warm.objectiveHistory[0] < fitted.objectiveHistory[-1]
    with pytest.raises(ConfigError, match=r"fitBiases=True \(here False\)"):
        outcome(outcome=KINDS[kind]["outcome"], exposureModel=stage_one, initialModel=fitted).fit(ratings)
    for model in (warm, loaded):
        model.release()
    folded.unpersist()


def test_what_can_t_be_is_refused(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    for settings, message in (
        ({"outcome": "poisson", "confounderWeight": "pooled"}, "confounderWeight=pooled with outcome=poisson"),
        ({"outcome": "poisson", "fitBiases": True}, "fitBiases=True with outcome=poisson"),
        ({"outcome": "weighted", "confounderLink": "log"}, "confounderLink=log with unobservedWeight=1"),
        ({"confounder": "factors", "confounderLink": "log"}, "confounderLink=log with confounder=factors"),
    ):
        with pytest.raises(ConfigError, match=message):
            outcome(**settings, exposureModel=stage_one).fit(NAMES.frame(spark))
