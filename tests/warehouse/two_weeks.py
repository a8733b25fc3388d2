"""Two weeks of a shop: every night new ratings and a retraining, and on some nights something goes wrong.

One Iceberg table of ratings, read as of a snapshot. Three places to publish to: a directory, Iceberg and PostgreSQL.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.several import Several
from tests.jobs.job import SMALL
from tests.warehouse.commands import dcrec_with, killed_before, settings_file, started

FIRST_DAY = date(2026, 11, 1)
USERS, ITEMS, TASTES, LENGTH, KEEP = 100, 60, 6, 5, 8
RATINGS = "sea.events.ratings"
# All is staged, and the commit waits until the other scheduler's run is staged, too.
SECOND_SCHEDULER = """
import pathlib, time
from dcrec_spark.publish.several import Several
commit, folder = Several.commit, pathlib.Path({folder!r})
def waiting(*given):
    (folder / "second is staged").touch()
    while not (folder / "first is staged").exists():
        time.sleep(0.05)
    return commit(*given)
Several.commit = waiting
"""


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
    commands: list[Command] = field(default_factory=list)
    snapshots: dict[date, str] = field(default_factory=dict)

    @classmethod
    def opened(cls, spark: SparkSession, scratch: Path, url: str) -> "Shop":
        config = settings_file(
            scratch,
            "shop",
            None,
            {**SMALL, "outcome.rank": TASTES, "outcome.max_iter": 10, "outcome.alpha": 1, "recommend.top_n": LENGTH},
            input={"format": "table", "table": RATINGS},
            output={"path": str(scratch / "shop"), "keep": KEEP},
            warehouses={"iceberg": "sea.shop", "postgresql": {"url": url, "user": "publisher", "namespace": "shop"}},
            audit={"held_out_share": 0.2, "max_below_popularity": None, "max_loss": 0.3, "max_volume_fall": 0.2},
            evaluation={"relevant_from": 4},
        )
        spark.sql("CREATE NAMESPACE IF NOT EXISTS sea.events")
        spark.sql(f"CREATE TABLE {RATINGS} (user BIGINT, item BIGINT, rating DOUBLE, day DATE) USING iceberg")
        return cls(spark, scratch, scratch / "shop", config)

    def ratings_come_in(self, day: date, broken: int = 0) -> None:
        """Add those of one day: each user likes a sixth of the items; a new user comes every day."""
        number = (day - FIRST_DAY).days
        rng = np.random.default_rng(number)
        rows = [(USERS + number, int(item)) for item in rng.choice(ITEMS, 20, replace=False)]
        rows += [(int(u), int(i)) for u, i in rng.integers(0, (USERS, ITEMS), (80, 2))]
        if number == 0:
            rows += [(user, int(item)) for user in range(USERS) for item in rng.choice(ITEMS, 24, replace=False)]
        known = {(r["user"], r["item"]) for r in self.spark.table(RATINGS).select("user", "item").collect()}
        fresh = [
            (user, item, 5.0 if (user + item) % TASTES == 0 else 1.0, day) for user, item in sorted(set(rows) - known)
        ]
        bad = [(user, item, float("nan"), day) for user in range(500, 500 + broken) for item in range(4)]
        self.spark.createDataFrame(fresh + bad, "user long, item long, rating double, day date").writeTo(
            RATINGS
        ).append()

    def mend(self, day: date) -> None:
        self.spark.sql(f"DELETE FROM {RATINGS} WHERE isnan(rating)")
        heads = self.spark.sql(f"SELECT snapshot_id FROM {RATINGS}.refs WHERE name = 'main'").collect()
        self.snapshots[day] = str(heads[0][0])

    def command(self, day: date, *options: object) -> list[object]:
        return ["retrain", "--config", self.config, "--set", f"run.run_date={day}", *options]

    def retrain(self, day: date, what: str, *options: object) -> None:
        self.note(day, what, self.command(day, *options))

    def back_to(self, run_id: str, day: date, what: str) -> None:
        self.note(day, what, ["rollback", run_id, "--config", self.config])

    def note(self, day: date, what: str, command: list[object]) -> None:
        before = self.served()
        result = dcrec_with(*command)
        self.add(day, what, result.exit_code, result.stderr, before)

    def add(self, day: date, what: str, code: int, errors: str, before: str | None) -> None:
        after = self.served()
        said = last_words(errors) if code else ""
        self.commands.append(Command(day, what, code, said, after if after != before else None, after))

    def served(self) -> str | None:
        """The run that readers of the directory find."""
        return current_run_id(str(self.output))


def two_weeks(shop: Shop) -> None:
    days = [FIRST_DAY + timedelta(number) for number in range(14)]
    special = {3: _broken_data, 5: _worse_model, 6: _two_schedulers, 8: _killed}
    for number, day in enumerate(days):
        if number in special:
            special[number](shop, day)
        else:
            shop.ratings_come_in(day)
            shop.retrain(day, "retrain")
        if number == 9:
            newest = str(shop.served())
            shop.retrain(days[3], f"backfill of {days[3]}", "--set", f"input.snapshot={shop.snapshots[days[3]]}",
                         "--set", "audit.max_volume_fall=null")  # fmt: skip
            shop.back_to(newest, day, f"rollback to the newest run, of {day}")
        if number == 11:
            previous = shop.commands[-2].run_id
            shop.back_to(str(previous), day, f"rollback to the run of {days[10]}: the shop does not like the new lists")


def _broken_data(shop: Shop, day: date) -> None:
    shop.ratings_come_in(day, broken=60)
    shop.retrain(day, "retrain; an export of 240 ratings without values came in")
    shop.mend(day)


def _worse_model(shop: Shop, day: date) -> None:
    shop.ratings_come_in(day)
    shop.retrain(day, "retrain, with one factor only", "--set", "outcome.rank=1", "--set", "outcome.alpha=0")


def _two_schedulers(shop: Shop, day: date) -> None:
    """Both have staged before either commits; the second one goes first."""
    shop.ratings_come_in(day)
    before = shop.served()
    second = started(shop.command(day), SECOND_SCHEDULER.format(folder=str(shop.scratch)))
    with _after_the_second(shop, second):
        first = dcrec_with(*shop.command(day))
    _, errors = second.communicate(timeout=600)
    shop.add(day, "retrain, started by a second scheduler", second.returncode, errors, before)
    shop.add(day, "retrain, started by the first scheduler at the same time", first.exit_code, first.stderr,
             shop.served())  # fmt: skip


@contextmanager
def _after_the_second(shop: Shop, second: Any) -> Iterator[None]:
    """Have this process commit when it has staged, and the second process has committed."""
    commit = Several.commit

    def waiting(*given: Any) -> str:
        while not (shop.scratch / "second is staged").exists():
            assert second.poll() is None, second.stderr.read()
            time.sleep(0.05)
        (shop.scratch / "first is staged").touch()
        second.wait(timeout=600)
        return commit(*given)

    Several.commit = waiting  # type: ignore[method-assign]
    try:
        yield
    finally:
        Several.commit = commit  # type: ignore[method-assign]


def _killed(shop: Shop, day: date) -> None:
    shop.ratings_come_in(day)
    before = shop.served()
    killed_before("PostgresqlWarehouse", shop.command(day))
    shop.add(day, "retrain, killed between Iceberg and PostgreSQL", -signal.SIGKILL, "killed", before)
    shop.retrain(day, "the same command again")


def last_words(errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.startswith("{")]
    return str(json.loads(lines[-1]).get("event", "")) if lines else errors[-500:]
