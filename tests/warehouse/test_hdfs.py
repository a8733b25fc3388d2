"""Publishing, saving and going on on a real HDFS; judged by Hadoop's own shell and PyArrow."""

import hashlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.publish.output import open_output
from dcrec_spark.publish.parquet import ParquetSink, verify
from dcrec_spark.publish.protocol import publish
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.hdfs import HadoopFiles
from tests.warehouse.hadoop import Hdfs, running_hdfs
from tests.warehouse.tables import IDS, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "item_factors")


@pytest.fixture(scope="module")
def hdfs(scratch: Path) -> Iterator[Hdfs]:
    with running_hdfs(scratch / "hdfs") as running:
        yield running


@pytest.fixture
def output(hdfs: Hdfs, request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name[:40]}/nightly"


@pytest.fixture
def sink(hdfs: Hdfs, output: str, spark: SparkSession) -> ParquetSink:
    made = open_output(f"{hdfs.uri}{output}", spark)
    assert isinstance(made, ParquetSink)
    return made


def send(sink: ParquetSink, spark: SparkSession, run_id: str) -> None:
    publish(sink, run_id, tables_of(spark, run_id, names=NAMES), lambda _: record(run_id))


def found(hdfs: Hdfs, output: str) -> tuple[str, set[str], int, list[str]]:
    copy = hdfs.copy(output)
    run_id = (copy / "CURRENT").read_text().strip()
    rows = pq.read_table(copy / f"run_id={run_id}" / "recommendations", partitioning=None)["run_id"].to_pylist()
    return run_id, set(rows), len(rows), sorted(path.name for path in copy.iterdir())


def test_files_are_written_replaced_moved_and_deleted(hdfs: Hdfs, spark: SparkSession) -> None:
    files, root = open_files(f"{hdfs.uri}/files", spark)
    assert isinstance(files, HadoopFiles)
    files.check_writable(root)
    files.make_directory(f"{root}/a/b c")
    for content in (b"old", b"new \xff\x00", b""):
        files.write(f"{root}/a/CURRENT", content)
        assert files.read(f"{root}/a/CURRENT") == content
        assert files.sha256(f"{root}/a/CURRENT") == hashlib.sha256(content).hexdigest()
    files.write(f"{root}/a/CURRENT", b"last")
    assert hdfs.copy(f"{root}/a/CURRENT").read_bytes() == b"last"
    files.make_directory(f"{root}/taken")
    with pytest.raises(OSError, match="exist"):
        files.rename(f"{root}/a", f"{root}/taken")
    files.rename(f"{root}/a", f"{root}/run_id=1")
    assert [entry.name for entry in files.list(f"{root}/run_id=1")] == ["CURRENT", "b c"]
    files.delete(root)
    assert files.list(root) == []
    assert not files.exists(root)


def test_a_lock_is_held_by_one_and_free_when_it_is_let_go(hdfs: Hdfs, spark: SparkSession) -> None:
    files, root = open_files(f"{hdfs.uri}/locks", spark)
    assert isinstance(files, HadoopFiles)
    files.make_directory(root)
    with files.lock(f"{root}/.lock"), pytest.raises(ConflictError, match="another process holds"):
        files.lock(f"{root}/.lock", seconds=0).__enter__()
    with files.lock(f"{root}/.lock", seconds=0):
        assert [entry.name for entry in files.list(root)] == [".lock"]


def test_runs_replace_each_other_whole_and_an_old_one_is_gone_back_to(
    sink: ParquetSink, spark: SparkSession, hdfs: Hdfs, output: str
) -> None:
    for run_id in ("monday", "tuesday", "wednesday"):
        send(sink, spark, run_id)
        assert found(hdfs, output)[:3] == (run_id, {run_id}, 2 * len(IDS))
        verify(f"{sink.given}/run_id={run_id}", spark)
    sink.restore("tuesday")
    assert sink.prune(1) == ["monday"]
    run_id, _, _, names = found(hdfs, output)
    assert run_id == "tuesday"
    assert names == [".lock", "CURRENT", "run_id=tuesday", "run_id=wednesday"]


def test_of_two_publishers_one_wins(sink: ParquetSink, spark: SparkSession, hdfs: Hdfs, output: str) -> None:
    runs = [sink.stage(name, tables_of(spark, name, names=NAMES), {}) for name in ("a", "b")]
    start = threading.Barrier(2)

    def attempt(number: int) -> int:
        start.wait()
        try:
            sink.commit(runs[number], record(runs[number].run_id))
        except ConflictError as error:
            sink.discard(runs[number])
            return error.exit_code
        return 0

    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(attempt, range(2)))
    assert sorted(codes) == [0, 5]
    winner = runs[codes.index(0)].run_id
    assert found(hdfs, output) == (winner, {winner}, 2 * len(IDS), [".lock", "CURRENT", f"run_id={winner}"])


def test_a_model_is_saved_replaced_and_loaded(hdfs: Hdfs, spark: SparkSession) -> None:
    path = f"{hdfs.uri}/models/estimator"
    PoissonFactorization(rank=3).write().save(path)
    with pytest.raises(ConfigError, match="exists already"):
        PoissonFactorization(rank=4).write().save(path)
    PoissonFactorization(rank=5).write().overwrite().save(path)
    assert PoissonFactorization.load(path).getOrDefault("rank") == 5
    copy = hdfs.copy("/models/estimator")
    metadata = json.loads((copy / "metadata" / "part-00000").read_text())
    assert sorted(path.name for path in copy.iterdir()) == sorted([".lock", "metadata", metadata["data"]])
