"""What items are called, from each kind of file, under ids of the model's type."""

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType

from dcrec_spark.data.titles import read_titles, read_titles_file
from dcrec_spark.errors import DataError

CAFE = "Café, Le (1995)"


def titles_in(spark: SparkSession, path: Path, text_ids: bool = False) -> dict[object, str]:
    frame = read_titles_file(spark, str(path), StringType() if text_ids else LongType())
    rows = [(row["item_id"], row["title"]) for row in frame.collect()]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


@pytest.mark.parametrize(("name", "separator"), [("u.item", "|"), ("movies.dat", "::")])
def test_movielens(spark: SparkSession, tmp_path: Path, name: str, separator: str) -> None:
    lines = [["7", CAFE, "x"], ["8", 'Say "Ah"', "y"]]
    (tmp_path / name).write_text("\n".join(separator.join(line) for line in lines), encoding="latin-1")
    expected = {7: CAFE, 8: 'Say "Ah"'}
    assert titles_in(spark, tmp_path / name) == expected
    assert titles_in(spark, tmp_path / name, text_ids=True) == {str(item): title for item, title in expected.items()}
    beside = read_titles(spark, tmp_path / "ratings")
    assert beside is not None
    assert dict(beside.collect()) == expected


def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    frame = pd.DataFrame({"movieId": ["7", "x", "7"], "title": [CAFE, "of no number", "The second name"]})
    frame.to_csv(tmp_path / "movies.csv", index=False)
    frame.to_parquet(tmp_path / "movies.parquet")
    for name in ("movies.csv", "movies.parquet"):
        assert titles_in(spark, tmp_path / name) == {7: CAFE}
    assert titles_in(spark, tmp_path / "movies.csv", text_ids=True) == {"7": CAFE, "x": "of no number"}


def test_a_table_without_titles_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "movies.csv").write_text("item,name\n1,x\n")
    with pytest.raises(DataError, match="found columns 'item', 'name'; expected 'title' and one of 'item', 'item_id'"):
        read_titles_file(spark, str(tmp_path / "movies.csv"), LongType())
