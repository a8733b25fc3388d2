"""A file that is replaced by creating the next of a row, and the choice of a protocol by what a store can do."""

import re
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.hadoop import HadoopFileSystem
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.hadoop import NumberedFiles, ObjectFiles, require_exclusive
from dcrec_spark.storage.protocol import ChangedError
from tests.steps import at_first
from tests.storage.stores import MemoryObjects, NumberedObjects

PATH = "/out/CURRENT"


def row(files: MemoryObjects) -> list[str]:
    return [entry.name for entry in files.list("/out")]


def test_a_file_is_replaced_by_the_next_of_its_row() -> None:
    files = NumberedObjects()
    assert (files.version(PATH), files.exists(PATH)) == (None, False)
    with pytest.raises(FileNotFoundError):
        files.read(PATH)
    for number, content in enumerate((b"one", b"two", b"three"), 1):
        files.write_over(PATH, content, files.version(PATH))
        assert (files.read(PATH), files.exists(PATH)) == (content, True)
        assert row(files) == [f"CURRENT.000000000{number}"]
    for late in (None, "0000000002 3"):
        with pytest.raises(ChangedError):
            files.write_over(PATH, b"late", late)
    files.write("/out/CURRENT.old", b"another name")
    files.delete(PATH)
    assert row(files) == ["CURRENT.old"]


def test_of_two_who_create_a_number_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the other was there first, or is two ahead when one has created an old number again."""
    files = NumberedObjects()
    files.write_over(PATH, b"base", None)

    def overtake(ahead: int) -> None:
        for number in range(ahead):
            files.write_over(PATH, f"fast {number}".encode(), files.version(PATH))

    for ahead in (1, 2):
        version = files.version(PATH)
        at_first(monkeypatch, MemoryObjects, "create", partial(overtake, ahead))
        with pytest.raises(ChangedError):
            files.write_over(PATH, b"slow", version)
        assert files.read(PATH) == f"fast {ahead - 1}".encode()
        assert len(row(files)) == 1


def test_an_empty_file_is_nobodys_word_and_its_number_is_taken() -> None:
    """Of a writer that died between creating and writing it."""
    files = NumberedObjects()
    files.write_over(PATH, b"base", None)
    files.write(f"{PATH}.0000000002", b"")
    assert (files.read(PATH), files.version(PATH)) == (b"base", "0000000002 0")
    with pytest.raises(ChangedError):
        files.write_over(PATH, b"new", "0000000001 4")
    files.write_over(PATH, b"new", "0000000002 0")
    assert (files.read(PATH), row(files)) == (b"new", ["CURRENT.0000000003"])


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_empty_file_that_is_written_after_all_is_no_base(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever noted it as empty, and then the word of the run before, is too late."""
    files = NumberedObjects()
    files.write_over(PATH, b"base", None)
    files.write(f"{PATH}.0000000002", b"")
    noted, wake = files.version(PATH), partial(files.write, f"{PATH}.0000000002", b"slow")
    if when == "before":
        wake()
    else:
        at_first(monkeypatch, MemoryObjects, "create", wake)
    with pytest.raises(ChangedError):
        files.write_over(PATH, b"late", noted)
    assert files.read(PATH) == b"slow"


def test_a_file_that_came_from_another_kind_of_store_is_replaced() -> None:
    files = NumberedObjects()
    files.write(PATH, b"copied")
    assert (files.read(PATH), files.version(PATH)) == (b"copied", None)
    files.write_over(PATH, b"new", None)
    assert (files.read(PATH), row(files)) == (b"new", ["CURRENT.0000000001"])


def test_a_reader_whose_file_goes_reads_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    files = NumberedObjects()
    files.write_over(PATH, b"old", None)
    replace = partial(files.write_over, PATH, b"new", files.version(PATH))
    at_first(monkeypatch, NumberedObjects, "_held", replace, after=True)
    assert files.read(PATH) == b"new"


def opened(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, uri: str, *, conditional: bool) -> Any:
    """Open a path whose store is the local disk, behind the scheme of another."""
    begin = HadoopFileSystem.__init__

    def begin_on_disk(files: HadoopFileSystem, session: SparkSession, given: str, setting: str) -> None:
        begin(files, session, "file:///", setting)
        files.scheme = given.partition(":")[0]

    monkeypatch.setattr(HadoopFileSystem, "__init__", begin_on_disk)
    monkeypatch.setattr(HadoopFileSystem, "replaces_if_unchanged", lambda _: conditional)
    return open_files(uri, spark)[0]


@pytest.mark.parametrize(
    ("uri", "conditional", "kind", "alone"),
    [
        ("s3a://shop/out", True, ObjectFiles, True),
        ("s3://shop/out", True, ObjectFiles, True),
        ("s3a://shop/out", False, NumberedFiles, False),
        ("s3://shop/out", False, NumberedFiles, False),
        ("gs://shop/out", False, NumberedFiles, True),
        ("abfss://shop@account.dfs.core.windows.net/out", False, NumberedFiles, True),
        ("dbfs:/out", False, NumberedFiles, False),
    ],
)
def test_the_protocol_is_chosen_by_what_the_store_can_do(
    uri: str, conditional: bool, kind: type, alone: bool, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(spark, monkeypatch, uri, conditional=conditional)
    assert type(files) is kind
    if alone:
        require_exclusive(files, uri, "output.path")
    else:
        message = re.escape(f"output.path is {uri!r}") + ".*Iceberg, Delta or PostgreSQL too"
        with pytest.raises(ConfigError, match=message):
            require_exclusive(files, uri, "output.path")


@pytest.mark.parametrize(
    ("uri", "cure"),
    [
        ("gs://shop/out", "in spark.jars: that of 'dcrec jars gcs'; spark.hadoop.fs.gs.impl: "),
        ("abfss://shop@account.dfs.core.windows.net/out", "in spark.jars: hadoop-azure of Spark's Hadoop"),
        ("s3://shop/out", "spark.hadoop.fs.s3.impl: org.apache.hadoop.fs.s3a.S3AFileSystem"),
        ("nosuch://shop/out", "another place: s3a://bucket/"),
    ],
)
def test_a_store_without_a_client_is_refused_with_the_cure(uri: str, cure: str, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=f"output.path is '{uri}', which cannot be opened .*; it needs .*{cure}"):
        open_files(uri, spark)


def test_a_row_is_kept_on_a_file_system_of_hadoop(spark: SparkSession, tmp_path: Any) -> None:
    files, path = NumberedFiles(spark, "file:///", "output.path"), f"{tmp_path}/out/CURRENT"
    files.check_writable(f"{tmp_path}/out")
    for content in (b"one", b"two"):
        files.write_over(path, content, files.version(path))
        assert files.read(path) == content
    with pytest.raises(OSError, match="exists"):
        files.create(f"{path}.0000000002", b"again")
    assert [entry.name for entry in files.list(f"{tmp_path}/out") if entry.name[0] != "."] == ["CURRENT.0000000002"]
