"""What Spark is at work on ends when it is told to, and the session is good for more."""

import time
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.spark import cancellation
from dcrec_spark.spark.cancellation import end_work


@pytest.fixture
def slow_job(spark: SparkSession) -> Thread:
    """A job that takes minutes, at work."""
    rows = spark.range(20_000, numPartitions=2).where("reflect('java.lang.Thread', 'sleep', 20L) is not null")

    def count() -> None:
        with pytest.raises(Exception, match="cancelled"):
            rows.count()

    job = Thread(target=count, daemon=True)
    job.start()
    deadline = time.monotonic() + 60
    while not cancellation._is_at_work(spark.sparkContext):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return job


def test_no_task_runs_when_work_has_been_ended_and_the_session_lives_on(spark: SparkSession, slow_job: Thread) -> None:
    try:
        end_work(60)
        assert not cancellation._is_at_work(spark.sparkContext)
        slow_job.join(60)
        assert not slow_job.is_alive()
        assert spark.range(3).count() == 3
    finally:
        spark.sparkContext.setLogLevel("WARN")
