"""Both stages over Spark's blocks, where memory has room for few of them and where it has for all.

    python -m tests.faults.in_little_memory FOLDER

Each fit leaves what it found in FOLDER; the last line of standard output says what Spark has put on disk for each.
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.spark.session import build_session

USERS, ITEMS, RATINGS_OF_A_USER = 6000, 1000, 8
# More blocks than tasks run side by side.
FIT: dict[str, Any] = {
    "rank": 60, "maxIter": 2, "tol": 0.0, "seed": 3, "exchange": "blocks", "numBlocks": 4,
}  # fmt: skip
# What caches and sorts may take of a gigabyte: 11 MB, of which the blocks and their results need several times as
# much, and 430 MB. With a quarter of the former a fit fails: Spark's own hash tables ask for so many bytes at least.
MEMORY = {"little": "0.015", "roomy": "0.6"}
# Spark's own page says what it has put on disk.
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}


def drawn(spark: SparkSession) -> DataFrame:
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((USERS, ITEMS)) < RATINGS_OF_A_USER / ITEMS)
    rating = rng.integers(1, 6, len(user)).astype(float)
    return spark.createDataFrame(pa.table({"user": user, "item": item, "rating": rating}))


def status(spark: SparkSession, what: str) -> list[dict[str, Any]]:
    context = spark.sparkContext
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{what}") as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def fit(spark: SparkSession, file: Path) -> dict[str, Any]:
    """Keep what both stages find; say which cached frames were on disk, and how many bytes were spilled.

    Frames are named by the operators that have made them, and looked at after each iteration.
    """
    on_disk = set[str]()

    def look(stage: str, iteration: int, objective: float) -> None:
        on_disk.update(cached["name"].split()[0] for cached in status(spark, "storage/rdd") if cached["diskUsed"])

    exposure = PoissonFactorization(**FIT)
    estimator = DeconfoundedMF(**FIT, exposureModel=exposure)
    exposure.listener = estimator.listener = look
    np.savez(file, **estimates_of(estimator.fit(drawn(spark))))
    spilled = sum(stage["diskBytesSpilled"] for stage in status(spark, "stages?status=complete"))
    return {"on_disk": sorted(on_disk), "spilled": spilled}


def estimates_of(model: Any) -> dict[str, Any]:
    """Everything that a fit estimates, as plain numbers."""
    tables = dict(zip(("users", "items"), model.factorTables(), strict=True))
    rows = {
        name: [[v for c in row.asDict() if c not in ("id", "bias") for v in np.ravel(row[c]).tolist()] for row in
               table.orderBy("id").collect()]
        for name, table in tables.items()
    }  # fmt: skip
    histories = {"elbo": model.exposureModel.elboHistory, "loss": model.objectiveHistory}
    return {**rows, **histories, "intercept": model.intercept}


def main(folder: Path) -> None:
    seen = {}
    for name, fraction in MEMORY.items():
        spark = build_session(name, "local[2]", {**CONF, "spark.memory.fraction": fraction})
        spark.sparkContext.setCheckpointDir(str(folder / "checkpoints"))
        seen[name] = fit(spark, folder / f"{name}.npz")
        spark.stop()
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
