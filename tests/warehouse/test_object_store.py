"""Publishing to S3: one whole run at every moment, whoever dies, races or goes away; judged by boto3 and PyArrow."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import AuditError, ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.publish import object_store
from dcrec_spark.publish.current import current_run, read_current
from dcrec_spark.publish.object_store import ObjectStoreSink, open_output
from dcrec_spark.publish.parquet import StagedRun, verify
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.protocol import publish
from dcrec_spark.publish.server import Server
from dcrec_spark.publish.several import Several
from dcrec_spark.storage import staging
from dcrec_spark.storage.hadoop import ObjectFiles
from dcrec_spark.storage.protocol import ChangedError
from tests.storage.stores import Killed
from tests.warehouse.objects import BUCKET, Found, ObjectStore
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "item_factors")
ROWS = 2 * len(IDS)
AWAY_SECONDS = 2.0


@pytest.fixture
def output(store: ObjectStore, request: pytest.FixtureRequest) -> str:
    return f"out-{crc32(request.node.nodeid.encode())}/nightly"


@pytest.fixture
def sink(output: str, spark: SparkSession) -> ObjectStoreSink:
    made = open_output(f"s3a://{BUCKET}/{output}", spark)
    assert isinstance(made, ObjectStoreSink)
    return made


def send(sink: ObjectStoreSink, spark: SparkSession, run_id: str, users: int = len(IDS), **steps: Any) -> str:
    return publish(sink, run_id, tables_of(spark, run_id, users, NAMES), lambda _: record(run_id), **steps)


def staged(sink: ObjectStoreSink, spark: SparkSession, run_id: str) -> StagedRun:
    return sink.stage(run_id, tables_of(spark, run_id, names=NAMES), {})


def whole(run_id: str, users: int = len(IDS)) -> Found:
    return Found(run_id, frozenset({run_id}), 2 * users)


@contextmanager
def readers(store: ObjectStore, output: str, *expected: Found) -> Iterator[list[Found]]:
    """Look all the time, by two readers; what was found that is none of those expected. Looks are counted."""
    stop, torn, looks = threading.Event(), list[Any](), list[Found]()

    def keep_looking() -> None:
        while not stop.is_set():
            found = store.found(output)
            if found not in expected:
                torn.append(found)
            elif found is not None:
                looks.append(found)

    threads = [threading.Thread(target=keep_looking) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield looks
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert torn == []
    assert len(looks) > 20


def test_a_run_replaces_the_one_before_whole_and_readers_look_all_the_time(
    sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str
) -> None:
    where = send(sink, spark, "monday")
    assert where == f"s3a://{BUCKET}/{output}/run_id=monday"
    with readers(store, output, whole("monday"), whole("tuesday", 3)) as looks:
        send(sink, spark, "tuesday", users=3)
        time.sleep(0.5)
    assert {look.run_id for look in looks} == {"monday", "tuesday"}
    manifest = json.loads(store.get(f"{output}/run_id=tuesday/manifest.json"))
    assert manifest["tables"]["recommendations"]["rows"] == 6
    verify(f"s3a://{BUCKET}/{output}/run_id=monday", spark)
    assert current_run(sink.given, spark).record["run_id"] == "tuesday"
    assert read_current(spark, sink.given, "recommendations").count() == 6
    assert sink.run_ids() == ["monday", "tuesday"]
    assert [key for key in store.keys(output) if "/." in key or "_temporary" in key] == []


@pytest.mark.parametrize("before", [None, "before"])
def test_of_two_publishers_one_wins_and_the_other_ends_with_5_and_leaves_nothing(
    before: str | None, sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str
) -> None:
    if before is not None:
        send(sink, spark, before)
    runs = [staged(sink, spark, name) for name in ("a", "b")]
    start = threading.Barrier(2)

    def attempt(run: StagedRun) -> str | None:
        start.wait()
        try:
            sink.commit(run, record(run.run_id))
        except ConflictError as error:
            sink.discard(run)
            return f"{error.exit_code}: {error}"
        return None

    with ThreadPoolExecutor(2) as pool:
        said = dict(zip(("a", "b"), pool.map(attempt, runs), strict=True))
    (winner,) = [name for name, error in said.items() if error is None]
    (loser,) = said.keys() - {winner}
    assert str(said[loser]).startswith("5: ")
    assert f"went from run {before} to run {winner}" in str(said[loser])
    assert store.found(output) == whole(winner)
    assert store.keys(f"{output}/run_id={loser}/") == []


def test_of_many_that_put_the_pointer_at_once_one_wins(
    sink: ObjectStoreSink, spark: SparkSession, record_property: Any
) -> None:
    record_property("tried", 24)
    path = f"{sink.root}/POINTER"
    for _ in ("the first pointer", "the next one"):
        version = sink.files.version(path)

        def attempt(number: int, version: str | None = version) -> bool:
            try:
                sink.files.write_over(path, f"run{number}, over {version}".encode(), version)
            except ChangedError:
                return False
            return True

        with ThreadPoolExecutor(12) as pool:
            assert sum(pool.map(attempt, range(12))) == 1


def test_of_two_publishers_to_several_places_the_late_one_leaves_all_of_them_to_the_other(
    sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str, postgresql: str, monkeypatch: Any
) -> None:
    """One has shown its tables in PostgreSQL already when another publishes to both; no lock holds it up."""
    namespace = f"several_{crc32(output.encode())}"
    server = Server.open(postgresql, "publisher", None, "test")

    def publish_to_both(run_id: str) -> None:
        warehouse = PostgresqlWarehouse(spark, server, namespace, 3, RUN_DATE, lock_seconds=5)
        warehouse.check()
        tables = tables_of(spark, run_id, names=NAMES)
        try:
            publish(Several(spark, sink, [warehouse]), run_id, tables, lambda _: record(run_id))
        finally:
            warehouse.close()

    publish_to_both("before")
    commit, begun = ObjectStoreSink.commit, list[str]()

    def overtaken(sink: ObjectStoreSink, run: StagedRun, record: Mapping[str, object]) -> str:
        if not begun:
            begun.append(run.run_id)
            publish_to_both("fast")
        return commit(sink, run, record)

    monkeypatch.setattr(ObjectStoreSink, "commit", overtaken)
    with pytest.raises(ConflictError, match="went from run before to run fast"):
        publish_to_both("late")
    assert begun == ["late"]
    assert store.found(output) == whole("fast")
    reader = server.connect("test")
    assert reader.execute(f"select distinct run_id from {namespace}.recommendations").fetchall() == [("fast",)]
    reader.close()


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

    def delete(self, path: str) -> None:
        self._change("delete", path)


@pytest.mark.parametrize("after", [False, True])
def test_a_publisher_that_dies_at_any_change_leaves_the_old_run_or_the_new(
    after: bool, sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str, record_property: Any
) -> None:
    """The changes of a commit: the record, the manifest, the pointer, the mark."""
    record_property("tried", 4)
    send(sink, spark, "old")
    steps = []
    for change in range(1, 5):
        run_id = f"new{change}"
        run = staged(sink, spark, run_id)
        before = store.current(output)
        dying = ObjectStoreSink(DyingObjects(spark, sink.given, change, after), sink.root, sink.given)
        with pytest.raises(Killed):
            dying.commit(run, record(run_id))
        now = store.current(output)
        assert now in (before, run_id)
        assert store.found(output) == whole(str(now))
        verify(f"{sink.given}/run_id={now}", spark)
        steps.append(now == run_id)
    assert steps == ([False, False, True, True] if after else [False, False, False, True])
    send(sink, spark, "next")
    assert store.found(output) == whole("next")
    published = [run_id for number, run_id in enumerate(("new1", "new2", "new3", "new4")) if steps[number]]
    assert sink.run_ids() == [*published, "next", "old"]


def test_what_a_publisher_that_died_has_left_goes_when_it_is_old_and_nothing_else_does(
    sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(sink, spark, "one")
    send(sink, spark, "two")
    staged(sink, spark, "dead")
    sink.remove_leftovers()
    assert store.keys(f"{output}/run_id=dead") != []
    monkeypatch.setattr(staging, "STALE_SECONDS", -60)
    sink.remove_leftovers()
    assert store.keys(f"{output}/run_id=dead") == []
    assert sink.run_ids() == ["one", "two"]
    for run_id in sink.run_ids():
        verify(f"{sink.given}/run_id={run_id}", spark)


def test_what_the_audit_refuses_or_is_damaged_is_not_served(
    sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(sink, spark, "good")

    def refuse(_: StagedRun) -> None:
        raise AuditError("refused")

    with pytest.raises(AuditError, match="refused"):
        send(sink, spark, "refused", audit=refuse)
    assert store.keys(f"{output}/run_id=refused") == []
    commit = ObjectStoreSink.commit

    def damage(sink: ObjectStoreSink, run: StagedRun, record: Mapping[str, object]) -> str:
        where = commit(sink, run, record)
        (part, *_) = [key for key in store.keys(f"{output}/run_id={run.run_id}/recomm") if key.endswith(".parquet")]
        store.put(part, b"gone")
        return where

    monkeypatch.setattr(ObjectStoreSink, "commit", damage)
    with pytest.raises(DcrecError, match=r"found damaged, and withdrawn \(readers are back on run good\)"):
        send(sink, spark, "damaged")
    assert store.found(output) == whole("good")
    assert store.keys(f"{output}/run_id=damaged") == []
    assert sink.run_ids() == ["good"]


def test_old_runs_go_and_one_that_is_kept_is_gone_back_to(
    sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("r1", "r2", "r3", "r4"):
        send(sink, spark, run_id)
    sink.restore("r2")
    assert store.found(output) == whole("r2")
    assert sink.prune(1) == ["r1", "r3"]
    assert sink.run_ids() == ["r2", "r4"]
    with pytest.raises(DataError, match=r"manifest\.json"):
        sink.restore("r3")
    # Somebody goes back to a run at the very moment when it is removed: before it was looked at, and after.
    sink.restore("r4")
    read = ObjectFiles.read

    def meanwhile(files: ObjectFiles, path: str) -> bytes:
        content = read(files, path)
        if path.endswith("run_id=r2/manifest.json"):
            store.put(f"{output}/CURRENT", b"r2\n")
        return content

    with monkeypatch.context() as patch:
        patch.setattr(ObjectFiles, "read", meanwhile)
        assert sink.prune(1) == []
    assert store.found(output) == whole("r2")
    verify(f"{sink.given}/run_id=r2", spark)
    sink.restore("r4")
    point_to = ObjectStoreSink._point_to

    def removed(sink: ObjectStoreSink, run_id: str, version: str | None) -> None:
        store.client.delete_object(Bucket=BUCKET, Key=f"{output}/run_id=r2/manifest.json")
        point_to(sink, run_id, version)

    monkeypatch.setattr(ObjectStoreSink, "_point_to", removed)
    with pytest.raises(DataError, match=r"run r2 .* was removed meanwhile; readers are back on run r4"):
        sink.restore("r2")
    assert store.found(output) == whole("r4")


@pytest.mark.parametrize("step", ["stage", "commit", "verify"])
def test_a_store_that_goes_away_and_comes_back_costs_time_and_not_the_run(
    step: str,
    sink: ObjectStoreSink,
    spark: SparkSession,
    store: ObjectStore,
    output: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send(sink, spark, "old")
    inside = {"stage": "write_parts", "commit": "write_manifest", "verify": "check_manifest"}[step]
    work, gone = getattr(object_store, inside), list[str]()

    def goes_away(*given: Any) -> Any:
        if not gone:
            gone.append(step)
            store.gate.shut_for(AWAY_SECONDS)
        return work(*given)

    monkeypatch.setattr(object_store, inside, goes_away)
    with readers(store, output, whole("old"), whole("new")):
        send(sink, spark, "new")
    assert gone == [step]
    assert store.found(output) == whole("new")


@pytest.mark.parametrize("step", ["stage", "commit"])
def test_a_store_that_stays_away_is_named_and_has_the_tables_of_before(
    step: str, spark: SparkSession, store: ObjectStore, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a bucket whose client gives up at once."""
    bucket = f"impatient-{step}"
    store.client.create_bucket(Bucket=bucket)
    for name, value in {"retry.limit": "1", "attempts.maximum": "1", "retry.interval": "10ms"}.items():
        spark.conf.set(f"fs.s3a.bucket.{bucket}.{name}", value)
    sink = open_output(f"s3a://{bucket}/{output}", spark)
    assert isinstance(sink, ObjectStoreSink)
    send(sink, spark, "old")
    inside = {"stage": "write_parts", "commit": "write_manifest"}[step]
    work = getattr(object_store, inside)

    def goes_away(*given: Any) -> Any:
        store.gate.shut()
        return work(*given)

    monkeypatch.setattr(object_store, inside, goes_away)
    expected = r"run new was not published: s3a://impatient-commit" if step == "commit" else "Connection|connect"
    try:
        with pytest.raises(DcrecError if step == "commit" else Exception, match=expected):
            send(sink, spark, "new")
    finally:
        store.gate.open()
    monkeypatch.undo()
    time.sleep(3)  # connections that broke are looked at, and not used, when they have rested for two seconds
    assert store.client.get_object(Bucket=bucket, Key=f"{output}/CURRENT")["Body"].read() == b"old\n"
    send(sink, spark, "next")
    assert store.client.get_object(Bucket=bucket, Key=f"{output}/CURRENT")["Body"].read() == b"next\n"


def test_an_answer_that_gets_lost_after_the_pointer_was_put_is_no_conflict(
    sink: ObjectStoreSink, spark: SparkSession, store: ObjectStore, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has done it, the connection breaks, and asking again meets one's own pointer."""
    put = ObjectFiles.write_over

    def twice(files: ObjectFiles, *given: Any) -> None:
        put(files, *given)
        put(files, *given)

    monkeypatch.setattr(ObjectFiles, "write_over", twice)
    send(sink, spark, "one")
    send(sink, spark, "two")
    assert store.found(output) == whole("two")


def test_an_output_that_is_not_there_is_named(spark: SparkSession, store: ObjectStore) -> None:
    for output in ("s3a://no-such-bucket/out", "s3a://no-such-bucket"):
        with pytest.raises(ConfigError, match=r"output\.path is 's3a://no-such-bucket.*does not exist"):
            open_output(output, spark).check_writable()


def test_a_model_is_saved_replaced_and_loaded_and_of_two_who_save_at_once_one_wins(
    spark: SparkSession, store: ObjectStore, output: str
) -> None:
    path = f"s3a://{BUCKET}/{output}/estimator"
    PoissonFactorization(rank=3).write().save(path)
    with pytest.raises(ConfigError, match="exists already"):
        PoissonFactorization(rank=4).write().save(path)
    PoissonFactorization(rank=5).write().overwrite().save(path)
    assert PoissonFactorization.load(path).getOrDefault("rank") == 5

    metadata = store.get(f"{output}/estimator/metadata/part-00000")

    class Slow(PoissonFactorization):
        def _saved(self) -> Any:
            store.put(f"{output}/estimator/metadata/part-00000", metadata.replace(b'"rank":5', b'"rank":6'))
            return super()._saved()

    with pytest.raises(ConflictError, match="another process saved a model"):
        Slow(rank=7).write().overwrite().save(path)
    assert PoissonFactorization.load(path).getOrDefault("rank") == 6
