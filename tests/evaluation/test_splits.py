"""Parts are disjoint and complete, have the shares they should, and depend on seed and ids alone."""

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.evaluation.splits import hold_out_users, is_held_out, split_by_time, split_pairs, split_within_users
from tests.frames import frame_of

SHARES = (0.6, 0.2, 0.2)
Split = Callable[[DataFrame], list[DataFrame]]
SPLITS: dict[str, Split] = {
    "pairs": lambda df: split_pairs(df, SHARES, seed=1),
    "within users": lambda df: split_within_users(df, SHARES, seed=1),
    "time": lambda df: split_by_time(df, SHARES),
    "time within users": lambda df: split_by_time(df, SHARES, within_users=True, seed=1),
    "users": lambda df: list(hold_out_users(df, 0.3, 0.5, seed=1)),
}
each_split = pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS.keys())


def ratings(spark: SparkSession, n_users: int = 40) -> DataFrame:
    """User u has u + 1 ratings; times come in pairs, one for each two consecutive rows."""
    pairs = spark.range(n_users).selectExpr("id user", "explode(sequence(0, id)) item")
    time = "timestamp_seconds((user * (user + 1) div 2 + item) div 2 * 1000) timestamp"
    return pairs.selectExpr("user", "item", "1.0D rating", time)


def all_pairs_of(parts: list[DataFrame]) -> list[set[tuple[int, int]]]:
    marked = [part.select("user", "item", F.lit(number).alias("part")) for number, part in enumerate(parts)]
    rows = reduce(DataFrame.unionAll, marked).collect()
    return [{(row.user, row.item) for row in rows if row.part == number} for number in range(len(parts))]


@each_split
def test_parts_are_disjoint_and_complete(spark: SparkSession, split: Split) -> None:
    parts = split(ratings(spark))
    found = all_pairs_of(parts)
    assert sum(map(len, found)) == 820
    assert set.union(*found) == {(user, item) for user in range(40) for item in range(user + 1)}
    assert all(found)
    assert all(part.columns == ["user", "item", "rating", "timestamp"] for part in parts)


@each_split
def test_partitions_order_and_type_of_ids_change_nothing(spark: SparkSession, split: Split) -> None:
    there = ratings(spark)
    shuffled = there.repartition(5, "item").orderBy(F.desc("item")).withColumn("user", F.col("user").cast("int"))
    assert all_pairs_of(split(shuffled)) == all_pairs_of(split(there))


def test_pairs_have_their_shares_in_expectation(spark: SparkSession) -> None:
    """Four standard deviations; and no part prefers an item or a user."""
    parts = all_pairs_of(split_pairs(ratings(spark, 120), SHARES))
    assert parts != all_pairs_of(split_pairs(ratings(spark, 120), SHARES, seed=2))
    for part, share in zip(parts, SHARES, strict=True):
        for condition, n in ((lambda u, i: True, 7260), (lambda u, i: i < 20, 2210), (lambda u, i: u < 60, 1830)):
            found = sum(condition(*pair) for pair in part) / n
            assert found == pytest.approx(share, abs=4 * (share * (1 - share) / n) ** 0.5)


@pytest.mark.parametrize("name", ["within users", "time within users"])
def test_each_user_has_exactly_his_shares(spark: SparkSession, name: str) -> None:
    """Of n ratings the first part has round(0.6 n), the first two round(0.8 n), halves rounded up."""
    counts = [Counter(user for user, _ in part) for part in all_pairs_of(SPLITS[name](ratings(spark)))]
    for user in range(40):
        n = user + 1
        first, both = int(n * 0.6 + 0.5), int(n * 0.8 + 0.5)
        assert [count[user] for count in counts] == [first, both - first, n - both]


def test_parts_follow_each_other_in_time(spark: SparkSession) -> None:
    """820 ratings, two for each moment: cut at the 492nd and the 656th, which begin a moment. Or user by user."""
    spans = [
        part.agg(F.count("*"), F.min("timestamp"), F.max("timestamp")).collect()[0]
        for part in SPLITS["time"](ratings(spark))
    ]
    assert [span[0] for span in spans] == [492, 164, 164]
    assert spans[0][2] < spans[1][1]
    assert spans[1][2] < spans[2][1]
    times: dict[int, list[list[float]]] = defaultdict(lambda: [[], [], []])
    for number, part in enumerate(SPLITS["time within users"](ratings(spark))):
        for row in part.collect():
            times[row.user][number].append(row.timestamp.timestamp())
    for parts in times.values():
        for earlier, later in ((0, 1), (1, 2)):
            assert max(parts[earlier], default=0) <= min(parts[later], default=2**40)


@pytest.mark.parametrize("time", ["at", "to_date(timestamp_seconds(at))"])
def test_equal_times_stay_together(spark: SparkSession, time: str) -> None:
    """Of ten ratings seven share a moment, the third to the ninth: the cut at half comes before it."""
    seconds = [-(10**9), 0, *[10**9] * 7, 2 * 10**9]
    frame = frame_of(spark, [(n, n, at) for n, at in enumerate(seconds)], "user long, item long, at long")
    parts = split_by_time(frame.withColumn("at", F.expr(time)), (0.5, 0.5), "at")
    assert [part.count() for part in parts] == [2, 8]


def test_held_out_users_are_not_in_training(spark: SparkSession) -> None:
    parts = all_pairs_of(list(hold_out_users(ratings(spark, 200), 0.3, fold_in=0.75, seed=5)))
    users = [{user for user, _ in part} for part in parts]
    assert not users[0] & (users[1] | users[2])
    assert len(users[1]) / 200 == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 200) ** 0.5)
    folded_in = Counter(user for user, _ in parts[1])
    assert all(folded_in[user] == int((user + 1) * 0.75 + 0.5) for user in users[1])
    (random_test,) = all_pairs_of([ratings(spark, 200).where(is_held_out("user", 0.3, seed=5))])
    assert {user for user, _ in random_test} == users[1]


def test_shares_and_times_that_cannot_be_used_are_refused(spark: SparkSession) -> None:
    there = ratings(spark)
    for shares in ((1.0,), (0.5, 0.4), (1.2, -0.2), ()):
        with pytest.raises(ConfigError, match="shares: found"):
            split_pairs(there, shares)
    with pytest.raises(ConfigError, match="shares: found"):
        hold_out_users(there, 1.0)
    with pytest.raises(DataError, match="column 'when' is missing"):
        split_by_time(there, SHARES, "when")
    with pytest.raises(DataError, match="column 'rating' is of type double, expected timestamps, dates or whole num"):
        split_by_time(there, SHARES, "rating")
    with pytest.raises(DataError, match="column 'timestamp' has 1 nulls in 820 rows"):
        split_by_time(there.withColumn("timestamp", F.when(F.expr("user + item > 0"), F.col("timestamp"))), SHARES)


@pytest.mark.parametrize("name", ["pairs", "within users", "time within users", "users"])
def test_other_users_change_nothing(spark: SparkSession, name: str) -> None:
    fewer = ratings(spark).where("user % 3 = 0")
    expected = [{pair for pair in part if pair[0] % 3 == 0} for part in all_pairs_of(SPLITS[name](ratings(spark)))]
    assert all_pairs_of(SPLITS[name](fewer)) == expected
