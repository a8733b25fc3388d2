"""Hostile ratings through a whole job: the tables hold exactly the ids that came in, or an error names the file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dcrec_spark.jobs.retrain import Retrain
from tests.jobs.job import SMALL, names_in, publish, read_table, run_retrain

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]

ALIKE = ["café", "cafe\u0301", "café ", "cafe", "\u0441afe", "Cafe", "\u200bcafe", "cafe\0", "caf\0e", "\0cafe"]
FOR_SPREADSHEETS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3"]
FOR_SHELLS_AND_PAGES = ["../..", "/etc/passwd", "a/../a", ".", "%2e%2e", "<script>alert(1)</script>", "[bold]", "${x}"]
FOR_PARSERS = ['"', '""', "a,b", "a\nb", "a\r\nb", "null", "NaN", "\\N", "'; DROP TABLE x; --", "`", "\t", "\U0001f600"]
LONG = ["x" * 100_000, "x" * 99_999 + "y"]
IDS = [*ALIKE, *FOR_SPREADSHEETS, *FOR_SHELLS_AND_PAGES, *FOR_PARSERS, *LONG]
ITEMS = IDS[::3]  # of every sort, the long ones apart: an item of many users would be stored as often
ALL_SEEN = "rated everything"
EXTREMES = [1e308, -1e308]


def write(path: Path, rows: list[tuple[str, str, float]]) -> Path:
    user, item, rating = zip(*rows, strict=True)
    pq.write_table(pa.table({"user": user, "item": item, "rating": rating}), path)
    return path


def hostile_rows() -> list[tuple[str, str, float]]:
    """Three ratings of each user, one of the smallest number, those of who rated everything, and two without bounds."""
    rows = [
        (user, ITEMS[(number + step) % len(ITEMS)], 1.0 + (number + step) % 5)
        for number, user in enumerate(IDS)
        for step in (0, 3, 5)
    ]
    rows += [(ALL_SEEN, item, 3.0) for item in ITEMS[1:]] + [(ALL_SEEN, ITEMS[0], 5e-324)]
    return rows + [(user, "bought by bots", rating) for user, rating in zip(IDS, EXTREMES, strict=False)]


def test_the_tables_hold_the_ids_that_came_in(tmp_path: Path) -> None:
    """None is merged with one that looks like it, cut short, or taken for a path; and nobody gets what he has seen."""
    rows = hostile_rows()
    source, output = write(tmp_path / "ratings.parquet", rows), tmp_path / "out"

    run = publish(Retrain, {**SMALL, "input.path": source, "output.path": output})
    assert sorted(read_table(run, "user_factors").id) == sorted([*IDS, ALL_SEEN])
    assert sorted(read_table(run, "item_factors").id) == sorted(ITEMS)
    rejects = read_table(run, "rejects")
    assert list(map(list, rejects.reasons)) == [["extreme_rating"]] * len(EXTREMES)
    lists = read_table(run, "recommendations")
    assert set(lists.user_id) == set(IDS), "who has rated everything has an empty list"
    assert set(lists.item_id) <= set(ITEMS)
    assert {(user, item) for user, item, _ in rows}.isdisjoint(zip(lists.user_id, lists.item_id, strict=True))
    assert names_in(output) == {run.name, "CURRENT"}
    assert set(tmp_path.iterdir()) == {source, output}


def test_a_broken_file_among_good_ones_publishes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "ratings"
    source.mkdir()
    for number in range(2):
        write(source / f"{number}.parquet", hostile_rows())
    (source / "1.parquet").write_bytes((source / "1.parquet").read_bytes()[:-50])

    outcome = run_retrain({**SMALL, "input.path": source, "output.path": tmp_path / "out"})

    assert (outcome.code, outcome.error["kind"]) == (3, "DataError")
    assert "1.parquet" in outcome.message
    assert "Traceback" not in outcome.message
    assert names_in(tmp_path / "out") == set()
