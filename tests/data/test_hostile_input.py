"""Whatever bytes come in: every row is a rating or a reject, and different ids never become one.

Spark reads many hostile rows at once: each example is a file, not a row.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dcrec_spark.config import InputConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import DataError

GOOD = b"ann,i1,3\nbob,i2,4\n"
LENIENT = ValidationConfig(max_reject_share=1.0, scale_min=0, duplicates="mean")
# What a cell may hold without ending its line.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=12)
LINE = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b'"', b'a,"b', b"a,b,3,4", b",,", b"\xff\xfe,\x00,1", b"a,b,1e400", b"a,b,-nan", b"\\,\\,5"]),
).map(lambda line: line.replace(b"\n", b" ").replace(b"\r", b" "))


def read(spark: SparkSession, path: Path, content: bytes, **config: Any) -> Validated:
    path.write_bytes(content)
    source = InputConfig(format="csv", path=str(path), **config)
    return validate(read_ratings(spark, source), LENIENT)


def users(validated: Validated) -> list[str]:
    return sorted(row["user_id"] for row in validated.ratings.select("user_id").distinct().collect())


def quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@settings(max_examples=3)
@given(ids=st.lists(TEXT, min_size=40, max_size=80, unique=True))
def test_ids_of_any_text_stay_apart_and_as_they_are(spark: SparkSession, folder: Path, ids: list[str]) -> None:
    lines = "".join(f"{quoted(name)},i{number % 7},3\n" for number, name in enumerate(ids))
    found = read(spark, folder / "ids.csv", b"user,item,rating\n" + lines.encode() + GOOD)
    usable = {name for name in ids if name.strip(" ") and "\ufffd" not in name}
    assert users(found) == sorted(usable | {"ann", "bob"})
    assert found.counts["rejected"] == len(ids) - len(usable)
    found.unpersist()


@settings(max_examples=3)
@given(lines=st.lists(LINE, min_size=40, max_size=80))
def test_lines_of_any_bytes_are_ratings_or_rejects(spark: SparkSession, folder: Path, lines: list[bytes]) -> None:
    found = read(spark, folder / "lines.csv", b"user,item,rating\n" + GOOD + b"\n".join(lines))
    assert found.counts["rows_in"] == found.counts["accepted"] + found.counts["rejected"]
    assert found.counts["rows_in"] >= 2
    assert not [name for name in users(found) if "\ufffd" in name]
    assert found.rejects.count() == found.counts["rejected"]
    found.unpersist()


LATIN = "user,item,rating\nAndré,i1,3\nAndrè,i1,4\nAndrê,i2,5\n"


def test_bytes_that_are_no_text_are_rejected_and_do_not_become_one_user(spark: SparkSession, tmp_path: Path) -> None:
    found = read(spark, tmp_path / "latin.csv", LATIN.encode("latin-1") + GOOD)
    assert found.reasons == {"undecodable_user": 3}
    assert users(found) == ["ann", "bob"]


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "utf-8"])
def test_an_encoding_that_is_named_is_read(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    found = read(spark, tmp_path / "named.csv", LATIN.encode(encoding), encoding=encoding)
    assert users(found) == sorted(["André", "Andrè", "Andrê"])
    assert found.counts["rejected"] == 0


def test_utf_16_is_recognised_and_the_setting_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"as text in UTF-16 has: set input\.encoding=utf-16"):
        read(spark, tmp_path / "wide.csv", LATIN.encode("utf-16"))


def test_strings_of_parquet_that_are_no_text_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    names = pa.array([b"Andr\xe9", b"Andr\xe8", b"ann", b"bob"]).cast(pa.string(), safe=False)
    table = {"user": names, "item": ["i1", "i1", "i2", "i3"], "rating": [1.0, 2.0, 3.0, 4.0]}
    pq.write_table(pa.table(table), tmp_path / "ratings.parquet")
    source = InputConfig(path=str(tmp_path / "ratings.parquet"))
    found = validate(read_ratings(spark, source), LENIENT)
    assert found.reasons == {"undecodable_user": 2}
    assert users(found) == ["ann", "bob"]
