"""How fits begin and end: from a fitted model, and by held-out pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark import PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from tests.models.data_sets import (
    NAMES,
    NUMBERS,
    OUTCOME,
    OUTCOME_PRIORS,
    RATED,
    Posterior,
    by_id,
    dense_posterior,
    exposure,
    marked,
    outcome,
)
from tests.problems import assert_same
from tests.reference import poisson as dense


def test_poisson_warm_start_goes_on_from_posterior(spark: SparkSession, stage_one: PoissonFactorizationModel) -> None:
    """The dense reference's next sweep from the fitted shapes and rates, those of gamma and of the intercept too."""
    settings: dict[str, Any] = {"outcome": "poisson", "exposureModel": stage_one, "maxIter": 1}
    first = outcome(**settings).fit(NAMES.frame(spark))
    warm = outcome(**settings, initialModel=first).fit(NAMES.frame(spark))
    state, data = dense_posterior(first)
    state = dense.converged_users(dense.sweep(state, data, OUTCOME_PRIORS), data, OUTCOME_PRIORS)
    assert warm.objectiveHistory == pytest.approx([dense.elbo(state, data, OUTCOME_PRIORS)], rel=1e-7)


def test_new_ids_start_from_the_seed_and_known_ones_stay(spark: SparkSession) -> None:
    """Without iterations, the start is seen. The exposure model of the given model starts stage 1, set as it was."""
    data = NUMBERS.frame(spark)
    first = outcome(exposureModel=exposure(countCol="count")).fit(data)
    newcomers = data.withColumn("item", F.when(F.col("item") == 3, F.lit(4)).otherwise(F.col("item")))
    warm = outcome(initialModel=first, maxIter=0).fit(newcomers)
    tables = by_id(first.itemFactors), by_id(warm.itemFactors)
    before, after = (dict(zip(table["id"], table["features"], strict=True)) for table in tables)
    for item in after.keys() & before.keys():
        assert_same(after[item], before[item], 1e-12)
    assert np.abs(after[4]).max() < 0.5  # small noise, not a factor of the fit
    assert warm.exposureModel.elboHistory[0] > first.exposureModel.elboHistory[0]
    for name in ("rank", "countCol", "maxIter", "tol", "shapePrior", "ratePrior"):
        assert warm.exposureModel.getOrDefault(name) == first.exposureModel.getOrDefault(name), name
    assert warm.exposureModel.getOrDefault("seed") == OUTCOME["seed"]
    # A stage 1 of one's own has its own settings.
    own = exposure(maxIter=0, shapePrior=0.9)
    other = outcome(exposureModel=own, initialModel=first, maxIter=0).fit(data)
    ended = by_id(first.exposureModel.itemFactors)["shape"]
    np.testing.assert_array_equal(by_id(other.exposureModel.itemFactors)["shape"], ended)
    assert other.exposureModel.getOrDefault("shapePrior") == 0.9
    assert own.getOrDefault("initialModel") is None
    with pytest.raises(ConfigError, match="exposureRank=3, and the exposure model of initialModel has 2 factors"):
        outcome(initialModel=first, exposureRank=3).fit(data)
    with pytest.raises(ConfigError, match="has 2 exposure factors, and the exposure model's rank is 3"):
        outcome(initialModel=first, exposureModel=exposure(rank=3)).fit(data)


def test_a_start_of_another_kind_is_refused(spark: SparkSession) -> None:
    first = outcome(adjustment="none", maxIter=1).fit(NUMBERS.frame(spark))
    with pytest.raises(
        ConfigError, match=r"initialModel was fitted with rank=3 \(here 4\): a warm start needs the same"
    ):
        outcome(adjustment="none", rank=4, initialModel=first).fit(NUMBERS.frame(spark))
    with pytest.raises(ConfigError, match="outcome='weighted'"):
        outcome(adjustment="none", outcome="poisson", initialModel=first).fit(NUMBERS.frame(spark))
    with pytest.raises(ConfigError, match="user ids are string here and int in the given model: cast them alike"):
        outcome(adjustment="none", initialModel=first).fit(NAMES.frame(spark))
    stage_one = exposure(maxIter=1).fit(NUMBERS.frame(spark))
    with pytest.raises(TypeError, match=r"initialModel: found .*, expected a fitted DeconfoundedMFModel"):
        outcome(adjustment="none", initialModel=stage_one).fit(NUMBERS.frame(spark))


@pytest.mark.parametrize("settings", [{"outcome": "poisson"}, RATED], ids=["poisson", "all terms"])
def test_the_held_out_loss_is_that_of_the_dense_reference(spark: SparkSession, settings: dict[str, Any]) -> None:
    """After each sweep: mean squared error, or minus the Poisson log likelihood. Held-out pairs take no part.

    Fits over blocks have the same losses, as test_blocks.py and test_cluster_layout.py show.
    """
    data = marked(spark)
    estimator = outcome(**settings, validationIndicatorCol="held", patience=9)
    model = estimator.setExposureModel(exposure()).fit(data)
    held = NAMES.tables_of(NAMES.all_pairs(spark).join(data, ["user", "item"], "left"))["held"] == np.True_
    training = replace(NAMES, counts=NAMES.counts * ~held, ratings=NAMES.ratings * ~held)
    assert model.meanRating == pytest.approx(training.ratings[training.observed].mean())
    posterior, truth = Posterior.of(model.exposureModel), NAMES.ratings[held]
    losses = []
    for sweeps in range(1, len(model.objectiveHistory) + 1):
        m = training.reference(spark, settings, sweeps, posterior).swept[held]
        losses.append((m - truth * np.log(m) if settings["outcome"] == "poisson" else np.square(truth - m)).mean())
    np.testing.assert_allclose(model.validationHistory, losses, rtol=1e-6)
    folded = by_id(model.foldInUsers(data))
    assert_same(folded["features"], by_id(model.userFactors)["features"], 1e-8)


def test_a_fit_ends_when_the_held_out_loss_stops_falling_and_keeps_its_best(spark: SparkSession) -> None:
    """Without regularisation the training error falls for ever, and the held-out error does not."""
    free = {"regParam": 1e-3, "outcome": "probabilistic", "adjustment": "none"}
    estimator = outcome(**free, maxIter=40, patience=2, validationIndicatorCol="held")
    model = estimator.fit(marked(spark))
    losses = model.validationHistory
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 2 < 40
    assert model.converged
    stopped = outcome(**free, maxIter=best + 1, validationIndicatorCol="held").fit(marked(spark))
    assert not stopped.converged
    assert_same(by_id(model.itemFactors)["features"], by_id(stopped.itemFactors)["features"], 1e-9)
    assert_same(by_id(model.userFactors)["features"], by_id(stopped.userFactors)["features"], 1e-9)


def test_what_is_no_held_out_column_is_named(spark: SparkSession) -> None:
    data = NAMES.frame(spark)
    estimator = outcome(adjustment="none", validationIndicatorCol="held")
    with pytest.raises(DataError, match="column 'held' is missing"):
        estimator.fit(data)
    with pytest.raises(DataError, match="column 'held' is of type int, expected true or false"):
        estimator.fit(data.withColumn("held", F.lit(1)))
    with pytest.raises(DataError, match=r"all \d+ rows are held out"):
        estimator.fit(data.withColumn("held", F.lit(True)))
