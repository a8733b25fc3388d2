"""Files, tables and work in progress, on the local file system and through Hadoop's interface."""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConflictError, DataError
from dcrec_spark.storage.hadoop import HadoopFiles
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.protocol import TEMPORARY_PREFIX, Files
from dcrec_spark.storage.staging import STALE_SECONDS, content_of, staged, write_table
from tests.frames import frame_of
from tests.spark.standalone import finished, plain_environment


@pytest.fixture(params=["local", "hadoop"])
def files(request: pytest.FixtureRequest) -> Files:
    if request.param == "local":
        return LocalFiles()
    return HadoopFiles(request.getfixturevalue("spark"), "file:///", "output.path")


def test_a_file_is_written_replaced_and_read(files: Files, tmp_path: Path, spark: SparkSession) -> None:
    path = f"{tmp_path}/CURRENT"
    for content in (b"old", b"new \xff\x00", b""):
        files.write(path, content)
        assert files.read(path) == content
        assert files.sha256(path) == hashlib.sha256(content).hexdigest()
    assert [entry.name for entry in files.list(str(tmp_path)) if not entry.name.endswith(".crc")] == ["CURRENT"]
    files.write(f"{tmp_path}/100% of it", b"text")
    assert [row.value for row in spark.read.text(files.uri(f"{tmp_path}/100% of it")).collect()] == ["text"]


def test_a_missing_file_is_told_as_such(files: Files, tmp_path: Path) -> None:
    assert not files.exists(f"{tmp_path}/none")
    assert files.list(f"{tmp_path}/none") == []
    files.delete(f"{tmp_path}/none")
    with pytest.raises(FileNotFoundError, match="none"):
        files.read(f"{tmp_path}/none")


def test_a_directory_is_listed_moved_and_deleted(files: Files, tmp_path: Path) -> None:
    files.make_directory(f"{tmp_path}/a/b c")
    files.make_directory(f"{tmp_path}/a/b c")
    (tmp_path / "a" / "part").write_bytes(b"12345")
    files.rename(f"{tmp_path}/a", f"{tmp_path}/run_id=1")
    folder, part = files.list(f"{tmp_path}/run_id=1")
    assert (folder.name, folder.is_directory) == ("b c", True)
    assert (part.name, part.is_directory, part.bytes) == ("part", False, 5)
    assert part.modified == pytest.approx((tmp_path / "run_id=1" / "part").stat().st_mtime, abs=1)
    files.delete(f"{tmp_path}/run_id=1")
    assert os.listdir(tmp_path) == []


def test_a_directory_is_never_moved_onto_another(files: Files, tmp_path: Path) -> None:
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
    with pytest.raises(OSError, match="exist"):
        files.rename(f"{tmp_path}/new", f"{tmp_path}/old")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "old"]


def test_the_right_to_write_is_found_without_writing(files: Files, tmp_path: Path) -> None:
    files.check_writable(f"{tmp_path}/x/y")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        files.check_writable(f"{tmp_path}/file/y")
    assert os.listdir(tmp_path) == ["file"]
    if isinstance(files, LocalFiles):
        with pytest.raises(OSError, match=r"its path has \d+ bytes"):
            files.check_writable(str(tmp_path) + "/long" * 760)


def test_a_held_lock_is_a_conflict_and_a_freed_one_is_not(tmp_path: Path) -> None:
    impatient, path = LocalFiles(lock_seconds=0.1), f"{tmp_path}/.lock"
    conflict = pytest.raises(ConflictError, match="another process holds")
    with impatient.lock(path), conflict, impatient.lock(path):
        pass
    with impatient.lock(path):
        assert os.listdir(tmp_path) == [".lock"]


class HalfLost(LocalFiles):
    """A store that loses the files of a table between two looks, like the disks of executors that nobody shares."""

    looks = 0

    def uri(self, path: str) -> str:
        self.looks += 1
        if self.looks == 2:
            for part in sorted(Path(path).glob("part-*"))[1:]:
                part.unlink()
        return super().uri(path)


def test_what_is_read_is_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    table = frame_of(spark, [("u1", [1.0, 2.0]), ("u2", None), ("", [])], "id string, features array<double>")
    path = f"{tmp_path}/factors"
    assert write_table(LocalFiles(), path, table, "output.path") == content_of(spark.read.parquet(path))
    assert_df_equality(spark.read.parquet(path), table, ignore_row_order=True, ignore_nullable=True)


def test_rows_that_the_driver_does_not_see_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"10 rows were written to .*, and \d are there.*set output\.path"):
        write_table(HalfLost(), f"{tmp_path}/lost", spark.range(10).repartition(2), "output.path")


FILES = LocalFiles()


def test_what_is_staged_appears_in_one_rename_and_what_fails_leaves_nothing(tmp_path: Path) -> None:
    with staged(FILES, f"{tmp_path}/out/model") as directory:
        assert Path(directory).name.startswith(f"{TEMPORARY_PREFIX}model-")
        (Path(directory) / "part").touch()
        FILES.rename(directory, f"{tmp_path}/out/model")
    assert os.listdir(tmp_path / "out") == ["model"]
    assert os.listdir(tmp_path / "out" / "model") == ["part"]
    with pytest.raises(ValueError, match="astray"), staged(FILES, f"{tmp_path}/model"):
        raise ValueError("astray")
    assert os.listdir(tmp_path) == ["out"]


def test_only_the_dead_are_cleaned_up_after(tmp_path: Path) -> None:
    long_ago = time.time() - STALE_SECONDS - 60
    for name in (".tmp-model-dead", ".tmp-model-alive", ".tmp-other-dead"):
        (tmp_path / name / "inside").mkdir(parents=True)
        os.utime(tmp_path / name / "inside", (long_ago, long_ago))
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / ".tmp-model-alive" / "fresh").touch()
    with staged(FILES, f"{tmp_path}/model"):
        pass
    assert sorted(os.listdir(tmp_path)) == [".tmp-model-alive", ".tmp-other-dead"]


def test_leftovers_of_a_killed_process_go_at_once_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.storage.staging import staged
with staged(LocalFiles(), sys.argv[1]) as directory:
    open(f"{directory}/part", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    dead = finished(sys.executable, "-c", program, f"{tmp_path}/model", env=plain_environment())
    assert dead.returncode == -signal.SIGKILL
    left = set(os.listdir(tmp_path))
    assert len(left) == 2
    with staged(FILES, f"{tmp_path}/model") as living:
        assert not left & set(os.listdir(tmp_path))
        os.utime(living, (0, 0))
        with staged(FILES, f"{tmp_path}/model"):
            assert Path(living).exists()
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "CURRENT"
    LocalFiles().write(str(path), b"old")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        LocalFiles().write(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["CURRENT"]
