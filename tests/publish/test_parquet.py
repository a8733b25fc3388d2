"""Publishing to a run directory: readers find the old tables or the new ones, whole, whatever dies when."""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import current_run
from dcrec_spark.errors import ConfigError, ConflictError, DataError, DcrecError
from dcrec_spark.publish.current import current_run_id, read_current
from dcrec_spark.publish.manifest import fingerprint
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.parquet import ParquetSink, StagedRun, record_aside, verify
from dcrec_spark.publish.protocol import publish as publish_to
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.local import LocalFiles
from tests.frames import frame_of
from tests.steps import at_first
from tests.storage.stores import DyingFiles, Killed

TABLES = ("recommendations", "user_factors")


def tables_of(spark: SparkSession, run_id: str, rows: int = 5) -> dict[str, DataFrame]:
    return {name: spark.range(rows).selectExpr("id", f"'{run_id}' as run_id") for name in TABLES}


def record_of(staged: StagedRun) -> dict[str, object]:
    return {"run_id": staged.run_id, "rows": {name: table.rows for name, table in staged.tables.items()}}


def publish(spark: SparkSession, output: str, run_id: str, tables: Mapping[str, DataFrame], **more: Any) -> str:
    return publish_to(open_output(output, spark), run_id, tables, record_of, **more)


def commit(staged: StagedRun, record: Mapping[str, object]) -> str:
    """By the files of the staged run, which may be dying ones."""
    return ParquetSink(staged.files, staged.output, staged.output).commit(staged, record)


def discard(staged: StagedRun) -> None:
    ParquetSink(staged.files, staged.output, staged.output).discard(staged)


def stage_by_hand(output: Path, run_id: str) -> StagedRun:
    """What ``stage`` leaves, without Spark, for tests of the commit alone."""
    files, root = open_files(str(output))
    path = f"{root}/.staging-{run_id}-{os.getpid()}"
    base = current_run_id(str(output))
    for name in TABLES:
        Path(path, name).mkdir(parents=True)
        pq.write_table(pa.table({"id": range(5), "run_id": [run_id] * 5}), f"{path}/{name}/part-0.parquet")
    written = {name: fingerprint(files, f"{path}/{name}", 5) for name in TABLES}
    return StagedRun(files, root, run_id, path, base, written)


def run_that_is_read(output: Path) -> str:
    """The current run after checking, as a reader could, that both of its tables are whole and its own."""
    run_id = current_run_id(str(output))
    verify(f"{output}/run_id={run_id}")
    for name in TABLES:
        parts = [pq.ParquetFile(part).read() for part in (output / f"run_id={run_id}" / name).glob("*.parquet")]
        assert pa.concat_tables(parts)["run_id"].to_pylist() == [run_id] * 5
    return run_id


def hidden_names(output: Path) -> set[str]:
    return {path.name for path in output.iterdir() if path.name.startswith(".")} - {".lock"}


def test_published_tables_are_read_back(spark: SparkSession, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    with pytest.raises(DataError, match=r"nothing is published under .* no CURRENT"):
        read_current(spark, output, "recommendations")
    tables = {
        "recommendations": frame_of(spark, [("ü\u200d/'", 1, 0.5)], "user_id string, rank int, score double"),
        "rejects": frame_of(spark, [], "raw string, reasons array<string>"),
    }
    directory = publish(spark, output, "r1", tables)
    assert directory == f"file://{output}/run_id=r1"
    run = Path(output, "run_id=r1")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["run_id"] == "r1"
    for name, table in tables.items():
        assert_df_equality(read_current(spark, output, name), table)
        on_disk = {path.name: path.stat().st_size for path in (run / name).glob("*.parquet")}
        assert manifest["tables"][name]["rows"] == table.count()
        assert manifest["tables"][name]["bytes"] == sum(on_disk.values())
        assert manifest["tables"][name]["sha256"].keys() == on_disk.keys()
    assert json.loads((run / "run.json").read_text())["rows"] == {"recommendations": 1, "rejects": 0}
    verify(directory)
    assert sorted(os.listdir(output)) == [".lock", "CURRENT", "run_id=r1"]
    with pytest.raises(DataError, match=r"run r1 .* has no table others"):
        read_current(spark, output, "others")
    (run.parent / "CURRENT").write_text("../../etc")
    with pytest.raises(DataError, match=r"CURRENT holds '\.\./\.\./etc'"):
        read_current(spark, output, "recommendations")


def test_a_reader_of_a_run_that_is_removed_finds_no_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    publish(spark, output, "r1", tables_of(spark, "r1"))
    opened = read_current(spark, output, "recommendations")
    parts = [pq.ParquetFile(part) for part in (tmp_path / "out/run_id=r1/recommendations").glob("*.parquet")]
    for run_id in ("r2", "r3"):
        publish(spark, output, run_id, tables_of(spark, run_id))
    assert open_output(output).prune(2) == ["r1"]
    rows = [row for part in parts for row in part.read(["run_id"]).to_pylist()]
    assert rows == [{"run_id": "r1"}] * 5  # open files outlive their names
    with pytest.raises(Exception, match="run_id=r1"):
        opened.collect()
    assert {row.run_id for row in read_current(spark, output, "recommendations").collect()} == {"r3"}


def test_a_published_run_id_is_never_written_again(tmp_path: Path) -> None:
    for run_id in ("r1", "r2"):
        commit(stage_by_hand(tmp_path, run_id), {})
    with pytest.raises(ConflictError, match="run_id r1 is already published"):
        commit(stage_by_hand(tmp_path, "r1"), {})
    assert run_that_is_read(tmp_path) == "r2"


@pytest.mark.parametrize("run_id", ["", "../up", ".hidden", "a\nb", "x" * 129])
def test_a_run_id_that_is_not_a_plain_name_is_refused(spark: SparkSession, tmp_path: Path, run_id: str) -> None:
    with pytest.raises(ConfigError, match="run_id is"):
        open_output(str(tmp_path / "out"), spark).stage(run_id, {}, {})
    with pytest.raises(ConfigError, match="run_id is"):
        record_aside(str(tmp_path / "out"), run_id, {})
    assert os.listdir(tmp_path) == []


def test_what_is_no_table_is_published_too_and_checked_to_its_last_file(spark: SparkSession, tmp_path: Path) -> None:
    def save(uri: str) -> None:
        inside = Path(uri.removeprefix("file://"), "data", "frames")
        inside.mkdir(parents=True)
        for name, content in (("part-0", "whole"), ("part-1", "whole"), ("_SUCCESS", ""), (".part-0.crc", "?")):
            (inside / name).write_text(content)

    publish(spark, str(tmp_path), "r1", tables_of(spark, "r1"), folders={"model": save})
    run = tmp_path / "run_id=r1"
    verify(str(run))
    frames = run / "model" / "data" / "frames"
    (frames / ".part-0.crc").unlink()
    verify(str(run))
    (frames / "part-0").write_text("wh0le")
    (frames / "part-1").rename(frames / "part-2")
    found = "part-0 is changed; model/data/frames/part-1 is missing; model/data/frames/part-2 is not of this run"
    with pytest.raises(DataError, match=f"differs from its manifest: model/data/frames/{found}"):
        verify(str(run))


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("s3a://bucket/out", "s3a: needs a driver with a JVM"),
        ("hdfs://namenode/out", "hdfs: needs a driver with a JVM"),
        ("file://host/out", "expected an absolute path after file:"),
        ("/out/*", "without line breaks and any of the characters"),
        (" ", "expected a path"),
    ],
)
def test_an_output_that_can_not_be_atomic_is_refused(output: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"output\.path is .*{why}"):
        open_output(output).check_writable()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda run: (run / "user_factors/part-9.parquet").touch(), "part-9.parquet is not of this run"),
        (lambda run: (run / "stray").touch(), "stray is not of this run"),
        (lambda run: (run / "manifest.json").write_text("{"), "manifest.json is damaged: it cannot be read as JSON"),
        (lambda run: (run / "manifest.json").write_text('"r1"'), "manifest.json is damaged: found 'r1'"),
        (lambda run: (run / "manifest.json").write_text('{"tables": 1}'), "its content differs from the checksum"),
    ],
)
def test_a_damaged_run_is_told_from_a_whole_one(tmp_path: Path, damage: Callable[[Path], None], problem: str) -> None:
    directory = commit(stage_by_hand(tmp_path, "r1"), {"status": "done"})
    verify(directory)
    damage(tmp_path / "run_id=r1")
    with pytest.raises(DataError, match=problem):
        verify(directory)


@pytest.mark.parametrize("before", ["r1", None])
def test_a_run_damaged_meanwhile_is_withdrawn(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before:
        commit(stage_by_hand(tmp_path, before), {})

    def damage() -> None:
        next((tmp_path / "run_id=r2" / "user_factors").glob("*.parquet")).write_bytes(b"?")

    at_first(monkeypatch, LocalFiles, "rename", damage, after=True)
    with pytest.raises(DcrecError, match=r"run r2 was published, found damaged, and withdrawn .*is changed") as raised:
        publish(spark, str(tmp_path), "r2", tables_of(spark, "r2"))
    assert ("readers are back on run r1" if before else "none is published") in str(raised.value)
    assert raised.value.exit_code == 1
    assert current_run_id(str(tmp_path)) == before
    assert {path.name for path in tmp_path.glob("run_id=*")} == ({"run_id=r1"} if before else set())
    assert hidden_names(tmp_path) == set()


def test_a_failed_run_leaves_its_record_beside_the_published_ones(tmp_path: Path) -> None:
    record = {"status": "refused", "loss": float("nan"), "rows": {"read": 3}, "versions": ("4.1", None)}
    where = record_aside(str(tmp_path / "out"), "r1", record)
    record_aside(str(tmp_path / "out"), "r1", record)
    path = tmp_path / "out" / "failed" / "run_id=r1" / "run.json"
    assert where == f"file://{path}"
    assert json.loads(path.read_text()) == record | {"loss": None, "versions": ["4.1", None]}
    assert os.listdir(path.parent) == ["run.json"]
    assert current_run_id(str(tmp_path / "out")) is None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("changes", range(1, 8))
def test_a_commit_killed_at_any_step_leaves_the_old_run_or_the_new(tmp_path: Path, changes: int, after: bool) -> None:
    commit(stage_by_hand(tmp_path, "old"), {})
    staged = stage_by_hand(tmp_path, "new")
    dying = DyingFiles(changes, after)
    try:
        commit(StagedRun(dying, staged.output, "new", staged.path, staged.base, staged.tables), {})
        killed = False
    except Killed:
        killed = True
    # Six changes: run.json, manifest, .committing, the directory, CURRENT, .committing again.
    assert killed == (changes <= 6)
    pointer_was_moved = (changes, after) >= (5, True)
    assert run_that_is_read(tmp_path) == ("new" if pointer_was_moved else "old")

    # The same run, or a later one, publishes over what is left; of a dead run nothing stays.
    discard(staged)
    resumed = "newer" if pointer_was_moved else "new"
    commit(stage_by_hand(tmp_path, resumed), {})
    assert run_that_is_read(tmp_path) == resumed
    assert hidden_names(tmp_path) == set()
    published = {"old", "new", resumed}
    assert {path.name for path in tmp_path.glob("run_id=*")} == {f"run_id={run}" for run in published}


def test_a_run_that_began_before_another_was_published_loses_before_it_writes(tmp_path: Path) -> None:
    sink = open_output(str(tmp_path))
    base = sink.base()
    commit(stage_by_hand(tmp_path, "fresh"), {})
    with pytest.raises(ConflictError, match="from run None to run fresh after this one began"):
        sink.stage("stale", {}, {}, base)
    assert sorted(os.listdir(tmp_path)) == [".lock", "CURRENT", "run_id=fresh"]


def test_a_run_named_before_the_newest_is_refused_though_the_pointer_is_as_it_was(tmp_path: Path) -> None:
    first, stale, fresh = (f"20261120T0{hour}0000-5f3c1a" for hour in (1, 2, 3))
    commit(stage_by_hand(tmp_path, first), {})
    staged = stage_by_hand(tmp_path, stale)
    commit(stage_by_hand(tmp_path, fresh), {})
    open_output(str(tmp_path)).restore(first)
    with pytest.raises(ConflictError, match=f"run {stale} was not published: run {fresh} .* began later"):
        commit(staged, {})


class Racing(LocalFiles):
    """Somebody removes a run as soon as all of its files are hashed, before its hash is compared or after."""

    def __init__(self, run: Path, early: bool) -> None:
        super().__init__()
        self.run, self.early = run, early

    def sha256(self, path: str) -> str:
        if self.early and path.endswith(".parquet"):
            self.delete(str(self.run))
        return super().sha256(path)

    @contextmanager
    def lock(self, path: str, seconds: float | None = None) -> Iterator[None]:
        self.delete(str(self.run))
        with super().lock(path, seconds):
            yield


@pytest.mark.parametrize("early", [False, True])
def test_of_a_rollback_and_a_retention_that_race_the_rollback_loses(output: Path, early: bool) -> None:
    sink = ParquetSink(Racing(output / "run_id=r1", early), str(output), str(output))
    with pytest.raises(ConflictError, match=r"run r1 .* was removed meanwhile, by a run that keeps fewer") as conflict:
        sink.restore("r1")
    assert conflict.value.exit_code == 5
    assert run_that_is_read(output) == "r2"


def test_links_in_an_output_stop_no_run(tmp_path: Path) -> None:
    """A run that was moved to another disk, links to themselves or to nothing, and a pipe."""
    elsewhere, output = tmp_path / "elsewhere", tmp_path / "out"
    output.mkdir()
    for run_id in ("r1", "r2"):
        commit(stage_by_hand(output, run_id), {})
    (output / "run_id=r1").rename(elsewhere)
    (output / "run_id=r1").symlink_to(elsewhere)
    for name in ("run_id=itself", ".tmp-itself", ".staging-itself"):
        (output / name).symlink_to(output / name)
    (output / "run_id=nothing").symlink_to(tmp_path / "nothing")
    os.mkfifo(output / "run_id=r2" / "pipe")
    sink = open_output(str(output))
    sink.restore("r1")
    with pytest.raises(DataError, match="pipe is no file, but a pipe or a device"):
        sink.restore("r2")
    (output / "run_id=r2" / "pipe").unlink()
    sink.stage("r3", {}, {}).lease.close()
    commit(stage_by_hand(output, "r4"), {})
    assert sink.prune(1) == ["r1", "r2"]
    assert elsewhere.is_dir()
    assert not (output / "run_id=r1").is_symlink()
    (output / "CURRENT").unlink()
    os.mkfifo(output / "CURRENT")
    with pytest.raises(DataError, match="CURRENT is no file"):
        sink.base()


def publish_in_rounds(output: str, name: str, rounds: int, barrier: Barrier, outcomes: "multiprocessing.Queue") -> None:
    for number in range(rounds):
        staged = stage_by_hand(Path(output), f"{name}-{number}")
        barrier.wait()
        try:
            commit(staged, {})
            outcomes.put((number, staged.run_id))
        except ConflictError:
            discard(staged)
        barrier.wait()


@pytest.mark.process
def test_processes_that_race_publish_one_whole_run_each_time(tmp_path: Path, record_property: Any) -> None:
    commit(stage_by_hand(tmp_path, "first"), {})
    context, rounds = multiprocessing.get_context("spawn"), 12
    record_property("tried", rounds)
    barrier, outcomes = context.Barrier(2), context.Queue()
    racers = [
        context.Process(target=publish_in_rounds, args=(str(tmp_path), name, rounds, barrier, outcomes))
        for name in ("a", "b")
    ]
    for racer in racers:
        racer.start()
    seen = set()
    while any(racer.is_alive() for racer in racers):
        seen.add(run_that_is_read(tmp_path))
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    won = sorted(outcomes.get(timeout=10) for _ in range(rounds))
    assert [number for number, _ in won] == list(range(rounds))
    assert {path.name for path in tmp_path.glob("run_id=*")} == {"run_id=first"} | {f"run_id={run}" for _, run in won}
    assert run_that_is_read(tmp_path) == won[-1][1]
    assert len(seen) > 2
    assert hidden_names(tmp_path) == set()


def test_old_runs_go_and_the_current_one_stays_however_old(spark: SparkSession, tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    for run_id in ("1", "2", "3", "4"):
        publish(spark, output, run_id, {"lists": spark.range(1)})
    sink = open_output(output, spark)
    assert sink.prune(3) == ["1"]
    sink.restore("2")
    assert sink.prune(2) == []
    sink.restore("4")
    assert sink.prune(2) == ["2"]
    assert sink.run_ids() == ["3", "4"]
    assert {path.name for path in Path(output).iterdir()} == {"CURRENT", ".lock", "run_id=3", "run_id=4"}


@pytest.fixture
def output(tmp_path: Path) -> Path:
    for run_id in ("r1", "r2"):
        commit(stage_by_hand(tmp_path, run_id), {"run_id": run_id, "status": "published"})
    return tmp_path


def test_what_is_missing_is_named(output: Path) -> None:
    (output / "run_id=r2" / "manifest.json").unlink()
    (output / "run_id=r2" / "run.json").unlink()
    with pytest.raises(DataError, match=r"run r2 under .* holds no run\.json"):
        current_run(str(output))
    (output / "CURRENT").unlink()
    with pytest.raises(DataError, match=r"nothing is published under .* no CURRENT"):
        current_run(str(output))


# Those that are truncated, empty, missing, or have a byte flipped: tests/faults/test_damage.py.
@pytest.mark.parametrize("content", [b"[1, 2]", b"\xff\x00", None])
@pytest.mark.parametrize(
    ("file", "words"), [("run_id=r2/run.json", "is damaged: .*restore it"), ("CURRENT", ".*rollback RUN")]
)
def test_a_record_or_pointer_of_other_content_or_a_directory_is_named(
    file: str, words: str, output: Path, content: bytes | None
) -> None:
    (output / file).unlink()
    if content is None:
        (output / file).mkdir()
    else:
        (output / file).write_bytes(content)
    with pytest.raises(DataError, match=rf"{file}.*{words}"):
        current_run(str(output))


def test_a_damaged_run_leaves_a_newer_one_in_its_place(tmp_path: Path) -> None:
    old = stage_by_hand(tmp_path, "r1")
    commit(old, {})
    commit(stage_by_hand(tmp_path, "r2"), {})
    (tmp_path / "run_id=r1" / "run.json").unlink()
    with pytest.raises(DcrecError, match="withdrawn"):
        open_output(str(tmp_path)).verify(old)
    assert run_that_is_read(tmp_path) == "r2"


@pytest.mark.parametrize("step", ["rename", "write"])
def test_an_error_in_the_commit_is_undone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    commit(stage_by_hand(tmp_path, "old"), {})
    staged = stage_by_hand(tmp_path, "new")
    whole = getattr(LocalFiles, step)

    def full_disk(self: LocalFiles, *arguments: object) -> None:
        if str(arguments[-1]).endswith("run_id=new") or str(arguments[0]).endswith("CURRENT"):
            raise OSError(28, "No space left on device")
        whole(self, *arguments)

    monkeypatch.setattr(LocalFiles, step, full_disk)
    with pytest.raises(OSError, match="No space left"):
        commit(staged, {})
    discard(staged)
    assert run_that_is_read(tmp_path) == "old"
    assert sorted(os.listdir(tmp_path)) == [".lock", "CURRENT", "run_id=old"]
