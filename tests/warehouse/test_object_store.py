"""Publishing to S3 and HDFS: one whole run at every moment, whoever dies, races or goes away; judged from outside."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.publish import object_store
from dcrec_spark.publish.object_store import ObjectStoreSink, open_output
from dcrec_spark.publish.parquet import ParquetSink, StagedRun, verify
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.several import Several
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.hadoop import HadoopFiles, ObjectFiles
from dcrec_spark.storage.protocol import ChangedError
from tests.storage.stores import Killed
from tests.warehouse.judges import Place, watching
from tests.warehouse.objects import BUCKET, Found, ObjectStore
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


def found_in(hdfs: Hdfs, path: str) -> Found:
    copy = hdfs.copy(path)
    run_id = (copy / "CURRENT").read_text().strip()
    rows = pq.read_table(copy / f"run_id={run_id}" / "recommendations", partitioning=None)["run_id"].to_pylist()
    return Found(run_id, frozenset(rows), len(rows))


@pytest.fixture(params=["s3"])
def output(request: pytest.FixtureRequest, spark: SparkSession) -> Output:
    path = f"out-{crc32(request.node.nodeid.encode())}/nightly"
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        sink = open_output(f"{hdfs.uri}/{path}", spark)
        assert isinstance(sink, ParquetSink)
        return Output(
            spark,
            sink,
            f"/{path}",
            lambda: found_in(hdfs, f"/{path}"),
            lambda: {p.name for p in hdfs.copy(f"/{path}").iterdir()},
        )
    store: ObjectStore = request.getfixturevalue("store")
    objects = open_output(f"s3a://{BUCKET}/{path}", spark)
    assert isinstance(objects, ObjectStoreSink)
    return Output(
        spark, objects, path, lambda: store.found(path), lambda: {key.split("/")[2] for key in store.keys(f"{path}/")}
    )


@contextmanager
def readers(output: Output, *expected: Found) -> Iterator[None]:
    """Two readers look all the time; they find what is expected, each of it, and nothing else."""
    with watching(output.found, output.found) as seen:
        yield
    assert set(seen[0]) | set(seen[1]) == set(expected)
    assert seen[0].total() + seen[1].total() > 20


def put_by_many(output: Output, times: int) -> list[int]:
    """Twelve put the pointer at once, so many times. Returns how many were the first, each time."""
    files, path = output.sink.files, f"{output.sink.root}/POINTER"

    def attempt(number: int, version: str | None) -> bool:
        try:
            files.write_over(path, f"run{number}, over {version}".encode(), version)
        except ChangedError:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        return [sum(pool.map(attempt, range(12), [files.version(path)] * 12)) for _ in range(times)]


@pytest.mark.parametrize(
    ("output", "before"), [("s3", None), ("s3", "before"), ("hdfs", "before")], indirect=["output"]
)
def test_of_two_publishers_one_wins_and_the_other_ends_with_5_and_leaves_nothing(
    output: Output, before: str | None
) -> None:
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


def test_of_many_that_put_the_pointer_at_once_one_wins(output: Output, record_property: Any) -> None:
    record_property("tried", 24)
    assert put_by_many(output, times=2) == [1, 1]


def test_of_two_publishers_to_several_places_the_late_one_leaves_all_of_them_to_the_other(
    output: Output, opened: Callable[..., Place], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has shown its tables in PostgreSQL already when another publishes to both; no lock holds it up."""

    def publish_to_both(run_id: str) -> Place:
        place = opened("postgresql", f"several_{crc32(output.path.encode())}", lock_seconds=5)
        tables = tables_of(spark, run_id, names=NAMES)
        publish(Several(spark, output.sink, [place.warehouse]), run_id, tables, lambda _: record(run_id))
        return place

    place, commit, begun = publish_to_both("before"), ObjectStoreSink.commit, list[str]()

    def overtaken(sink: ObjectStoreSink, run: StagedRun, record: Mapping[str, object]) -> str:
        if not begun:
            begun.append(run.run_id)
            publish_to_both("fast")
        return commit(sink, run, record)

    monkeypatch.setattr(ObjectStoreSink, "commit", overtaken)
    with pytest.raises(ConflictError, match="went from run before to run fast"):
        publish_to_both("late")
    assert begun == ["late"]
    assert output.found() == whole("fast")
    assert set(place.judge("recommendations")["run_id"]) == {"fast"}


class DyingObjects(ObjectFiles):
    """Dies at the n-th change, before or after making it, and then changes nothing more: like a process."""

    def __init__(self, spark: SparkSession, uri: str, changes_left: int, after: bool) -> None:
        super().__init__(spark, uri, "output.path")
        self.changes_left, self.after = changes_left, after

    def _change(self, name: str, *given: Any) -> None:
        self.changes_left -= 1
        if self.changes_left == 0 and self.after:
            getattr(super(), name)(*given)
        if self.changes_left <= 0:
            raise Killed
        getattr(super(), name)(*given)

    def write(self, path: str, content: bytes) -> None:
        self._change("write", path, content)

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        self._change("write_over", path, content, version)

    def create(self, path: str, content: bytes) -> None:
        self._change("create", path, content)

    def delete(self, path: str) -> None:
        self._change("delete", path)


@pytest.mark.parametrize("after", [False, True])
def test_a_publisher_that_dies_at_any_change_leaves_the_old_run_or_the_new(
    after: bool, output: Output, spark: SparkSession, store: ObjectStore, record_property: Any
) -> None:
    """The changes of a commit: the record, the manifest, the pointer, the mark."""
    record_property("tried", 4)
    output.publish("old")
    steps = []
    for change in range(1, 5):
        run_id = f"new{change}"
        run = output.stage(run_id)
        before = store.current(output.path)
        dying = ObjectStoreSink(DyingObjects(spark, output.uri, change, after), output.sink.root, output.uri)
        with pytest.raises(Killed):
            dying.commit(run, record(run_id))
        now = store.current(output.path)
        assert now in (before, run_id)
        assert output.found() == whole(str(now))
        verify(f"{output.uri}/run_id={now}", spark)
        steps.append(now == run_id)
    assert steps == ([False, False, True, True] if after else [False, False, False, True])
    output.publish("next")
    assert output.found() == whole("next")
    published = [run_id for number, run_id in enumerate(("new1", "new2", "new3", "new4")) if steps[number]]
    assert output.sink.run_ids() == [*published, "next", "old"]


def test_old_runs_go_and_one_that_is_kept_is_gone_back_to(
    output: Output, spark: SparkSession, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("r1", "r2", "r3", "r4"):
        output.publish(run_id)
    output.sink.restore("r2")
    assert output.found() == whole("r2")
    assert output.sink.prune(1) == ["r1", "r3"]
    assert output.sink.run_ids() == ["r2", "r4"]
    with pytest.raises(DataError, match=r"manifest\.json"):
        output.sink.restore("r3")
    # Somebody goes back to a run at the very moment when it is removed: before it was looked at, and after.
    output.sink.restore("r4")
    read = ObjectFiles.read

    def meanwhile(files: ObjectFiles, path: str) -> bytes:
        content = read(files, path)
        if path.endswith("run_id=r2/manifest.json"):
            store.put(f"{output.path}/CURRENT", b"r2\n")
        return content

    with monkeypatch.context() as patch:
        patch.setattr(ObjectFiles, "read", meanwhile)
        assert output.sink.prune(1) == []
    assert output.found() == whole("r2")
    verify(f"{output.uri}/run_id=r2", spark)
    output.sink.restore("r4")
    point_to = ObjectStoreSink._point_to

    def removed(sink: ObjectStoreSink, run_id: str, version: str | None) -> None:
        store.client.delete_object(Bucket=BUCKET, Key=f"{output.path}/run_id=r2/manifest.json")
        point_to(sink, run_id, version)

    monkeypatch.setattr(ObjectStoreSink, "_point_to", removed)
    with pytest.raises(ConflictError, match=r"run r2 .* was removed meanwhile, by a run that keeps fewer"):
        output.sink.restore("r2")
    assert output.found() == whole("r4")


# What each step calls, by which the store goes away in its middle.
INSIDE = {"stage": "write_parts", "commit": "write_manifest", "verify": "check_manifest"}


def at_a_step(step: str, happens: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have something happen once, inside a step; the list fills when it has."""
    work, done = getattr(object_store, INSIDE[step]), list[str]()

    def work_after(*given: Any) -> Any:
        if not done:
            done.append(step)
            happens()
        return work(*given)

    monkeypatch.setattr(object_store, INSIDE[step], work_after)
    return done


@pytest.mark.parametrize("step", INSIDE)
def test_a_store_that_goes_away_and_comes_back_costs_time_and_not_the_run(
    step: str, output: Output, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    output.publish("old")
    gone = at_a_step(step, lambda: store.gate.shut_for(AWAY_SECONDS), monkeypatch)
    with readers(output, whole("old"), whole("new")):
        output.publish("new")
        time.sleep(0.5)
    assert gone == [step]


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
        content: bytes = store.client.get_object(Bucket=bucket, Key="out/CURRENT")["Body"].read()
        return content

    output.publish("old")
    expected = r"run new was not published: s3a://impatient-commit" if step == "commit" else "Connection|connect"
    with monkeypatch.context() as patch:
        at_a_step(step, store.gate.shut, patch)
        try:
            with pytest.raises(DcrecError if step == "commit" else Exception, match=expected):
                output.publish("new")
        finally:
            store.gate.open()
    time.sleep(3)  # connections that broke are looked at, and not used, when they have rested for two seconds
    assert current() == b"old\n"
    output.publish("next")
    assert current() == b"next\n"


@pytest.mark.parametrize("output", ["s3", "hdfs"], indirect=True)
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
