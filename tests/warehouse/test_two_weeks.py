"""Two weeks end to end: what goes wrong is refused or mended, and readers find whole tables all the time."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.publish.server import Server
from tests.warehouse.readers import Look, Reader, look_of, read_directory, read_iceberg, read_postgresql, rows_of
from tests.warehouse.two_weeks import KEEP, Shop, two_weeks
from tests.warehouse.two_weeks_page import page

pytestmark = [pytest.mark.warehouse, pytest.mark.long]

# The page of the documentation is written where this says: make two-weeks.
PAGE = "DCREC_TWO_WEEKS"


class Story:
    def __init__(self, shop: Shop, readers: list[Reader], listed: str) -> None:
        self.shop, self.readers, self.listed = shop, readers, listed
        self.nights = {(night.day.day, night.what.split(",")[0].split(";")[0]): night for night in shop.nights}


@pytest.fixture(scope="module")
def story(spark: SparkSession, scratch: Path, postgresql: str) -> Iterator[Story]:
    shop = Shop.opened(spark, scratch, postgresql)
    connection = Server.open(postgresql, "publisher", None, "test").connect("test")
    readers = [
        Reader("directory", partial(read_directory, shop.output)),
        Reader("Iceberg", partial(read_iceberg, scratch, "shop.recommendations")),
        Reader("PostgreSQL", partial(read_postgresql, connection, "shop.recommendations")),
    ]
    for reader in readers:
        reader.start()
    try:
        two_weeks(shop)
    finally:
        for reader in readers:
            reader.stop()
    made = Story(shop, readers, shop.listed())
    if os.environ.get(PAGE):
        Path(os.environ[PAGE]).write_text(page(shop, readers, made.listed), encoding="utf-8")
    yield made
    connection.close()


def test_every_command_ended_as_it_should(story: Story) -> None:
    codes = [(night.day.day, night.code) for night in story.shop.nights]
    expected = [(1, 0), (2, 0), (3, 0), (4, 3), (5, 0), (6, 4), (7, 0), (7, 5), (8, 0), (9, -9), (9, 0), (10, 0),
                (4, 0), (10, 0), (11, 0), (12, 0), (12, 0), (13, 0), (14, 0)]  # fmt: skip
    assert codes == expected, [night for night in story.shop.nights if night.said]
    said = {night.code: night.said for night in story.shop.nights if night.said}
    assert "rows are bad" in said[3]
    assert "setting audit.max_loss=0.3" in said[4]
    assert "was not published" in said[5]


def test_refused_nights_leave_yesterdays_lists(story: Story) -> None:
    nights = story.shop.nights
    assert nights[3].served == nights[2].served
    assert nights[5].served == nights[4].served
    assert nights[-3].served == nights[-5].served  # rolled back to the run of the day before


def test_readers_saw_whole_tables_only_and_many(story: Story) -> None:
    """Each look is one run's rows, as many as that run has; the killed run's are those of the run after it."""
    whole: set[Look] = set()
    for night in story.shop.nights:
        for run in story.shop.output.glob(f"run_id={night.run_id}"):
            whole.add(look_of(rows_of(pq.read_table(run / "recommendations", partitioning=None))))
    lists = {(look.rows, look.lists) for look in whole}
    for reader in story.readers:
        assert len(reader.looks) > 50
        assert [look for look in reader.looks if len(look.run_ids) != 1] == []
        held = {run_id for look in whole for run_id in look.run_ids}
        of_held = [look for look in reader.looks if look.run_ids <= held]
        assert set(of_held) <= whole
        assert len({(look.run_ids, look.rows, look.lists) for look in reader.looks}) == len(
            {look.run_ids for look in reader.looks}
        ), "a run looked different from one look to the next"
    iceberg = {run_id for look in story.readers[1].looks for run_id in look.run_ids}
    directory = {run_id for look in story.readers[0].looks for run_id in look.run_ids}
    killed = iceberg - directory - {night.run_id for night in story.shop.nights}
    seen = {(look.rows, look.lists) for look in story.readers[1].looks if look.run_ids <= killed}
    assert seen <= lists


def test_old_runs_have_expired_and_all_places_are_on_the_last_run(story: Story) -> None:
    lines = [line.split() for line in story.listed.splitlines()[1:]]
    assert lines[0][2:] == ["current"] * 3
    assert lines[0][0] == story.shop.nights[-1].run_id
    assert len(list(story.shop.output.glob("run_id=*"))) == KEEP
    assert len(lines) <= KEEP + 3  # a run more in the warehouses, which clear up as they are staged; the killed one


def test_the_record_names_the_snapshot_that_was_read(story: Story, spark: SparkSession) -> None:
    record = story.shop.record()
    known = {str(row[0]) for row in spark.sql("SELECT snapshot_id FROM sea.events.ratings.snapshots").collect()}
    assert record["input_snapshot"] in known
    assert record["run_date"] == "2026-11-14"
    backfilled = [night for night in story.shop.nights if night.what.startswith("backfill")]
    assert backfilled[0].code == 0
