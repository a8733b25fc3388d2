"""Commits on object stores, in memory: the servers' own words are in tests/warehouse."""

import time
from functools import partial
from typing import Any

import pytest

from dcrec_spark.errors import ConflictError, DataError, DcrecError
from dcrec_spark.publish.current import run_id_in
from dcrec_spark.publish.manifest import check_manifest, fingerprint
from dcrec_spark.publish.object_store import ObjectStoreSink
from dcrec_spark.publish.parquet import StagedRun
from dcrec_spark.storage.staging import STALE_SECONDS
from tests.steps import at_first
from tests.storage.stores import MemoryObjects, NumberedObjects

ROOT = "/out"


@pytest.fixture(params=[MemoryObjects, NumberedObjects])
def files(request: pytest.FixtureRequest) -> MemoryObjects:
    return request.param()


@pytest.fixture
def sink(files: MemoryObjects) -> ObjectStoreSink:
    return ObjectStoreSink(files, ROOT, "s3a://shop/out")


def stage(sink: ObjectStoreSink, run_id: str) -> StagedRun:
    """What ``stage`` leaves, without Spark."""
    files, path = sink.files, f"{ROOT}/run_id={run_id}"
    version, base = sink.files.version(f"{ROOT}/CURRENT"), run_id_in(files, ROOT)
    files.write(f"{path}/_begun", b"")
    files.write(f"{path}/lists/part-0.parquet", run_id.encode())
    tables = {"lists": fingerprint(files, f"{path}/lists", 1)}
    return StagedRun(files, ROOT, run_id, path, base, tables, version=version)


def publish(sink: ObjectStoreSink, run_id: str) -> None:
    run = stage(sink, run_id)
    sink.commit(run, {"run_id": run_id})
    sink.verify(run)


def current(files: MemoryObjects) -> str:
    """The run that the pointer names, checked as a reader could."""
    run_id = files.read(f"{ROOT}/CURRENT").decode().strip()
    check_manifest(files, f"{ROOT}/run_id={run_id}")
    return run_id


def test_of_two_publishers_the_second_to_commit_loses(sink: ObjectStoreSink, files: MemoryObjects) -> None:
    for before in (None, "a"):
        first, second = stage(sink, f"a{before}"), stage(sink, f"b{before}")
        sink.commit(first, {})
        with pytest.raises(ConflictError, match=f"went from run {second.base} to run a{before}") as conflict:
            sink.commit(second, {})
        assert conflict.value.exit_code == 5
        sink.discard(second)
        sink.discard(first)  # is published, and stays
        assert current(files) == f"a{before}"
    assert sink.run_ids() == ["aNone", "aa"]
    assert not files.exists(f"{ROOT}/run_id=bNone")
    assert not files.exists(f"{ROOT}/run_id=ba")


def test_a_lost_answer_is_no_conflict_and_a_store_away_is_named(
    sink: ObjectStoreSink, files: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sink, "a")
    put = type(files).write_over

    def twice(files: MemoryObjects, *given: Any) -> None:
        put(files, *given)
        put(files, *given)

    def away(*_: Any) -> None:
        raise OSError("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(type(files), "write_over", twice)
        publish(sink, "b")
    assert current(files) == "b"
    run = stage(sink, "c")
    for step, message in (
        ("write_over", "readers have that run or run b, whole; see which by 'dcrec runs'"),
        ("write", "run c was not published: s3a://shop/out: timed out"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(type(files), step, away)
            with pytest.raises(DcrecError, match=message):
                sink.commit(run, {})
    sink.discard(run)
    assert current(files) == "b"


def test_a_damaged_run_is_withdrawn(sink: ObjectStoreSink, files: MemoryObjects) -> None:
    for run_id, now in (("first", "none is published"), ("second", "readers are back on run good")):
        run = stage(sink, run_id)
        sink.commit(run, {})
        files.write(f"{run.path}/lists/part-0.parquet", b"gone")
        with pytest.raises(DcrecError, match=f"found damaged, and withdrawn .{now}"):
            sink.verify(run)
        assert not files.exists(run.path)
        if run_id == "first":
            publish(sink, "good")
    assert current(files) == "good"


def test_old_runs_go_and_an_older_one_is_gone_back_to(sink: ObjectStoreSink, files: MemoryObjects) -> None:
    for run_id in ("r1", "r2", "r3"):
        publish(sink, run_id)
    sink.restore("r1")
    assert current(files) == "r1"
    assert sink.prune(1) == ["r2"]
    with pytest.raises(DataError):
        sink.restore("r2")
    files.delete(f"{ROOT}/run_id=r1/_published")  # as if its publisher had died between the pointer and the mark
    assert sink.run_ids() == ["r1", "r3"]
    publish(sink, "r4")
    assert current(files) == "r4"
    assert sink.run_ids() == ["r1", "r3", "r4"]


def test_a_rollback_that_races_a_retention_keeps_the_run_or_loses(
    sink: ObjectStoreSink, files: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody goes back to a run while it is removed, and it is removed while somebody goes back to it."""
    for run_id in ("r1", "r2"):
        publish(sink, run_id)
    pointer = f"{ROOT}/CURRENT"
    with monkeypatch.context() as patch:
        version = files.version(pointer)
        at_first(patch, type(files), "delete", partial(files.write_over, pointer, b"r1\n", version))
        assert sink.prune(1) == []
    assert current(files) == "r1"
    sink.restore("r2")
    at_first(monkeypatch, type(files), "write_over", lambda: files.delete(f"{ROOT}/run_id=r1/manifest.json"))
    with pytest.raises(ConflictError, match=r"run r1 .* was removed meanwhile, by a run that keeps fewer"):
        sink.restore("r1")
    assert current(files) == "r2"


def test_a_damaged_pointer_hides_no_run_and_a_rollback_mends_it(sink: ObjectStoreSink, files: MemoryObjects) -> None:
    for run_id in ("r1", "r2"):
        publish(sink, run_id)
    files.write_over(f"{ROOT}/CURRENT", b"?!", files.version(f"{ROOT}/CURRENT"))
    assert sink.run_ids() == ["r1", "r2"]
    sink.restore("r1")
    assert current(files) == "r1"


def test_leftovers_go_when_they_are_old(sink: ObjectStoreSink, files: MemoryObjects) -> None:
    publish(sink, "published")
    stage(sink, "dead")
    stage(sink, "living")
    files.write(f"{ROOT}/.tmp-dead", b"")
    long_ago = time.time() - STALE_SECONDS - 60
    for path in files.times:
        if "living/lists" not in path:
            files.times[path] = long_ago
    sink.remove_leftovers()
    left = {entry.name.partition(".0")[0] for entry in files.list(ROOT)}
    assert left == {"CURRENT", "run_id=published", "run_id=living"}
