"""Small tables of a run, with everything in them that warehouses stumble over."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType

from dcrec_spark.publish import schemas

RUN_DATE = date(2026, 11, 20)
# Quotes of every kind, a backslash, a comma in braces, an emoji, blanks, no letter at all.
ALL = ("recommendations", "item_factors", "runs")
IDS = ("ada", "o'hara", 'say "hi"', "back\\slash", "{a,b}", "naïve 🎬", " blank ", "-")


def tables_of(
    spark: SparkSession, run_id: str, users: int = len(IDS), names: Sequence[str] = ALL
) -> dict[str, DataFrame]:
    """The tables of one run that ``names`` names; fewer ``users`` make smaller ones."""
    stamp = ("model-1", run_id, RUN_DATE)
    lists = [
        (user, rank, 2**40 + rank, 1 / (rank + number), -0.0, 1e-300, *stamp)
        for number, user in enumerate(IDS[:users])
        for rank in (1, 2)
    ]
    factors = [
        (7, [0.1, 2.0**-1074], None, [], [], None, [3.5], *stamp),
        (2**40, [0.0, -1e300], -0.25, [0.5], [-1.0], [1.0], None, *stamp),
    ]
    now = datetime(2026, 11, 20, 2, 15, 0, 123456, UTC)
    row = (
        run_id, RUN_DATE, "nightly", "published", 0, None, now, now, "model-1", "hash", None, '{"a": 1}',
        {"users": users}, {"fit": 1.5}, {"python": "3.11"}, ["it's", 'a "warning"', ""], {"intercept": 3.5},
    )  # fmt: skip
    tables = {
        "recommendations": spark.createDataFrame(lists, schemas.recommendations(StringType(), LongType())),
        "item_factors": spark.createDataFrame(factors, schemas.factors("item", LongType())),
        "runs": spark.createDataFrame([row], schemas.RUNS),
    }
    return {name: tables[name] for name in names}


def record(run_id: str) -> Mapping[str, object]:
    return {"run_id": run_id, "run_date": RUN_DATE, "status": "published", "loss": float("nan")}
