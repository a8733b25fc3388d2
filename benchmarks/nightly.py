"""A whole nightly run, cold, from the command to the tables: ours, and a script with MLlib's ALS.

    python -m benchmarks.nightly RATINGS FOLDER RANK     the script: read, fit, recommend, write

Ours validates the ratings, fits, ranks without what was seen, audits, checks what it wrote, and publishes
atomically. The script reads, fits ten iterations, ranks all items, and writes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.ml.recommendation import ALS
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.measure import Seconds, clock

ITERATIONS, LENGTH = 10, 10


def ours(ratings: Path, rank: int, adjustment: str) -> Seconds:
    """Take the time of ``dcrec retrain``: ten sweeps of stage 2 and, where there is a confounder, stage 1 before."""
    settings = {
        "input.format": "movielens",
        "input.path": ratings,
        "run.preset": "counts",
        # The check of the exposure model fits stage 1 once more, which a script with MLlib has no equivalent of.
        "audit.exposure_check": "off",
        "outcome.adjustment": adjustment,
        "outcome.confounder_weight": "user",
        "outcome.leave_one_out": "false",
        "outcome.rank": rank,
        "outcome.max_iter": ITERATIONS,
        "recommend.top_n": LENGTH,
    }
    chosen = [f"--set={name}={value}" for name, value in settings.items()]
    return _seconds(lambda folder: ["jobs/retrain.py", *chosen, f"--set=output.path={folder}"])


def mllib(ratings: Path, rank: int) -> Seconds:
    """Take the time of the script."""
    return _seconds(lambda folder: ["-m", "benchmarks.nightly", str(ratings), str(folder), str(rank)])


def _seconds(arguments: Callable[[Path], list[str]]) -> Seconds:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, *arguments(Path(scratch) / "tables")]
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        return clock(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment))


def script(ratings: str, folder: str, rank: int) -> None:
    """Run once with MLlib: read, fit, recommend, write."""
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").getOrCreate()
    columns = "user int, item int, rating double, time long"
    train = spark.read.csv(ratings, schema=columns, sep="::").drop("time")
    model = ALS(userCol="user", itemCol="item", implicitPrefs=True, alpha=40.0, rank=rank, maxIter=ITERATIONS).fit(
        train
    )
    lists = model.recommendForAllUsers(LENGTH)
    rows = lists.select("user", F.posexplode("recommendations").alias("rank", "place")).select(
        "user", "rank", "place.*"
    )
    rows.write.parquet(f"{folder}/recommendations")
    model.userFactors.write.parquet(f"{folder}/users")
    model.itemFactors.write.parquet(f"{folder}/items")
    spark.stop()


if __name__ == "__main__":
    script(sys.argv[1], sys.argv[2], int(sys.argv[3]))
