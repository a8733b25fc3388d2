"""Every input format arrives in one layout, titles too, and what cannot be opened is said plainly."""

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from dcrec_spark.config.sections import ColumnNames, InputConfig, ValidationConfig
from dcrec_spark.data.listed import read_titles_file
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import validate
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of


def read(spark: SparkSession, **settings: Any) -> DataFrame:
    return read_ratings(spark, InputConfig(**settings))


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.select(*columns).collect()), key=repr)


def test_movielens_dat_and_csv(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_text("1::1193::5::978300760\n2::661::3::978302109\n")
    with gzip.open(tmp_path / "small.csv.gz", "wt") as file:
        file.write("userId,movieId,rating,timestamp\n1,1193,4.5,978300760\n")
    dat = read(spark, format="movielens", path=str(tmp_path))
    assert rows(dat, "user_id", "item_id", "rating", "timestamp", "raw") == [
        (1, 1193, "5", "978300760", "1::1193::5::978300760"),
        (2, 661, "3", "978302109", "2::661::3::978302109"),
    ]
    csv = read(spark, format="movielens", path=str(tmp_path / "small.csv.gz"))
    assert rows(csv, "user_id", "item_id", "rating", "timestamp") == [(1, 1193, "4.5", "978300760")]


def test_yahoo_r3_with_broken_lines(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text("1\t14\t5\n2\t35\n\n3\tx\t4\r\n4\t7\t3\t9\n")
    raw = read(spark, format="yahoo-r3", path=str(file))
    assert rows(raw, "user_id", "item_id", "rating", "raw", "read_problems") == [
        (1, 14, "5", "1\t14\t5", []),
        (2, 35, None, "2\t35", ["malformed_row"]),
        (3, None, "4", "3\tx\t4", ["unparsable_item"]),
        (4, 7, "3", "4\t7\t3\t9", ["malformed_row"]),
    ]


def test_coat_line_of_another_width_is_malformed(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "small.ascii"
    file.write_bytes(b"0 5 0\r\n3 0\r\n0 0 2 \r\n")
    raw = read(spark, format="coat", path=str(file))
    assert rows(raw, "user_id", "item_id", "rating", "raw", "read_problems") == [
        (1, 2, "5", "line 1, column 2: 5", []),
        (2, 1, "3", "line 2, column 1: 3", ["malformed_row"]),
        (3, 3, "2", "line 3, column 3: 2", []),
    ]


def test_csv_without_header_and_with_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("x;1;2;3\ny;4;5;6\n")
    columns = ColumnNames(user="_c1", item="_c0", rating="_c3")
    raw = read(spark, format="csv", path=str(file), options={"header": "false", "sep": ";"}, columns=columns)
    assert rows(raw, "user_id", "item_id", "rating") == [("1", "x", "3"), ("4", "y", "6")]


def test_csv_files_with_columns_in_another_order_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,rating\n1,2,3\n")
    (tmp_path / "b.csv").write_text("item,user,rating\n7,8,3\n")
    with pytest.raises(DataError, match="different headers"):
        validate(read(spark, format="csv", path=str(tmp_path)), ValidationConfig())


def test_ids_as_numbers_on_request(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text('user,item,rating\n10,1,3\nu1,2,3\n" ",3,3\n1.5,4,3\n5,6\n7,8,3,9\n')
    raw = read(spark, format="csv", path=str(file), id_type="long")
    assert rows(raw, "item_id", "user_id", "read_problems") == [
        (1, 10, []),
        (2, None, ["unparsable_user"]),
        (3, None, ["empty_user"]),
        (4, None, ["unparsable_user"]),
        (6, 5, ["malformed_row"]),
        (8, 7, ["malformed_row"]),
    ]
    spark.sql("SELECT CAST(12 AS DECIMAL(38,0)) AS user, 2 AS item, 3 AS rating").createOrReplaceTempView("decimals")
    for kind, row in (("auto", (12, 2)), ("long", (12, 2)), ("string", ("12", "2"))):
        assert rows(read(spark, format="table", table="decimals", id_type=kind), "user_id", "item_id") == [row]


def test_parquet_keeps_types_and_strange_column_names(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, [("u`1", 7, 3.5)], "`the.user` string, `it``em` int, Rating float")
    frame.write.parquet(str(tmp_path / "r"))
    columns = ColumnNames(user="the.user", item="it`em", rating="Rating")
    raw = read(spark, path=str(tmp_path / "r"), columns=columns)
    assert [field.dataType.simpleString() for field in raw.schema][:3] == ["string", "bigint", "float"]
    assert rows(raw, "user_id", "item_id", "rating") == [("u`1", 7, 3.5)]
    assert rows(raw.select(F.to_json("raw").alias("raw")), "raw") == [('{"the.user":"u`1","it`em":7,"Rating":3.5}',)]


def test_files_of_other_formats_and_of_different_columns_are_read_as_one(spark: SparkSession, tmp_path: Path) -> None:
    """Whichever file comes first: names may differ in case, and columns that a file lacks are null in its rows."""
    frame = pd.DataFrame({"user": [1, 2], "item": ["a", "b"], "rating": [3.0, 4.0]})
    at = pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"]).astype("datetime64[ns]"))
    columns = ColumnNames(timestamp="at")
    for name, part in {"a": frame, "b": frame.assign(at=at).rename(columns={"user": "User"})}.items():
        for folder, other in (("one", name), ("other", {"a": "z", "b": "b"}[name])):
            (tmp_path / folder).mkdir(exist_ok=True)
            part.to_parquet(tmp_path / folder / f"{other}.parquet")
    for folder in ("one", "other"):
        raw = read(spark, path=str(tmp_path / folder), columns=columns)
        found = validate(raw, ValidationConfig(duplicates="mean"), now=2e9)
        assert rows(found.ratings, "user_id", "item_id", "timestamp") == [(1, "a", 1577836800), (2, "b", 1577923200)]
        assert found.counts["without_timestamp"] == 2

    (tmp_path / "lines.json").write_text('{"user":1,"item":"a","rating":3}\n{"user":2,"item":"b"\n')
    lines = read(spark, format="json", path=str(tmp_path / "lines.json"))
    assert rows(lines, "user_id", "item_id", "read_problems") == [(1, "a", []), (None, None, ["malformed_row"])]
    spark.createDataFrame(frame).write.orc(str(tmp_path / "orc"))
    orc = read(spark, format="orc", path=str(tmp_path / "orc"))
    assert rows(orc, "user_id", "item_id", "rating") == [(1, "a", 3.0), (2, "b", 4.0)]
    with pytest.raises(DataError, match=r"spark\.jars\.packages=org\.apache\.spark:spark-avro_2\.13"):
        read(spark, format="avro", path=str(tmp_path / "orc"))
    with pytest.raises(ConfigError, match=r"found 'json\.`/x`', a path; set input\.format=json, and input\.path"):
        read(spark, format="table", table="json.`/x`")


def test_table_with_count_and_timestamp(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' AS user, 1L AS item, 3 AS rating, 2 AS n, TIMESTAMP '1970-01-02 00:00:00Z' AS at")
    frame.createOrReplaceTempView("some_ratings")
    raw = read(spark, format="table", table="some_ratings", columns=ColumnNames(count="n", timestamp="at"))
    assert raw.columns == ["user_id", "item_id", "rating", "count", "timestamp", "raw", "read_problems"]


def test_a_store_without_a_client_is_told_with_the_cure(spark: SparkSession) -> None:
    with pytest.raises(DataError, match=r"write s3a:, and name in .* 'dcrec jars s3' fetches; Spark says: "):
        read(spark, format="parquet", path="s3://shop/ratings")


@pytest.mark.parametrize("kind", ["parquet", "csv", "yahoo-r3", "coat", "movielens"])
def test_nothing_there(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataError, match=r"absent.*(nothing is there|found neither)"):
        read(spark, format=kind, path=str(tmp_path / "absent"))
    if kind in ("parquet", "csv"):
        with pytest.raises(DataError, match="no data files are there"):
            read(spark, format=kind, path=str(tmp_path))
    with pytest.raises(ConfigError, match=r"input\.path: found null"):
        read(spark, format=kind)


def test_a_file_of_another_kind(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_text("not parquet at all")
    with pytest.raises(DataError, match="not in the format that input\\.format says"):
        read(spark, path=str(tmp_path / "r.parquet"))
    with pytest.raises(DataError, match=r"found the file type \.parquet, expected \.data, \.dat or \.csv"):
        read(spark, format="movielens", path=str(tmp_path / "r.parquet"))


@pytest.mark.parametrize("table", ["no_such_table", "no.such.catalog.table", "x; DROP TABLE y"])
def test_no_such_table(spark: SparkSession, table: str) -> None:
    with pytest.raises(ConfigError, match=r"input\.table: found null"):
        read(spark, format="table")
    with pytest.raises(DataError, match=r"input table .* input\.table"):
        read(spark, format="table", table=table)


def test_jdbc_error_does_not_show_the_password(spark: SparkSession) -> None:
    options = {"url": "jdbc:nosuchdb://me:hunter2@h/db?password=hunter3", "password": "hunter4"}
    with pytest.raises(DataError, match=r"no JDBC driver for input\.options\.url") as caught:
        read(spark, format="jdbc", table="t", options=options)
    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(ConfigError, match=r"input\.options\.url"):
        read(spark, format="jdbc", table="t")


def test_a_missing_column_is_named_with_the_setting_and_the_likely_one(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS user, 2 AS item, 3 AS Ratings").write.parquet(str(tmp_path / "r"))
    with pytest.raises(DataError) as caught:
        read(spark, path=str(tmp_path / "r"))
    assert str(caught.value) == (
        "the input has no column 'rating': found 'user', 'item', 'Ratings'; expected the rating in it. "
        "Set input.columns.rating to the column that holds it, perhaps 'Ratings'"
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            "1.5 AS user, 2 AS item, 3 AS rating",
            r"user column \(input\.columns\.user\) is decimal\(2,1\); expected strings",
        ),
        ("1 AS user, array(2) AS item, 3 AS rating", r"item column .* is array<int>"),
        ("1 AS user, 2 AS item, true AS rating", r"rating column .* is boolean; expected a number"),
        ("1 AS user, 2 AS item, struct(1 AS a) AS rating", r"rating column .* is struct<a:int>"),
    ],
)
def test_a_column_of_an_impossible_type(spark: SparkSession, columns: str, words: str) -> None:
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("wrong_types")
    with pytest.raises(DataError, match=words):
        read(spark, format="table", table="wrong_types")


CAFE = "Café, Le (1995)"


def assert_titles(frame: DataFrame, expected: dict[object, str]) -> None:
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
