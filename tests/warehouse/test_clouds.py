"""Publishing to a store that replaces nothing under a condition, by Google's connector; judged from outside."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConflictError
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.publish.current import current_run, read_current
from dcrec_spark.publish.object_store import ObjectStoreSink, open_output
from dcrec_spark.publish.parquet import verify
from dcrec_spark.storage.hadoop import Numbered, NumberedFiles
from tests.storage.stores import Killed
from tests.warehouse.objects import BUCKET, GoogleStorage, reached
from tests.warehouse.tables import record
from tests.warehouse.test_object_store import DyingObjects, Output, put_by_many, readers, whole

pytestmark = pytest.mark.warehouse


@pytest.fixture(scope="module")
def google(scratch: Path, spark: SparkSession) -> Iterator[GoogleStorage]:
    with reached(GoogleStorage(scratch / "google"), spark) as running:
        yield running


@pytest.fixture
def output(request: pytest.FixtureRequest, spark: SparkSession, google: GoogleStorage) -> Output:
    path = f"out-{crc32(request.node.nodeid.encode())}/nightly"
    sink: Any = open_output(f"gs://{BUCKET}/{path}", spark)
    assert type(sink.files) is NumberedFiles
    return Output(
        spark, sink, path, lambda: google.found(path), lambda: {key.split("/")[2] for key in google.keys(f"{path}/")}
    )


def test_a_run_replaces_the_one_before_whole_and_readers_look_all_the_time(output: Output, spark: SparkSession) -> None:
    output.publish("monday")
    with readers(output, whole("monday"), whole("tuesday", 3)):
        output.publish("tuesday", users=3)
        time.sleep(0.5)
    verify(f"{output.uri}/run_id=monday", spark)
    assert current_run(output.uri, spark).record["run_id"] == "tuesday"
    assert read_current(spark, output.uri, "recommendations").count() == 6
    output.sink.restore("monday")
    assert output.found() == whole("monday")
    assert output.sink.prune(1) == []
    assert output.names() - {""} == {"CURRENT.0000000003", "run_id=monday", "run_id=tuesday"}


def test_of_many_that_put_the_pointer_at_once_one_wins(output: Output, record_property: Any) -> None:
    record_property("tried", 36)
    assert put_by_many(output, times=3) == [1, 1, 1]


def test_of_two_publishers_the_late_one_ends_with_5_and_leaves_nothing(output: Output) -> None:
    output.publish("before")
    early, late = (output.stage(name) for name in ("early", "late"))
    output.sink.commit(early, record("early"))
    with pytest.raises(ConflictError, match="went from run before to run early") as conflict:
        output.sink.commit(late, record("late"))
    assert conflict.value.exit_code == 5
    output.sink.discard(late)
    assert output.found() == whole("early")
    assert "run_id=late" not in output.names()


class DyingNumbered(Numbered, DyingObjects):
    """Dies at the n-th change."""


@pytest.mark.parametrize("after", [False, True])
def test_a_publisher_that_dies_at_any_change_leaves_the_old_run_or_the_new(
    after: bool, output: Output, spark: SparkSession, record_property: Any
) -> None:
    """The changes of a commit: the record, the manifest, the next pointer, the last one's end, the mark."""
    record_property("tried", 5)
    output.publish("old")
    steps = []
    for change in range(1, 6):
        run_id = f"new{change}"
        run = output.stage(run_id)
        before = output.found()
        dying: Any = DyingNumbered(spark, output.uri, change, after)
        with pytest.raises(Killed):
            ObjectStoreSink(dying, output.sink.root, output.uri).commit(run, record(run_id))
        assert output.found() in (before, whole(run_id))
        steps.append(output.found() == whole(run_id))
    assert steps == ([False, False, True, True, True] if after else [False, False, False, True, True])
    output.publish("next")
    assert output.found() == whole("next")


def test_a_model_is_saved_replaced_and_loaded(output: Output) -> None:
    path = f"{output.uri}/estimator"
    PoissonFactorization(rank=3).write().save(path)
    PoissonFactorization(rank=5).write().overwrite().save(path)
    assert PoissonFactorization.load(path).getOrDefault("rank") == 5
