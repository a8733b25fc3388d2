"""The predictive check on Spark: passes on what the model can fit, fails on what it can't, and says what is wrong."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy import stats

from dcrec_spark import PoissonFactorizationModel, PredictiveCheck
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.predictive import Factors, HeldOut, check_users
from dcrec_spark.models.exposure import check_chunks
from tests.frames import frame_of
from tests.kernels.test_predictive import pairs
from tests.models.world import NAMES, cached, exposure
from tests.reference.poisson import Array, Priors
from tests.simulated_exposures import COMMON, RARE, SHARE, Split, drawn, posterior, split


def fit(
    spark: SparkSession, training: Array, counted: bool = True, priors: Priors = COMMON, sweeps: int = 60
) -> PoissonFactorizationModel:
    """A model of rank 3 with ids such as 'u3' and 5; users and items without exposures are not in it."""
    users, items = np.flatnonzero(training.sum(axis=1)), np.flatnonzero(training.sum(axis=0))
    user_side, item_side = posterior(training[np.ix_(users, items)], 3, priors, sweeps)

    def frame(ids: list[Any], kind: str, shape: Array, rate: Array) -> DataFrame:
        rows = list(zip(ids, shape.tolist(), rate.tolist(), strict=True))
        return frame_of(spark, rows, f"id {kind}, shape array<double>, rate array<double>").coalesce(2)

    model = PoissonFactorizationModel(
        frame([f"u{u}" for u in users], "string", *user_side), frame(items.tolist(), "long", *item_side), []
    )
    settings = {"shapePrior": priors.user_shape, "countCol": "count" if counted else None}
    return model._set(userCol="user", itemCol="item", **settings)


def exposures_of(spark: SparkSession, tables: Split, seed: int = 0, partitions: int = 3) -> DataFrame:
    """What hold_out_exposures would give, in the order that ``seed`` gives."""
    u, i = np.nonzero(tables.training + tables.held_out)
    order = np.random.default_rng(seed).permutation(len(u))
    columns = {
        "user": [f"u{user}" for user in u[order]],
        "item": i[order],
        "count": (tables.training + tables.held_out)[u, i][order].astype(int),
        "held_out": tables.held_out[u, i][order].astype(float),
    }
    rows = list(zip(*[np.asarray(c).tolist() for c in columns.values()], strict=True))
    schema = "user string, item long, count long, held_out double"
    return frame_of(spark, rows, schema).withColumn("held_out_share", F.lit(SHARE)).repartition(partitions)


class Problem(NamedTuple):
    """A fit and the exposures it is checked with."""

    model: PoissonFactorizationModel
    exposures: DataFrame


@pytest.fixture(scope="module")
def counts(spark: SparkSession) -> Problem:
    """Counts from the model, and its fit."""
    tables = split(drawn(1), 1)
    return Problem(fit(spark, tables.training), exposures_of(spark, tables))


@pytest.fixture(scope="module")
def whole(counts: Problem) -> Iterator[PredictiveCheck]:
    """That fit's check."""
    found = counts.model.predictiveCheck(counts.exposures, replications=25, seed=4)
    yield found
    found.release()


def users_of(check: PredictiveCheck) -> dict[str, tuple[Any, ...]]:
    return {row.id: (row.p_value, row.n, row.log_likelihood) for row in check.users.collect()}


# The verdict


def test_passes_on_counts_from_the_model(whole: PredictiveCheck) -> None:
    assert whole.passed
    assert whole.verdict == "exposures look like draws from the model"
    p_values = [p for p, *_ in users_of(whole).values()]
    assert stats.kstest(p_values, "uniform").pvalue > 0.02
    assert whole.meanUserPValue == pytest.approx(np.mean(p_values))


def test_passes_on_exposures_that_are_there_or_not(spark: SparkSession) -> None:
    """Without a column of counts, each row is one."""
    tables = split(np.minimum(drawn(1, RARE), 1.0), 1)
    found = fit(spark, tables.training, False, RARE).predictiveCheck(exposures_of(spark, tables).drop("count"))
    assert found.passed
    assert len(found.replicated) == 100
    found.release()


def test_fails_where_popularity_moved_after_training(spark: SparkSession, counts: Problem) -> None:
    training, held_out = split(drawn(1), 1)
    found = counts.model.predictiveCheck(exposures_of(spark, Split(training, held_out[:, ::-1])))
    assert found.pValue < 0.01
    assert found.logLikelihood < found.replicated.min()
    assert found.verdict == "far from the middle: do not trust a_hat"
    found.release()


# One answer, however it is asked


def test_is_the_kernels_answer(counts: Problem, whole: PredictiveCheck) -> None:
    """By id: Spark adds nothing but the way there and back."""
    tables, found = split(drawn(1), 1), whole
    factors = []
    for frame in (counts.model.userFactors, counts.model.itemFactors):
        rows = frame.withColumn("key", F.xxhash64(F.col("id").cast("string"))).orderBy("id").collect()
        factors.append((rows, Factors(*(np.array([row[c] for row in rows]) for c in ("key", "shape", "rate")))))
    (users, user_factors), (items, item_factors) = factors
    at = np.ix_([int(row.id[1:]) for row in users], [row.id for row in items])
    expected = check_users(
        pairs(tables.training[at]), pairs(tables.held_out[at]), user_factors, item_factors, HeldOut(SHARE, True), 25, 4
    )
    by_user = users_of(found)
    assert set(by_user) == {row.id for row in users}
    np.testing.assert_array_equal([by_user[row.id][0] for row in users], expected.p_value)
    np.testing.assert_allclose([by_user[row.id][2] for row in users], expected.log_likelihood[0], rtol=1e-12)
    np.testing.assert_allclose(found.replicated, expected.log_likelihood[1:].sum(axis=1), rtol=1e-12)
    assert found.logLikelihood == pytest.approx(expected.log_likelihood[0].sum())
    assert (found.n, found.numUsers) == (tables.held_out[at].sum(), len(users))
    assert sum(n for _, n, _ in by_user.values()) == found.n
    assert sum(found.histogram(7)) == found.numUsers


def test_order_partitions_and_chunks_change_nothing(
    spark: SparkSession, counts: Problem, whole: PredictiveCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's p-value not by one bit, and the sums up to rounding."""
    monkeypatch.setattr(check_chunks, "CHUNK_PAIRS", 1500)
    other = counts.model.predictiveCheck(exposures_of(spark, split(drawn(1), 1), 9, 7), replications=25, seed=4)
    assert users_of(other) == users_of(whole)
    np.testing.assert_allclose(other.replicated, whole.replicated, rtol=1e-12)
    assert (other.pValue, other.spreadPValue) == (whole.pValue, whole.spreadPValue)
    other.release()


def test_some_of_the_users_have_the_p_values_they_had_among_all(counts: Problem, whole: PredictiveCheck) -> None:
    some = counts.exposures.where("user in ('u3', 'u50')")
    few = counts.model.predictiveCheck(some, replications=25, seed=4)
    assert users_of(few) == {u: found for u, found in users_of(whole).items() if u in ("u3", "u50")}
    few.release()


def test_who_lost_everything_is_left_out(spark: SparkSession) -> None:
    """A user and an item that training has never seen, and that the model does not know."""
    tables = split(drawn(2, COMMON, 30, 20), 2)
    tables.training[4], tables.training[:, 7] = 0.0, 0.0
    tables.held_out[4, 3], tables.held_out[5, 7] = 2.0, 3.0
    model = fit(spark, tables.training, sweeps=5)
    found = model.predictiveCheck(exposures_of(spark, tables), replications=20)
    assert found.numUsers == model.userFactors.count()
    assert "u4" not in users_of(found)
    assert users_of(found)["u5"][1] == tables.held_out[5].sum() - 3.0
    found.release()


def test_an_estimator_holds_out_fits_and_checks_in_one_go(spark: SparkSession) -> None:
    """Ids of any kind come back; nothing stays behind but the users, until they are let go."""
    before = cached(spark)
    found = exposure(countCol="count").predictiveCheck(NAMES.frame(spark), share=0.3, replications=20)
    assert dict(found.users.dtypes) == {"id": "string", "p_value": "double", "n": "bigint", "log_likelihood": "double"}
    assert set(users_of(found)) <= set(NAMES.users)
    assert f"{found.n} held-out exposures of {found.numUsers} users, 20 replications" in found.summary
    found.release()
    assert cached(spark) == before


# What is refused


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
        ({"held_out": "held_out / 2"}, "a whole number from 0 to count"),
        ({"item": "if(user = 'u3', null, item)"}, r"\d+ of \d+ rows cannot be used: expected two ids"),
        ({"held_out_share": "if(user = 'u3', 0.1D, 0.2D)"}, "held_out_share goes from 0.1 to 0.2"),
        ({"item": "if(user = 'u3', item + 1000, item)"}, r"items, such as 1\d+, are not in the model"),
        ({"user": "concat(user, 'x')"}, r"\d+ users, such as 'u0x', are not in the model"),
        ({"item": "cast(item as string)"}, "'item' is string, but the model's item ids are bigint"),
    ],
)
def test_exposures_that_do_not_fit_the_model_are_named(counts: Problem, change: dict[str, str], message: str) -> None:
    changed = counts.exposures.withColumns({name: F.expr(value) for name, value in change.items()})
    with pytest.raises(DataError, match=message):
        counts.model.predictiveCheck(changed)


def test_exposures_that_were_not_split_and_too_few_replications_are_refused(counts: Problem) -> None:
    with pytest.raises(DataError, match=r"'held_out' is missing: .* hold_out_exposures"):
        counts.model.predictiveCheck(counts.exposures.drop("held_out"))
    with pytest.raises(ConfigError, match="replications: found 5, expected a whole number >= 20"):
        PoissonFactorizationModel.predictiveCheck(counts.model, counts.exposures, replications=5)
