"""Every input format arrives in one layout, and what cannot be opened is said plainly."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config.sections import ColumnNames, InputConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError, DataError
from tests.frames import frame_of


def read(spark: SparkSession, **settings: Any) -> DataFrame:
    return read_ratings(spark, InputConfig(**settings))


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.select(*columns).collect()), key=repr)


def by_rating(validated: Validated) -> list[int]:
    return [row["count"] for row in validated.ratings.groupBy("rating").count().orderBy("rating").collect()]


# ---- the research data sets


def test_coat_pairs_match_the_matrix(spark: SparkSession, data_folder: Path) -> None:
    folder = data_folder / "coat"
    lines = (folder / "train.ascii").read_text(encoding="ascii").split("\n")
    expected = {
        (user, item, cell)
        for user, line in enumerate(lines, 1)
        for item, cell in enumerate(line.split(), 1)
        if cell != "0"
    }
    found = read(spark, format="coat", path=str(folder)).select("user_id", "item_id", "rating").collect()
    assert {tuple(row) for row in found} == expected


def test_movielens_100k(spark: SparkSession, data_folder: Path) -> None:
    raw = read(spark, format="movielens", path=str(data_folder / "ml-100k"))
    validated = validate(raw, ValidationConfig(scale_min=1, scale_max=5))
    assert validated.counts["ratings"] == validated.counts["rows_in"] == 100_000
    assert by_rating(validated) == [6110, 11370, 27145, 34174, 21201]
    found = validated.ratings.agg(
        F.count_distinct("user_id"), F.count_distinct("item_id"), F.min("timestamp"), F.max("timestamp")
    ).first()
    assert found is not None
    assert tuple(found) == (943, 1682, 874724710, 893286638)
    assert validated.ratings.schema.simpleString() == (
        "struct<user_id:bigint,item_id:bigint,rating:double,timestamp:bigint>"
    )
    validated.unpersist()


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


# ---- csv


def test_csv_without_header_and_with_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("x;1;2;3\ny;4;5;6\n")
    columns = ColumnNames(user="_c1", item="_c0", rating="_c3")
    raw = read(spark, format="csv", path=str(file), options={"header": "false", "sep": ";"}, columns=columns)
    assert rows(raw, "user_id", "item_id", "rating") == [("1", "x", "3"), ("4", "y", "6")]


def test_csv_rows_that_are_too_short_or_too_long_are_malformed(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("user,item,rating,more\na,b,3,m\na,c\na,d,3,m,n\n")
    raw = read(spark, format="csv", path=str(file))
    assert rows(raw, "item_id", "read_problems") == [("b", []), ("c", ["malformed_row"]), ("d", ["malformed_row"])]


def test_csv_files_with_columns_in_another_order_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,rating\n1,2,3\n")
    (tmp_path / "b.csv").write_text("item,user,rating\n7,8,3\n")
    with pytest.raises(DataError, match="different headers"):
        validate(read(spark, format="csv", path=str(tmp_path)), ValidationConfig())


def test_ids_as_numbers_on_request(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text('user,item,rating\n10,1,3\nu1,2,3\n" ",3,3\n1.5,4,3\n')
    raw = read(spark, format="csv", path=str(file), id_type="long")
    assert rows(raw, "item_id", "user_id", "read_problems") == [
        (1, 10, []),
        (2, None, ["unparsable_user"]),
        (3, None, ["empty_user"]),
        (4, None, ["unparsable_user"]),
    ]


# ---- typed sources


def test_parquet_keeps_types_and_strange_column_names(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, [("u`1", 7, 3.5)], "`the.user` string, `it``em` int, Rating float")
    frame.write.parquet(str(tmp_path / "r"))
    columns = ColumnNames(user="the.user", item="it`em", rating="Rating")
    raw = read(spark, path=str(tmp_path / "r"), columns=columns)
    assert [field.dataType.simpleString() for field in raw.schema][:3] == ["string", "bigint", "float"]
    assert rows(raw, "user_id", "item_id", "rating") == [("u`1", 7, 3.5)]
    assert rows(raw.select(F.to_json("raw").alias("raw")), "raw") == [('{"the.user":"u`1","it`em":7,"Rating":3.5}',)]


def test_table_with_count_and_timestamp(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'a' AS user, 1L AS item, 3 AS rating, 2 AS n, TIMESTAMP '1970-01-02 00:00:00Z' AS at")
    frame.createOrReplaceTempView("some_ratings")
    raw = read(spark, format="table", table="some_ratings", columns=ColumnNames(count="n", timestamp="at"))
    assert raw.columns == ["user_id", "item_id", "rating", "count", "timestamp", "raw", "read_problems"]


# ---- refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"format": "parquet"}, "input.path: found null"),
        ({"format": "table"}, "input.table: found null"),
        ({"format": "jdbc", "table": "t"}, "input.options.url"),
    ],
)
def test_settings_that_do_not_say_where_the_input_is(spark: SparkSession, settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(spark, **settings)


@pytest.mark.parametrize("kind", ["parquet", "csv", "yahoo-r3", "coat", "movielens"])
def test_nothing_there(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataError, match=r"absent.*(nothing is there|found neither)"):
        read(spark, format=kind, path=str(tmp_path / "absent"))
    if kind in ("parquet", "csv"):
        with pytest.raises(DataError, match="no data files are there"):
            read(spark, format=kind, path=str(tmp_path))


def test_a_file_of_another_kind(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_text("not parquet at all")
    with pytest.raises(DataError, match="not in the format that input\\.format says"):
        read(spark, path=str(tmp_path / "r.parquet"))
    with pytest.raises(DataError, match=r"found the file type \.parquet, expected \.data, \.dat or \.csv"):
        read(spark, format="movielens", path=str(tmp_path / "r.parquet"))


@pytest.mark.parametrize("table", ["no_such_table", "no.such.catalog.table", "x; DROP TABLE y"])
def test_no_such_table(spark: SparkSession, table: str) -> None:
    with pytest.raises(DataError, match=r"input table .* input\.table"):
        read(spark, format="table", table=table)


def test_jdbc_error_does_not_show_the_password(spark: SparkSession) -> None:
    options = {"url": "jdbc:nosuchdb://me:hunter2@h/db?password=hunter3", "password": "hunter4"}
    with pytest.raises(DataError, match=r"no JDBC driver for input\.options\.url") as caught:
        read(spark, format="jdbc", table="t", options=options)
    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None


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
        ("1.0D AS user, 2 AS item, 3 AS rating", r"user column \(input\.columns\.user\) is double.*cast it to bigint"),
        ("1 AS user, array(2) AS item, 3 AS rating", r"item column .* is array<int>"),
        ("1 AS user, 2 AS item, true AS rating", r"rating column .* is boolean; expected a number"),
        ("1 AS user, 2 AS item, struct(1 AS a) AS rating", r"rating column .* is struct<a:int>"),
        ("CAST(1 AS DECIMAL(10,0)) AS user, 2 AS item, 3 AS rating", r"is decimal\(10,0\).*input\.id_type"),
    ],
)
def test_a_column_of_an_impossible_type(spark: SparkSession, columns: str, words: str) -> None:
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("wrong_types")
    with pytest.raises(DataError, match=words):
        read(spark, format="table", table="wrong_types")


def test_decimal_ids_on_request(spark: SparkSession) -> None:
    spark.sql("SELECT CAST(12 AS DECIMAL(38,0)) AS user, 2 AS item, 3 AS rating").createOrReplaceTempView("decimals")
    assert rows(read(spark, format="table", table="decimals", id_type="long"), "user_id") == [(12,)]
    assert rows(read(spark, format="table", table="decimals", id_type="string"), "user_id", "item_id") == [("12", "2")]
