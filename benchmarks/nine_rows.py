"""make nine-rows: the paper's nine models on two public data sets, through the public API.

{weighted, probabilistic, poisson} x {none, ipw, deconfounded}, and deconfounded with one gamma for all users.

python -m benchmarks.nine_rows --data DIR      DIR has coat/ (train.ascii, test.ascii) and ml-100k/ (u.data)

All adjustments of an outcome have the same settings, so no row is tuned harder than another: rank 10 for both stages;
of the paper's two prior standard deviations, 1 for the users' factors and 0.1 for the items'; the paper's Gamma priors;
alpha = 1, since these are ratings, not counts. Before settling on that, five pairs of regularisers (probabilistic) and
six of alpha and regularisers (weighted) were looked at on a fifth of the training cells of Coat, never on a test set.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.data import DATA, coat, movielens_100k_split
from benchmarks.run import RESULTS, versions
from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.evaluation.metrics import evaluate
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.spark.session import build_session

COMMON: dict[str, Any] = {"rank": 10, "maxIter": 50, "tol": 1e-5, "coldStartStrategy": "mean"}
# The paper's priors: variances 1 and 0.01 of the two sides, which predict as sqrt(1 * 100) on each.
GAUSSIAN = {"regParam": 10.0, "confounderReg": 1.0, "leaveOneOut": False, "fitBiases": False}
OUTCOMES: dict[str, dict[str, Any]] = {"weighted": {"alpha": 1.0, **GAUSSIAN}, "probabilistic": GAUSSIAN, "poisson": {}}
ADJUSTMENTS: dict[str, dict[str, Any]] = {
    "none": {"adjustment": "none"},
    "ipw": {"adjustment": "ipw"},
    "deconfounded": {"confounderWeight": "user"},
    "deconfounded-global": {"confounderWeight": "global"},
}
SHOWN = {"mse": "MSE", "mae": "MAE", "ndcg": "NDCG", "recall@5": "Recall@5"}
Facts = dict[str, dict[str, float]]
DATASETS = {"Coat": coat, "MovieLens 100K": movielens_100k_split}


def fit_all(train: DataFrame, test: DataFrame) -> tuple[Facts, DataFrame]:
    """Each model's facts, and the test ratings with a column of predictions for each."""
    exposure = PoissonFactorization(rank=10).fit(train)
    facts, predicted = {}, _with_means(train, test)
    for outcome, settings in OUTCOMES.items():
        for adjustment, choice in ADJUSTMENTS.items():
            name, start = f"{outcome}-{adjustment}", time.perf_counter()
            estimator = DeconfoundedMF(
                outcome=outcome, exposureModel=exposure, predictionCol=name, **COMMON, **settings, **choice
            )
            model = estimator.fit(train)
            seconds = round(time.perf_counter() - start, 1)
            predicted = model.transform(predicted).localCheckpoint()
            history = model.objectiveHistory
            facts[name] = {"sweeps": len(history), "objective": history[-1], "seconds": seconds}
            model.release()
    return facts, predicted


def _with_means(train: DataFrame, test: DataFrame) -> DataFrame:
    """The trivial rows."""
    by_item = train.groupBy("item").agg(F.avg("rating").alias("item-mean"))
    overall = F.lit(train.agg(F.avg("rating")).collect()[0][0])
    with_item = test.join(by_item, "item", "left").withColumn("item-mean", F.coalesce("item-mean", overall))
    return with_item.withColumn("global-mean", overall).localCheckpoint()


def result(spark: SparkSession, read: Callable[[SparkSession, Path], list[DataFrame]], folder: Path) -> dict[str, Any]:
    """Fits, metrics with intervals, and paired differences to the classical row of the same outcome."""
    train, test = (part.persist() for part in read(spark, folder))
    facts, predicted = fit_all(train, test)
    names = ["global-mean", "item-mean", *facts]
    metrics = evaluate(predicted, {name: name for name in names})
    rows = {name: {**facts.get(name, {}), **_figures(metrics, name)} for name in names}
    others = [name for name in facts if not name.endswith("-none")]
    compared = {name: metrics.difference(name, f"{name.split('-')[0]}-none") for name in others}
    differences = {name: _figures(difference, None) for name, difference in compared.items()}
    return {"train": train.count(), "test": test.count(), "rows": rows, "minus_none": differences}


def _figures(metrics: Metrics, model: str | None) -> dict[str, list[float]]:
    """metric -> value and 95 % interval."""
    estimates = metrics.estimates(model)
    return {metric: [round(float(x), 4) for x in estimates[metric][:3]] for metric in (*SHOWN, "item_mse", "item_mae")}


def table(name: str, found: dict[str, Any]) -> Table:
    """A star: the paired 95 % interval of the difference to the outcome's classical row leaves out 0."""
    title = f"{name}: {found['train']:,} ratings to train, {found['test']:,} to test"
    shown = Table("", "sweeps", "objective", *SHOWN.values(), "seconds", title=title)
    for model, row in found["rows"].items():
        against = found["minus_none"].get(model)
        stars = {m: "*" if against and against[m][1] * against[m][2] > 0 else " " for m in SHOWN}
        fit = [f"{row['sweeps']}", f"{row['objective']:,.0f}"] if "sweeps" in row else ["", ""]
        metrics = [f"{row[m][0]:.3f}{stars[m]}" for m in SHOWN]
        shown.add_row(model, *fit, *metrics, str(row.get("seconds", "")))
    return shown


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), default=DATA, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS / "nine-rows.json", help="Where figures go.")
def main(data: Path, output: Path) -> None:
    spark = build_session("nine rows", "local[2]", {"spark.sql.shuffle.partitions": "4"})
    settings = {"common": COMMON, **OUTCOMES}
    found = {"what": "Nine models and trivial ones, [value, 95 % interval] by metric.", "settings": settings}
    for name, read in DATASETS.items():
        found[name] = result(spark, read, data)
        Console().print(table(name, found[name]))
    output.write_text(json.dumps({**found, **versions("make nine-rows")}, indent=2) + "\n")


if __name__ == "__main__":
    main()
