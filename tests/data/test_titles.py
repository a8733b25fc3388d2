"""Titles of items, from each kind of file, under ids of the model's type."""

from pathlib import Path

import pandas as pd
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType

from dcrec_spark.data.listed import read_titles, read_titles_file
from dcrec_spark.errors import DataError
from tests.frames import frame_of

CAFE = "Café, Le (1995)"


def assert_titles(frame: DataFrame, expected: dict[object, str]) -> None:
    """``frame`` has each item once, with the title expected."""
    kind = "string" if isinstance(next(iter(expected)), str) else "long"
    titles = frame_of(frame.sparkSession, list(expected.items()), f"item_id {kind}, title string")
    assert_df_equality(frame, titles, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.parametrize(("name", "separator"), [("u.item", "|"), ("movies.dat", "::")])
def test_movielens(spark: SparkSession, tmp_path: Path, name: str, separator: str) -> None:
    lines = [["7", CAFE, "x"], ["8", 'Say "Ah"', "y"]]
    (tmp_path / name).write_text("\n".join(separator.join(line) for line in lines), encoding="latin-1")
    expected: dict[object, str] = {7: CAFE, 8: 'Say "Ah"'}
    path = str(tmp_path / name)
    assert_titles(read_titles_file(spark, path, LongType()), expected)
    assert_titles(read_titles_file(spark, path, StringType()), {str(item): title for item, title in expected.items()})
    of_ratings = read_titles(spark, tmp_path / "ratings")
    assert of_ratings is not None
    assert_titles(of_ratings, expected)


def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    frame = pd.DataFrame({"movieId": ["7", "x", "7"], "title": [CAFE, "of no number", "The second name"]})
    frame.to_csv(tmp_path / "movies.csv", index=False)
    frame.to_parquet(tmp_path / "movies.parquet")
    for name in ("movies.csv", "movies.parquet"):
        assert_titles(read_titles_file(spark, str(tmp_path / name), LongType()), {7: CAFE})
    by_text = read_titles_file(spark, str(tmp_path / "movies.csv"), StringType())
    assert_titles(by_text, {"7": CAFE, "x": "of no number"})


def test_a_table_without_titles_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text("item,name\n1,x\n")
    with pytest.raises(DataError, match="found columns 'item', 'name'; expected 'title' and one of 'item', 'item_id'"):
        read_titles_file(spark, str(tmp_path / "movies.csv"), LongType())
