"""The predictive check on Spark is that of the kernels, and says what is wrong with its input."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import PoissonFactorizationModel, PredictiveCheck
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.predictive import Factors, HeldOut, check_users
from dcrec_spark.models.exposure import predictive_check
from tests.frames import frame_of
from tests.kernels.test_predictive import pairs
from tests.models.data_sets import NAMES, cached, exposure
from tests.reference.poisson import Array, Priors
from tests.simulated_exposures import COMMON, SHARE, Split, drawn, posterior, split


def fit(
    spark: SparkSession, training: Array, counted: bool = True, priors: Priors = COMMON, sweeps: int = 60
) -> PoissonFactorizationModel:
    """A model of rank 3 with ids such as 'u3' and 5; users and items without exposures are not in it."""
    users, items = np.flatnonzero(training.sum(axis=1)), np.flatnonzero(training.sum(axis=0))
    user_side, item_side = posterior(training[np.ix_(users, items)], 3, priors, sweeps)

    def frame(ids: list[Any], kind: str, shape: Array, rate: Array) -> DataFrame:
        rows = list(zip(ids, shape.tolist(), rate.tolist(), strict=True))
        return frame_of(spark, rows, f"id {kind}, shape array<double>, rate array<double>").coalesce(2)

    sides = frame([f"u{u}" for u in users], "string", *user_side), frame(items.tolist(), "long", *item_side)
    settings = {"shapePrior": priors.user_shape, "countCol": "count" if counted else None}
    return PoissonFactorizationModel(*sides, [])._set(userCol="user", itemCol="item", **settings)


def exposures_of(spark: SparkSession, tables: Split, seed: int = 0, partitions: int = 3) -> DataFrame:
    u, i = np.nonzero(tables.training + tables.held_out)
    order = np.random.default_rng(seed).permutation(len(u))
    u, i = u[order], i[order]
    numbers = (tables.training + tables.held_out)[u, i].astype(int).tolist(), tables.held_out[u, i].tolist()
    rows = list(zip([f"u{user}" for user in u], i.tolist(), *numbers, strict=True))
    schema = "user string, item long, count long, held_out double"
    return frame_of(spark, rows, schema).withColumn("held_out_share", F.lit(SHARE)).repartition(partitions)


class Problem(NamedTuple):
    model: PoissonFactorizationModel
    exposures: DataFrame


@pytest.fixture(scope="module")
def counts(spark: SparkSession) -> Problem:
    tables = split(drawn(1), 1)
    return Problem(fit(spark, tables.training), exposures_of(spark, tables))


@pytest.fixture(scope="module")
def whole(counts: Problem) -> Iterator[PredictiveCheck]:
    found = counts.model.predictiveCheck(counts.exposures, replications=25, seed=4)
    yield found
    found.release()


def users_of(check: PredictiveCheck) -> dict[str, tuple[Any, ...]]:
    return {row.id: (row.p_value, row.n, row.log_likelihood) for row in check.users.collect()}


def test_is_the_kernels_answer(counts: Problem, whole: PredictiveCheck) -> None:
    """By id: Spark adds nothing but the way there and back. What passes and what fails: tests/kernels."""
    assert whole.verdict == "exposures look like draws from the model, which does not say that the rank is right"
    tables, sides = split(drawn(1), 1), []
    for frame in (counts.model.userFactors, counts.model.itemFactors):
        rows = frame.withColumn("key", F.xxhash64(F.col("id").cast("string"))).orderBy("id").collect()
        columns = (np.array([row[c] for row in rows]) for c in ("key", "shape", "rate"))
        sides.append(([row.id for row in rows], Factors(*columns)))
    (users, user_factors), (items, item_factors) = sides
    at = np.ix_([int(user[1:]) for user in users], items)
    both = pairs(tables.training[at]), pairs(tables.held_out[at])
    expected = check_users(*both, user_factors, item_factors, HeldOut(SHARE, True), 25, 4)
    by_user = users_of(whole)
    assert whole.meanUserPValue == pytest.approx(np.mean(expected.p_value))
    assert sorted(by_user) == users
    np.testing.assert_array_equal([by_user[user][0] for user in users], expected.p_value)
    np.testing.assert_allclose([by_user[user][2] for user in users], expected.log_likelihood[0], rtol=1e-12)
    np.testing.assert_allclose(whole.replicated, expected.log_likelihood[1:].sum(axis=1), rtol=1e-12)
    assert whole.logLikelihood == pytest.approx(expected.log_likelihood[0].sum())
    assert (whole.n, whole.numUsers) == (tables.held_out[at].sum(), len(users))
    assert sum(n for _, n, _ in by_user.values()) == whole.n
    assert sum(whole.histogram(7)) == whole.numUsers


def test_order_and_chunks_change_nothing(
    spark: SparkSession, counts: Problem, whole: PredictiveCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's p-value not by one bit, and the sums up to rounding. That others change nothing: tests/kernels."""
    monkeypatch.setattr(predictive_check, "CHUNK_PAIRS", 1500)
    other = counts.model.predictiveCheck(exposures_of(spark, split(drawn(1), 1), 9, 7), replications=25, seed=4)
    assert users_of(other) == users_of(whole)
    np.testing.assert_allclose(other.replicated, whole.replicated, rtol=1e-12)
    assert (other.pValue, other.spreadPValue) == (whole.pValue, whole.spreadPValue)
    other.release()


def test_an_estimator_holds_out_fits_and_checks_in_one_go(spark: SparkSession) -> None:
    """Ids of any kind come back; nothing stays behind but the users, until they are let go."""
    before = cached(spark)
    found = exposure(countCol="count").predictiveCheck(NAMES.frame(spark), share=0.3, replications=20)
    assert dict(found.users.dtypes) == {"id": "string", "p_value": "double", "n": "bigint", "log_likelihood": "double"}
    assert set(users_of(found)) <= set(NAMES.users)
    assert f"{found.n} held-out exposures of {found.numUsers} users, 20 replications" in found.summary
    found.release()
    assert cached(spark) == before


def test_a_model_that_has_seen_what_was_held_out_is_refused(spark: SparkSession, counts: Problem) -> None:
    tables = split(drawn(1), 1)
    seen = fit(spark, tables.training + tables.held_out, sweeps=2)
    with pytest.raises(DataError, match=r"users, such as 'u\d+', are in the model with other exposures"):
        seen.predictiveCheck(counts.exposures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"held_out": "0.0D"}, r"nothing was held out: \d+ rows"),
        (
            {"held_out": "if(user = 'u3', 99.0D, held_out)"},
            r"\d+ of \d+ rows cannot be used: expected two ids, held_out",
        ),
        ({"item": "if(user = 'u3', null, item)"}, r"\d+ of \d+ rows cannot be used: expected two ids"),
        ({"held_out_share": "if(user = 'u3', 0.1D, 0.2D)"}, "held_out_share goes from 0.1 to 0.2"),
        ({"item": "if(user = 'u3', item + 1000, item)"}, r"items, such as 1\d+, are not in the model"),
        ({"user": "concat(user, 'x')"}, r"\d+ users, such as 'u0x', are not in the model"),
    ],
)
def test_exposures_that_do_not_fit_the_model_are_named(counts: Problem, change: dict[str, str], message: str) -> None:
    changed = counts.exposures.withColumns({name: F.expr(value) for name, value in change.items()})
    with pytest.raises(DataError, match=message):
        counts.model.predictiveCheck(changed)


def test_exposures_that_were_not_split_and_too_few_replications_are_refused(counts: Problem) -> None:
    with pytest.raises(DataError, match=r"'held_out' is missing: .* hold_out_exposures"):
        counts.model.predictiveCheck(counts.exposures.drop("held_out"))
    with pytest.raises(ConfigError, match="item ids are string here and bigint in the given model: cast them alike"):
        counts.model.predictiveCheck(counts.exposures.withColumn("item", F.expr("cast(item as string)")))
    with pytest.raises(ConfigError, match="replications: found 5, expected a whole number >= 20"):
        PoissonFactorizationModel.predictiveCheck(counts.model, counts.exposures, replications=5)


def test_who_lost_everything_is_left_out(spark: SparkSession) -> None:
    tables = split(drawn(2, COMMON, 30, 20), 2)
    tables.training[4], tables.training[:, 7] = 0.0, 0.0
    tables.held_out[4, 3], tables.held_out[5, 7] = 2.0, 3.0
    model = fit(spark, tables.training, sweeps=5)
    found = model.predictiveCheck(exposures_of(spark, tables), replications=20)
    assert found.numUsers == model.userFactors.count()
    assert "u4" not in users_of(found)
    assert users_of(found)["u5"][1] == tables.held_out[5].sum() - 3.0
    found.release()
