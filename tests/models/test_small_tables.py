"""A small model stays one of few tasks in a plain session, which plans 200 partitions for every shuffle."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tests.models.data_sets import NAMES, exposure, outcome

# One task for each of 200 partitions of a single table would be more than any of these takes.
FEW = 150


def tasks_of(spark: SparkSession, work: Callable[[], object]) -> int:
    context = spark.sparkContext._jsc.sc()

    def completed() -> int:
        context.listenerBus().waitUntilEmpty()
        return int(context.statusStore().executorSummary("driver").completedTasks())

    before = completed()
    work()
    return completed() - before


def test_a_small_model_has_few_partitions_files_and_tasks(plain: SparkSession, tmp_path: Path) -> None:
    ratings = NAMES.frame(plain)
    model = outcome(exposureModel=exposure(maxIter=1), maxIter=1).fit(ratings)
    assert max(table.rdd.getNumPartitions() for table in model.tables()) < 5
    pairs = ratings.limit(5).cache()
    answers: dict[str, Callable[[], object]] = {
        "save": lambda: model.write().save(str(tmp_path / "model")),
        "transform": model.transform(pairs).collect,
        "recommend": model.recommendForAllUsers(3, seen=ratings).collect,
        "fold in": lambda: model.foldInUsers(ratings).unpersist(),
        "explain": lambda: model.explain(pairs, ratings).unpersist(),
    }
    tasks = {name: tasks_of(plain, answer) for name, answer in answers.items()}
    assert {name: n for name, n in tasks.items() if n >= FEW} == {}
    assert len(list(tmp_path.rglob("*.parquet"))) < 20
    pairs.unpersist()
