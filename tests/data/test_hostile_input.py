"""Whatever bytes come in: every row is a rating or a reject, and different ids never become one.

Spark reads many hostile rows at once: each example is a file, not a row.
"""

import gzip
import io
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dcrec_spark.config.sections import InputConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import DataError

GOOD = b"ann,i1,3\nbob,i2,4\n"
LENIENT = ValidationConfig(max_reject_share=1.0, scale_min=0, duplicates="mean")
BROKEN = [b'"', b'"a,b,3', b'a,"b', b'a"b"c,i,3', b'"a"b,c,3', b'"a\0""b",i,3', b'"a""",i,3']
UNEVEN = [b"a", b"a,b", b"a,b,3,", b"a,b,3,4"]
STRANGE = [b",,", b",", b"\0,\0,\0", b"\0a,b,3", b"#a,b,3", b"\xef\xbb\xbfa,b,3", b"\xff\xfe,\x00,1", b"\\,\\,5"]
NUMBERS = [b"a,b,1e400", b"a,b,-nan", b"a,b,1e308", b"a,b,5e-324", b"a,b," + b"9" * 1000]
LINE = st.one_of(
    st.binary(max_size=30),
    st.lists(st.sampled_from([b'"', b",", b"\0", b"a", b"3", b" ", b"\\", b"\xe9"]), max_size=12).map(b"".join),
    st.sampled_from([*BROKEN, *UNEVEN, *STRANGE, *NUMBERS]),
).map(lambda line: line.replace(b"\n", b" ").replace(b"\r", b" "))
# How a file is written, and what its ids may hold: in lines, or in one piece, where quotes hold line breaks too.
IN_LINES: dict[str, Any] = {"exclude_categories": ["Cs"], "exclude_characters": "\n\r"}
IN_ONE_PIECE: dict[str, Any] = {"exclude_categories": ["Cs"]}
LAYOUTS = {
    "utf-8": ("utf-8", IN_LINES, {}),
    "utf-8 in one piece": ("utf-8", IN_ONE_PIECE, {"multiLine": "true"}),
    "iso-8859-1": ("iso-8859-1", IN_LINES, {}),
    "utf-16": ("utf-16", IN_ONE_PIECE, {}),
}
# What a parser may take for something else: nothing, its own quote, the end of a cell.
TELLING = st.sampled_from(["a", "b", '"', "\0", " ", ",", "\\", "'", "#"])


def read(spark: SparkSession, path: Path, content: bytes, **config: Any) -> Validated:
    path.write_bytes(content)
    source = InputConfig(format="csv", path=str(path), **config)
    return validate(read_ratings(spark, source), LENIENT)


def users(validated: Validated) -> list[Any]:
    return sorted(row["user_id"] for row in validated.ratings.select("user_id").distinct().collect())


def quoted(cell: str) -> str:
    doubled = cell.replace('"', '""')
    return f'"{doubled}"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=2)
@given(data=st.data())
def test_ids_of_any_text_stay_apart_and_as_they_are(
    spark: SparkSession, folder: Path, layout: str, data: st.DataObject
) -> None:
    encoding, characters, settings = LAYOUTS[layout]
    texts = st.text(st.one_of(st.characters(codec=encoding, **characters), TELLING), max_size=8)
    ids = data.draw(st.lists(texts, min_size=40, max_size=80, unique=True))
    lines = "".join(f"{quoted(name)},i{number % 7},3\n" for number, name in enumerate(ids))
    content = f"user,item,rating\n{lines}{GOOD.decode()}".encode(encoding)
    found = read(spark, folder / "ids.csv", content, options={"encoding": encoding, **settings})
    usable = {name for name in ids if name.strip(" ") and "\ufffd" not in name}
    assert users(found) == sorted(usable | {"ann", "bob"})
    assert found.counts["rejected"] == len(ids) - len(usable)
    found.unpersist()


@settings(max_examples=4)
@given(lines=st.lists(LINE, min_size=80, max_size=160))
def test_lines_of_any_bytes_are_ratings_or_rejects(spark: SparkSession, folder: Path, lines: list[bytes]) -> None:
    """None is swallowed, not even by the quote that the line before leaves open, but for those that are blank."""
    pairs = b"".join(b"%s\nafter%d,i,3\n" % (line, number) for number, line in enumerate(lines))
    content = b"user,item,rating\n" + GOOD + pairs
    found = read(spark, folder / "lines.csv", content, options={"multiLine": "false"})
    blank = [line for line in lines if not line.strip(bytes(range(33)))]
    assert found.counts["rows_in"] == 2 + 2 * len(lines) - len(blank)
    counts = found.counts
    assert counts["rows_in"] == counts["accepted"] + counts["rejected"]
    assert counts["accepted"] == counts["ratings"] + counts["merged_duplicates"]
    assert found.ratings.select("user_id", "item_id").distinct().count() == found.ratings.count() == counts["ratings"]
    assert found.rejects.count() == found.rejects.where("size(reasons) > 0").count() == counts["rejected"]
    assert {f"after{number}" for number in range(len(lines))} <= set(users(found))
    assert not [name for name in users(found) if "\ufffd" in name]
    found.unpersist()


RECORDS = "user,item,rating\n" + "".join(f'"ann {n}\nfrom, York",i{n % 3},3\nbob{n},i1,4\n' for n in range(9))


def test_a_record_over_several_lines_is_read_whole_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its second line alone would be a record of a user who does not exist."""
    file, content = tmp_path / "ratings.csv", RECORDS.encode()
    with pytest.raises(DataError, match=r'18 lines end within quotes, .*"ann 0.*options\.multiLine=true'):
        read(spark, file, content)
    whole = read(spark, file, content, options={"multiLine": "true"})
    assert users(whole) == sorted([*(f"ann {n}\nfrom, York" for n in range(9)), *(f"bob{n}" for n in range(9))])
    assert whole.counts["rejected"] == 0


def test_ids_come_out_as_they_went_in_or_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("007", "7", "7.0", "1e1", "2026-01-02", "true"):
        folder = tmp_path / "names" / f"item={name}"
        folder.mkdir(parents=True)
        (folder / "part.csv").write_text(f"user,rating\nann,3\nbob,{name[:1]}\n")
    names = validate(read_ratings(spark, InputConfig(format="csv", path=str(tmp_path / "names"))), LENIENT)
    items = {row["item_id"] for row in names.ratings.collect()}
    assert items == {"007", "7", "7.0", "1e1", "2026-01-02", "true"}

    texts = ["7", "007", "+8", " 9 ", "-0", "10", "1_000"]
    content = "user,item,rating\n" + "".join(f"{name},{n % 2},3\n" for n, name in enumerate(texts))
    found = read(spark, tmp_path / "numbers.csv", content.encode(), id_type="long")
    assert users(found) == [7, 9, 10]
    assert found.reasons == {"unparsable_user": 4}

    numbers = [1.0, 2.5, 2.0**53, 2.0**53 + 2, float("nan"), float("inf"), -3.0]
    (tmp_path / "numbers.parquet").write_bytes(parquet(numbers))
    for kind, expected in (("auto", [-3, 1, 2**53]), ("string", ["-3", "1", str(2**53)])):
        found = validate(
            read_ratings(spark, InputConfig(path=str(tmp_path / "numbers.parquet"), id_type=kind)), LENIENT
        )
        assert users(found) == expected
        assert found.reasons == {"unparsable_user": 4}

    (tmp_path / "decimals.parquet").write_bytes(parquet(pa.array([5, 10**30], pa.decimal128(38, 0))))
    found = validate(read_ratings(spark, InputConfig(path=str(tmp_path / "decimals.parquet"))), LENIENT, to_fit=False)
    assert (users(found), found.reasons) == ([5], {"unparsable_user": 1})


def test_a_cell_of_any_length_takes_time_in_proportion(spark: SparkSession, tmp_path: Path) -> None:
    """A pattern that tries each digit as an end would take 256 times as long for 16 times the length."""

    def seconds(length: int) -> float:
        cell = "4" * length + "x"
        content = f"user,item,rating\nann,i1,{cell}\nbob,i2,{cell}\nann,i2,3\nbob,i1,4\n"
        start = time.perf_counter()
        found = read(spark, tmp_path / f"{length}.csv", content.encode())
        found.unpersist()
        assert found.reasons == {"unparsable_rating": 2}
        return time.perf_counter() - start

    seconds(1000)
    assert seconds(640_000) < 32 * seconds(40_000)


LATIN = "user,item,rating\nAndré,i1,3\nAndrè,i1,4\nAndrê,i2,5\n"


def test_bytes_that_are_no_text_are_rejected_and_do_not_become_one_user(spark: SparkSession, tmp_path: Path) -> None:
    """Neither lines of a file nor strings of Parquet, which promises text and does not check it."""
    names = pa.array([b"Andr\xe9", b"Andr\xe8", b"Andr\xea", b"ann", b"bob"]).cast(pa.string(), safe=False)
    table = {"user": names, "item": ["i1", "i1", "i2", "i2", "i3"], "rating": [1.0, 2.0, 3.0, 4.0, 5.0]}
    pq.write_table(pa.table(table), tmp_path / "ratings.parquet")
    strings = validate(read_ratings(spark, InputConfig(path=str(tmp_path / "ratings.parquet"))), LENIENT)
    for found in (strings, read(spark, tmp_path / "latin.csv", LATIN.encode("latin-1") + GOOD)):
        assert found.reasons == {"undecodable_user": 3}
        assert users(found) == ["ann", "bob"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (LATIN.encode("utf-16"), r"as text in UTF-16 has: set input\.options\.encoding=utf-16"),
        (b"user,item,rating\n" + GOOD + b"a" + b",b" * 30_000, r"more than 20,480 columns; check input\.options\.sep"),
        (b"user,item,rating,,\nann,i1,3,,\nbob,i2,4,,\n", "a column without a name"),
    ],
    ids=["another encoding", "too many columns", "columns without names"],
)
def test_a_file_without_ratings_is_refused(content: bytes, words: str, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        read(spark, tmp_path / "ratings.csv", content)


def parquet(user: Any) -> bytes:
    buffer = io.BytesIO()
    items = [f"i{number}" for number in range(len(user))]
    pq.write_table(pa.table({"user": user, "item": items, "rating": [3.0] * len(user)}), buffer)
    return buffer.getvalue()


WHOLE = parquet([f"u{number}" for number in range(100)])
LINES = "".join(f"u{number * number},i{number * 7919 % 1000},3\n" for number in range(2000)).encode()
BROKEN_FILES = {
    "damaged pages.parquet": WHOLE[:4] + bytes(200) + WHOLE[204:],
    "cut off.parquet": WHOLE[:-100],
    "of other types.parquet": parquet([1, 2]),
    "cut off.csv.gz": gzip.compress(b"user,item,rating\n" + LINES)[:-2000],
}


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_a_broken_file_among_good_ones_is_named(spark: SparkSession, tmp_path: Path, name: str) -> None:
    kind = name.split(".")[1]
    for number in range(2):
        good = WHOLE if kind == "parquet" else b"user,item,rating\n" + GOOD
        (tmp_path / f"{number}.{kind}").write_bytes(good)
    (tmp_path / name).write_bytes(BROKEN_FILES[name])
    with pytest.raises(DataError, match=rf"take it out of input\.path; .*/{name.replace(' ', '(%20| )')}") as caught:
        validate(read_ratings(spark, InputConfig(format=kind, path=str(tmp_path))), LENIENT)
    assert "\n" not in str(caught.value)
