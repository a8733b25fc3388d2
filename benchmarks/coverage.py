"""How many potential ratings lie inside their intervals: simulated worlds, ratings of pairs drawn at random.

python -m benchmarks.coverage                    eight worlds, two models, three seeds each
python -m benchmarks.coverage --users 200        smaller ones
python -m benchmarks.coverage --world none       one of them
python -m benchmarks.coverage --reg 1            the regulariser of the factors as given, not as validation chooses it

The ratings of the test pairs are the worlds' potential outcomes; none of them was in the fit. Fits are laid out in this
process (exchange=local). A line of JSON for each fit, and at the end a table of the means over the seeds.
"""

import json
import time
from collections.abc import Iterator
from typing import Any, get_args

import click
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from dcrec_spark import DeconfoundedMF
from dcrec_spark.evaluation.simulate import Simulation, simulate
from dcrec_spark.evaluation.worlds import Confounding, FairWorld
from dcrec_spark.kernels.certainty import reach
from dcrec_spark.local.data import Parts
from dcrec_spark.local.trial import Bench, Trial
from dcrec_spark.spark.session import build_session

COVERAGES = (0.5, 0.8, 0.9)
PAPERS: dict[str, dict[str, Any]] = {
    "paper's, g = 0": {"confounding_preference": 0.0, "confounding_outcome": 0.0},
    "paper's": {"confounding_preference": 0.6, "confounding_outcome": 3.0},
}
WORLDS = [*get_args(Confounding), *PAPERS]
MODELS: dict[str, dict[str, Any]] = {
    "classical": {"adjustment": "none"},
    "deconfounded": {
        "adjustment": "deconfounded",
        "exposureRank": 5,
        "confounderWeight": "pooled",
        "leaveOneOut": True,
        "unobservedWeight": 0.0,
    },
}
REGS = (1.0, 3.0, 10.0, 30.0)
FIT: dict[str, Any] = {"outcome": "probabilistic", "rank": 5, "fitBiases": True, "regByCount": False, "maxIter": 50}


def drawn(spark: SparkSession, world: str, users: int, items: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratings, and random test pairs that are not among them, of users and items that have ratings: ``unseen`` too."""
    if world in PAPERS:
        found = simulate(spark, Simulation(users, items, test_pairs="withheld", seed=seed, **PAPERS[world]))
        ratings, test = found.ratings.toPandas(), found.test.toPandas()
        test["unseen"] = ~test.pop("exposed")
    else:
        fair = FairWorld(world, users, items, rated=0.1, seed=seed)  # type: ignore[arg-type]
        ratings, test = pd.DataFrame(fair.ratings), pd.DataFrame(fair.test)
    known = test.user.isin(ratings.user) & test.item.isin(ratings.item)
    return ratings, test.loc[known, ["user", "item", "rating", "unseen"]]


def chosen_reg(spark: SparkSession, ratings: pd.DataFrame, model: dict[str, Any]) -> float:
    """Choose the regulariser of the factors by the squared error of a fifth of the ratings, held out."""
    fits = np.random.default_rng(model["seed"]).random(len(ratings)) < 0.8
    pairs = {"train": ratings[fits], "validation": ratings[~fits]}
    arrays = {name: {str(c): part[c].to_numpy() for c in part} for name, part in pairs.items()}
    parts = Parts.of_indices(ratings.user.max() + 1, ratings.item.max() + 1, arrays).known("validation", ("train",))
    settings = {**FIT, **model}
    rank = settings.pop("exposureRank", None)
    exposure = None if rank is None else {"rank": rank, "seed": model["seed"]}
    trials = [Trial({**settings, "regParam": reg}, exposure) for reg in REGS]
    rating = parts.of["validation"]["rating"]
    errors = [np.mean((rating - found.scores["validation"]) ** 2) for found in Bench(spark, {"": parts}).run(trials)]
    return REGS[int(np.argmin(errors))]


def measure(spark: SparkSession, ratings: pd.DataFrame, test: pd.DataFrame, model: dict[str, Any]) -> dict[str, float]:
    """Share of the test ratings inside, of all, of unseen and of extrapolated pairs; widths, errors, seconds."""
    began = time.perf_counter()
    rated = spark.createDataFrame(ratings).persist()
    fitted = DeconfoundedMF(**FIT, **model, exchange="local").fit(rated)
    fit_ended = time.perf_counter()
    intervals = fitted.predictIntervals(spark.createDataFrame(test[["user", "item"]]), rated, 0.9)
    judged = intervals.toPandas().rename(columns={"user_id": "user", "item_id": "item"}).merge(test)
    ended = time.perf_counter()
    for frame in (intervals, rated):
        frame.unpersist()
    fitted.release()
    seconds = {"fit seconds": fit_ended - began, "interval seconds": ended - fit_ended}
    return {"ratings": len(ratings), **shares(judged), **seconds}


def shares(judged: pd.DataFrame) -> dict[str, float]:
    """Shares of the ratings that lie inside, and how wide the intervals are."""
    error, half = judged.rating - judged.prediction, (judged.high - judged.low) / 2
    # An interval of another coverage has the same middle, and another number of the same standard deviations.
    inside = {c: error.abs() / half <= reach(c) / reach(0.9) for c in COVERAGES}
    row = {f"inside at {c}": float(inside[c].mean()) for c in COVERAGES}
    row["of unseen pairs at 0.9"] = float(inside[0.9][judged.unseen].mean())
    beyond = judged.extrapolates.eq(True)
    row["of extrapolations at 0.9"] = float(inside[0.9][beyond].mean())
    row |= {"extrapolate": float(beyond.mean()), "width at 0.9": float(2 * half.mean())}
    return {**row, "mean error": float(error.mean()), "root mean square error": float((error**2).mean() ** 0.5)}


def rows(
    spark: SparkSession, worlds: list[str], size: tuple[int, int], seeds: int, reg: float | None
) -> Iterator[dict[str, Any]]:
    """Measure each world, model and seed."""
    for world in worlds:
        for seed in range(seeds):
            ratings, test = drawn(spark, world, *size, seed)
            for name, model in MODELS.items():
                seeded = {**model, "seed": seed}
                chosen = chosen_reg(spark, ratings, seeded) if reg is None else reg
                measured = measure(spark, ratings, test, {**seeded, "regParam": chosen})
                yield {"world": world, "model": name, "seed": seed, "reg": chosen, **measured}


@click.command()
@click.option("--users", default=400, show_default=True)
@click.option("--items", default=300, show_default=True)
@click.option("--seeds", default=3, show_default=True)
@click.option("--world", type=click.Choice(WORLDS), multiple=True, help="Only these; all unless given.")
@click.option("--reg", type=float, help="Regulariser of the factors; chosen by validation unless given.")
def main(users: int, items: int, seeds: int, world: tuple[str, ...], reg: float | None) -> None:
    """Print one line of JSON for each world, model and seed, and their means."""
    spark = build_session("coverage", "local[1]")
    found = []
    for row in rows(spark, list(world) or WORLDS, (users, items), seeds, reg):
        found.append(row)
        click.echo(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}))
    means = pd.DataFrame(found).drop(columns="seed").groupby(["world", "model"], sort=False).mean()
    click.echo(means.round(3).to_string())


if __name__ == "__main__":
    main()
