"""Publishing to S3, HDFS and Google's store: one whole run at every moment, whoever dies, races or goes away."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError, DcrecError
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.publish import object_store
from dcrec_spark.publish.current import current_run, read_current
from dcrec_spark.publish.object_store import ObjectStoreSink, open_output
from dcrec_spark.publish.parquet import ParquetSink, StagedRun, verify
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.several import Several
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.hadoop import HadoopFiles, Numbered, NumberedFiles, ObjectFiles
from dcrec_spark.storage.protocol import ChangedError
from tests.steps import at_first
from tests.storage.stores import Dying, Killed
from tests.warehouse.judges import Opened, Place, watching
from tests.warehouse.objects import BUCKET, Found, GoogleStorage, ObjectStore, reached
from tests.warehouse.servers import Hdfs
from tests.warehouse.tables import IDS, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "item_factors")
AWAY_SECONDS = 2.0


@dataclass
class Output:
    """An output directory of a test's own, under ``uri``; ``path`` is what its server knows it by."""

    spark: SparkSession
    sink: Any
    path: str
    found: Callable[[], Found | None]
    names: Callable[[], set[str]]

    @property
    def uri(self) -> str:
        return str(self.sink.given)

    def publish(self, run_id: str, users: int = len(IDS), **steps: Any) -> str:
        tables = tables_of(self.spark, run_id, users, NAMES)
        return publish(self.sink, run_id, tables, lambda _: record(run_id), **steps)

    def stage(self, run_id: str) -> Any:
        return self.sink.stage(run_id, tables_of(self.spark, run_id, names=NAMES), {})


def whole(run_id: str, users: int = len(IDS)) -> Found:
    return Found(run_id, frozenset({run_id}), 2 * users)


@pytest.fixture(scope="module")
def google(scratch: Path, spark: SparkSession) -> Iterator[GoogleStorage]:
    with reached(GoogleStorage(scratch / "google"), spark) as running:
        yield running


@pytest.fixture(params=["s3"])
def output(request: pytest.FixtureRequest, spark: SparkSession) -> Output:
    """S3 replaces a file under a condition, Google's store does not, HDFS renames."""
    path = f"out-{crc32(request.node.nodeid.encode())}/nightly"
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")

        def found_in_hdfs() -> Found:
            copy = hdfs.copy(f"/{path}")
            run_id = (copy / "CURRENT").read_text().strip()
            rows = pq.read_table(copy / f"run_id={run_id}" / "recommendations", partitioning=None)["run_id"].to_pylist()
            return Found(run_id, frozenset(rows), len(rows))

        sink: Any = open_output(f"{hdfs.uri}/{path}", spark)
        assert isinstance(sink, ParquetSink)
        return Output(spark, sink, f"/{path}", found_in_hdfs, lambda: {p.name for p in hdfs.copy(f"/{path}").iterdir()})
    scheme, server, kind = {"s3": ("s3a", "store", ObjectFiles), "gs": ("gs", "google", NumberedFiles)}[request.param]
    store: ObjectStore | GoogleStorage = request.getfixturevalue(server)
    sink = open_output(f"{scheme}://{BUCKET}/{path}", spark)
    assert type(sink.files) is kind
    return Output(
        spark, sink, path, lambda: store.found(path), lambda: {key.split("/")[2] for key in store.keys(f"{path}/")}
    )


@contextmanager
def readers(output: Output, *expected: Found) -> Iterator[None]:
    """Two readers look all the time; they find what is expected, each of it, and nothing else."""
    with watching(output.found, output.found) as seen:
        yield
    assert set(seen[0]) | set(seen[1]) == set(expected)
    assert seen[0].total() + seen[1].total() > 20


@pytest.mark.parametrize("output", ["s3", "gs"], indirect=True)
def test_a_run_replaces_the_one_before_whole_and_is_gone_back_to(output: Output, spark: SparkSession) -> None:
    output.publish("monday")
    with readers(output, whole("monday"), whole("tuesday", 3)):
        output.publish("tuesday", users=3)
        time.sleep(0.5)
    verify(f"{output.uri}/run_id=monday", spark)
    assert current_run(output.uri, spark).record["run_id"] == "tuesday"
    assert read_current(spark, output.uri, "recommendations").count() == 6
    output.publish("wednesday")
    output.sink.restore("tuesday")
    assert output.found() == whole("tuesday", 3)
    assert output.sink.prune(1) == ["monday"]
    names = sorted(name.partition(".")[0] for name in output.names() - {""})
    assert names == ["CURRENT", "run_id=tuesday", "run_id=wednesday"]


@pytest.mark.parametrize(
    ("output", "before"), [("s3", None), ("s3", "before"), ("gs", "before"), ("hdfs", "before")], indirect=["output"]
)
def test_of_two_publishers_one_wins_and_the_other_ends_with_5(output: Output, before: str | None) -> None:
    if before is not None:
        output.publish(before)
    runs = [output.stage(name) for name in ("a", "b")]
    start = threading.Barrier(2)

    def attempt(run: StagedRun) -> str | None:
        start.wait()
        try:
            output.sink.commit(run, record(run.run_id))
        except ConflictError as error:
            output.sink.discard(run)
            return f"{error.exit_code}: {error}"
        return None

    with ThreadPoolExecutor(2) as pool:
        said = dict(zip(("a", "b"), pool.map(attempt, runs), strict=True))
    (winner,) = [name for name, error in said.items() if error is None]
    (loser,) = said.keys() - {winner}
    assert str(said[loser]).startswith("5: ")
    assert f"went from run {before} to run {winner}" in str(said[loser])
    assert output.found() == whole(winner)
    assert f"run_id={loser}" not in output.names()


@pytest.mark.parametrize("output", ["s3", "gs"], indirect=True)
def test_of_many_that_put_the_pointer_at_once_one_wins(output: Output, record_property: Any) -> None:
    record_property("tried", 36)
    files, path = output.sink.files, f"{output.sink.root}/POINTER"

    def attempt(number: int, version: str | None) -> bool:
        try:
            files.write_over(path, f"run{number}, over {version}".encode(), version)
        except ChangedError:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        won = [sum(pool.map(attempt, range(12), [files.version(path)] * 12)) for _ in range(3)]
    assert won == [1, 1, 1]


def test_of_two_publishers_to_several_places_the_late_one_leaves_all_of_them_to_the_other(
    output: Output, opened: Opened, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has shown its tables in PostgreSQL already when another publishes to both; no lock holds it up."""

    def publish_to_both(run_id: str) -> Place:
        place = opened("postgresql", f"several_{crc32(output.path.encode())}", lock_seconds=5)
        tables = tables_of(spark, run_id, names=NAMES)
        publish(Several(spark, output.sink, [place.warehouse]), run_id, tables, lambda _: record(run_id))
        return place

    place = publish_to_both("before")
    overtaken = at_first(monkeypatch, ObjectStoreSink, "commit", lambda: publish_to_both("fast"))
    with pytest.raises(ConflictError, match="went from run before to run fast"):
        publish_to_both("late")
    assert overtaken == ["commit"]
    assert output.found() == whole("fast")
    assert set(place.judge("recommendations")["run_id"]) == {"fast"}


class DyingObjects(Dying, ObjectFiles):
    write = ObjectFiles.write  # of one change, which counts

    def __init__(self, spark: SparkSession, uri: str, changes_left: int, after: bool) -> None:
        super().__init__(spark, uri, "output.path")
        self.changes_left, self.after = changes_left, after


class DyingNumbered(Numbered, DyingObjects):
    """Whose changes are those that it is made of."""


# The changes of a commit: the record, the manifest, the pointer, where it is numbered the last one's end, the mark.
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("output", "dying", "changes"), [("s3", DyingObjects, 4), ("gs", DyingNumbered, 5)], indirect=["output"]
)
def test_a_publisher_that_dies_at_any_change_leaves_the_old_run_or_the_new(
    dying: Any, changes: int, after: bool, output: Output, spark: SparkSession, record_property: Any
) -> None:
    record_property("tried", changes)
    output.publish("old")
    published = []
    for change in range(1, changes + 1):
        run_id = f"new{change}"
        run, before = output.stage(run_id), output.found()
        sink = ObjectStoreSink(dying(spark, output.uri, change, after), output.sink.root, output.uri)
        with pytest.raises(Killed):
            sink.commit(replace(run, files=sink.files), record(run_id))
        now = output.found()
        assert now in (before, whole(run_id))
        verify(f"{output.uri}/run_id={now.run_id}", spark)  # type: ignore[union-attr]
        published += [run_id] if now == whole(run_id) else []
    assert published == [f"new{change}" for change in range(3 if after else 4, changes + 1)]
    output.publish("next")
    assert output.found() == whole("next")
    assert output.sink.run_ids() == [*published, "next", "old"]


# What each step calls, by which the store goes away in its middle.
INSIDE = {"stage": "write_parts", "commit": "write_manifest", "verify": "check_manifest"}


@pytest.mark.parametrize("step", INSIDE)
def test_a_store_that_goes_away_and_comes_back_costs_time_and_not_the_run(
    step: str, output: Output, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    output.publish("old")
    gone = at_first(monkeypatch, object_store, INSIDE[step], lambda: store.gate.shut_for(AWAY_SECONDS))
    with readers(output, whole("old"), whole("new")):
        output.publish("new")
        time.sleep(0.5)
    assert gone == [INSIDE[step]]


@pytest.mark.parametrize("step", ["stage", "commit"])
def test_a_store_that_stays_away_is_named_and_has_the_tables_of_before(
    step: str, output: Output, spark: SparkSession, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a bucket whose client gives up at once."""
    bucket = f"impatient-{step}"
    store.client.create_bucket(Bucket=bucket)
    for name, value in {"retry.limit": "1", "attempts.maximum": "1", "retry.interval": "10ms"}.items():
        spark.conf.set(f"fs.s3a.bucket.{bucket}.{name}", value)
    output.sink = open_output(f"s3a://{bucket}/out", spark)

    def current() -> bytes:
        return bytes(store.client.get_object(Bucket=bucket, Key="out/CURRENT")["Body"].read())

    output.publish("old")
    expected = r"run new was not published: s3a://impatient-commit" if step == "commit" else "Connection|connect"
    at_first(monkeypatch, object_store, INSIDE[step], store.gate.shut)
    try:
        with pytest.raises(DcrecError if step == "commit" else Exception, match=expected):
            output.publish("new")
    finally:
        store.gate.open()
    time.sleep(3)  # connections that broke are looked at, and not used, when they have rested for two seconds
    assert current() == b"old\n"
    output.publish("next")
    assert current() == b"next\n"


@pytest.mark.parametrize("output", ["s3", "gs", "hdfs"], indirect=True)
def test_a_model_is_saved_replaced_and_loaded(output: Output) -> None:
    path = f"{output.uri}/estimator"
    PoissonFactorization(rank=3).write().save(path)
    with pytest.raises(ConfigError, match="exists already"):
        PoissonFactorization(rank=4).write().save(path)
    PoissonFactorization(rank=5).write().overwrite().save(path)
    assert PoissonFactorization.load(path).getOrDefault("rank") == 5


def test_files_of_hdfs_are_written_replaced_moved_locked_and_deleted(hdfs: Hdfs, spark: SparkSession) -> None:
    files, root = open_files(f"{hdfs.uri}/files", spark)
    assert isinstance(files, HadoopFiles)
    files.check_writable(root)
    files.make_directory(f"{root}/a/b c")
    for content in (b"old", b"new \xff\x00", b"", b"last"):
        files.write(f"{root}/a/CURRENT", content)
        assert files.read(f"{root}/a/CURRENT") == content
        assert files.sha256(f"{root}/a/CURRENT") == hashlib.sha256(content).hexdigest()
    assert hdfs.copy(f"{root}/a/CURRENT").read_bytes() == b"last"
    files.make_directory(f"{root}/taken")
    with pytest.raises(OSError, match="exist"):
        files.rename(f"{root}/a", f"{root}/taken")
    files.rename(f"{root}/a", f"{root}/run_id=1")
    assert [entry.name for entry in files.list(f"{root}/run_id=1")] == ["CURRENT", "b c"]
    with files.lock(f"{root}/.lock"), pytest.raises(ConflictError, match="another process holds"):
        files.lock(f"{root}/.lock", seconds=0).__enter__()
    with files.lock(f"{root}/.lock", seconds=0):  # it is free again
        assert ".lock" in [entry.name for entry in files.list(root)]
    files.delete(root)
    assert files.list(root) == []
    assert not files.exists(root)


def test_of_two_who_save_a_model_at_once_one_wins(output: Output) -> None:
    path = f"{output.uri}/estimator"
    PoissonFactorization(rank=5).write().save(path)

    class Slow(PoissonFactorization):
        def _saved(self) -> Any:
            PoissonFactorization(rank=6).write().overwrite().save(path)
            return super()._saved()

    with pytest.raises(ConflictError, match="another process saved a model"):
        Slow(rank=7).write().overwrite().save(path)
    assert PoissonFactorization.load(path).getOrDefault("rank") == 6
