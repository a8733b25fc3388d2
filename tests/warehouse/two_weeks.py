"""Two weeks of a shop: every night new ratings and a retraining, and on some nights something goes wrong."""

import json
import signal
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from tests.jobs.job import SMALL, options_of
from tests.spark.standalone import wait_for
from tests.warehouse.commands import dcrec_with, killed, settings_file, started
from tests.warehouse.servers import Postgresql

FIRST_DAY = date(2026, 11, 1)
USERS, ITEMS, TASTES, LENGTH, KEEP = 100, 60, 6, 5, 8
RATINGS = "sea.events.ratings"
# Waits with the ratings that it has read, until another run has published.
ON_OLD_RATINGS = """
import pathlib, time
from dcrec_spark.jobs.retrain import Retrain
transform, folder = Retrain.transform, pathlib.Path({folder!r})
def waiting(*given):
    (folder / "first has read").touch()
    while not (folder / "second is done").exists():
        time.sleep(0.05)
    return transform(*given)
Retrain.transform = waiting
"""


def item_id(number: int) -> str:
    """Half of the ids are those of the other half with a zero in front: 7 and 07."""
    return str(number) if number < ITEMS // 2 else f"0{number - ITEMS // 2}"


class Command(NamedTuple):
    """What the scheduler saw of one command. served : the run that readers of the directory find afterwards."""

    day: date
    what: str
    code: int
    said: str
    run_id: str | None
    served: str | None


@dataclass
class Shop:
    spark: SparkSession
    scratch: Path
    output: Path
    config: Path
    database: Postgresql
    commands: list[Command] = field(default_factory=list)

    @classmethod
    def opened(cls, spark: SparkSession, scratch: Path, database: Postgresql) -> "Shop":
        config = settings_file(
            scratch,
            "shop",
            None,
            {**SMALL, "outcome.rank": TASTES, "outcome.max_iter": 10, "outcome.alpha": 1, "recommend.top_n": LENGTH},
            input={"format": "table", "table": RATINGS, "columns": {"timestamp": "day"}, "id_type": "string"},
            output={"path": str(scratch / "shop"), "keep": KEEP},
            warehouses={
                "iceberg": "sea.shop",
                "postgresql": {"url": database.url, "user": "publisher", "namespace": "shop"},
            },
            audit={"held_out_share": 0.2, "max_below_popularity": None, "max_loss": 0.3, "max_volume_fall": 0.2},
            evaluation={"relevant_from": 4},
        )
        spark.sql("CREATE NAMESPACE IF NOT EXISTS sea.events")
        spark.sql(f"CREATE TABLE {RATINGS} (user STRING, item STRING, rating DOUBLE, day DATE) USING iceberg")
        return cls(spark, scratch, scratch / "shop", config, database)

    def ratings_come_in(self, day: date, column: str = "rating") -> None:
        """Add those of one day: each user likes a sixth of the items; a new user comes every day."""
        number = (day - FIRST_DAY).days
        rng = np.random.default_rng(number)
        rows = [(USERS + number, int(item)) for item in rng.choice(ITEMS, 20, replace=False)]
        rows += [(int(u), int(i)) for u, i in rng.integers(0, (USERS, ITEMS), (80, 2))]
        if number == 0:
            rows += [(user, int(item)) for user in range(USERS) for item in rng.choice(ITEMS, 24, replace=False)]
        known = {tuple(row) for row in self.spark.table(RATINGS).select("user", "item").collect()}
        fresh = [
            (str(user), item_id(item), 5.0 if (user + item) % TASTES == 0 else 1.0, day)
            for user, item in sorted(set(rows))
            if (str(user), item_id(item)) not in known
        ]
        ratings = self.spark.createDataFrame(fresh, f"user string, item string, {column} double, day date")
        if column != "rating":
            self.spark.sql(f"ALTER TABLE {RATINGS} ADD COLUMN {column} DOUBLE")
            ratings = ratings.withColumn("rating", F.lit(None).cast("double"))
        ratings.writeTo(RATINGS).append()

    def command(self, day: date, *options: object) -> list[object]:
        return ["retrain", "--config", self.config, "--set", f"run.run_date={day}", *options]

    def retrain(self, day: date, what: str, *options: object) -> None:
        self.run(day, what, self.command(day, *options))

    def back_to(self, run_id: str | None, day: date, what: str) -> None:
        self.run(day, what, ["rollback", str(run_id), "--config", self.config])

    def run(self, day: date, what: str, command: list[object]) -> None:
        result = dcrec_with(*command)
        self.note(day, what, result.exit_code, result.stderr)

    def note(self, day: date, what: str, code: int, errors: str) -> None:
        before, after = self.served(), current_run_id(str(self.output))
        said, made = last_words(errors) if code else "", after if after != before else None
        self.commands.append(Command(day, what, code, said, made, after))

    def served(self) -> str | None:
        return self.commands[-1].served if self.commands else None


def two_weeks(shop: Shop) -> None:
    days = [FIRST_DAY + timedelta(number) for number in range(14)]
    special = {3: _renamed_column, 5: _worse_model, 6: _two_schedulers, 8: _killed, 10: _folders, 12: _no_database}
    for number, day in enumerate(days):
        if number not in (3, 6):
            shop.ratings_come_in(day)
        if number in special:
            special[number](shop, day)
        else:
            shop.retrain(day, "retrain")
        if number == 9:
            newest = shop.served()
            shop.retrain(days[3], f"backfill of {days[3]:%-d %B}", "--set", "audit.max_volume_fall=null")
            shop.back_to(newest, day, f"rollback to the newest run, of {day:%-d %B}")
        if number == 11:
            shop.back_to(
                shop.commands[-2].run_id,
                day,
                f"rollback to the run of {days[10]:%-d %B}: the shop does not like the new lists",
            )


def _renamed_column(shop: Shop, day: date) -> None:
    shop.ratings_come_in(day, column="stars")
    shop.retrain(day, "retrain; the column of today's ratings has another name, and history is good")
    shop.spark.sql(f"UPDATE {RATINGS} SET rating = stars WHERE rating IS NULL")
    shop.spark.sql(f"ALTER TABLE {RATINGS} DROP COLUMN stars")


def _worse_model(shop: Shop, day: date) -> None:
    shop.retrain(day, "retrain, with one factor only", "--set", "outcome.rank=1", "--set", "outcome.alpha=0")


def _two_schedulers(shop: Shop, day: date) -> None:
    """The first one reads the ratings of the day before, and is slow."""
    first = started(shop.command(day), ON_OLD_RATINGS.format(folder=str(shop.scratch)))

    def has_read() -> bool:
        assert first.poll() is None, first.communicate()
        return (shop.scratch / "first has read").exists()

    wait_for(has_read, lambda: "the first one reads", 900)
    shop.ratings_come_in(day)
    shop.retrain(day, "retrain, started by a second scheduler, on the ratings of today")
    (shop.scratch / "second is done").touch()
    _, errors = first.communicate(timeout=900)
    what = "retrain, started by the first scheduler earlier, on the ratings of yesterday"
    shop.note(day, what, first.returncode, errors)


def _folders(shop: Shop, day: date) -> None:
    """The ratings of each item are in a folder that is named after it: item=7 and item=07."""
    folder = shop.scratch / "exported"
    shop.spark.table(RATINGS).repartition(1).write.partitionBy("item").parquet(str(folder))
    exported = {"input.table": "null", "input.format": "parquet", "input.path": folder}
    shop.retrain(day, "retrain, from files in folders named after items", *options_of(exported))


def _no_database(shop: Shop, day: date) -> None:
    shop.database.stop(signal.SIGINT)
    shop.retrain(day, "retrain, while PostgreSQL is down")
    shop.database.start()
    shop.retrain(day, "the same command again")


def _killed(shop: Shop, day: date) -> None:
    killed(PostgresqlWarehouse, shop.command(day))
    shop.note(day, "retrain, killed between Iceberg and PostgreSQL", -signal.SIGKILL, "killed")
    shop.retrain(day, "the same command again")


def last_words(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.startswith("{")]
    return str(json.loads(lines[-1]).get("event", "")) if lines else errors[-500:]
