"""How many potential ratings lie inside their intervals: simulated worlds, ratings of pairs drawn at random.

python -m benchmarks.coverage                    worlds with and without confounding, three seeds each
python -m benchmarks.coverage --users 200        smaller ones

The ratings of the test pairs are the worlds' potential outcomes; none of them was in the fit. Fits are laid out in this
process (exchange=local).
"""

import json
from typing import Any

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark import DeconfoundedMF
from dcrec_spark.evaluation.simulate import Simulation, simulate
from dcrec_spark.kernels.certainty import reach
from dcrec_spark.spark.session import build_session

COVERAGES = (0.5, 0.8, 0.9)
WORLDS: dict[str, dict[str, Any]] = {
    "no confounding": {"confounding_preference": 0.0, "confounding_outcome": 0.0},
    "the paper's": {"confounding_preference": 0.6, "confounding_outcome": 3.0},
}
MODELS: dict[str, dict[str, Any]] = {
    "classical": {"adjustment": "none"},
    "deconfounded": {
        "adjustment": "deconfounded",
        "exposureRank": 5,
        "confounderWeight": "pooled",
        "standardizeConfounder": True,
        "leaveOneOut": True,
        "confounderVariance": True,
        "unobservedWeight": 0.0,
    },
}
FIT: dict[str, Any] = {"outcome": "probabilistic", "rank": 5, "fitBiases": True, "regByCount": False, "maxIter": 50}


def measure(spark: SparkSession, world: Simulation, model: dict[str, Any]) -> dict[str, float]:
    """Share of the test ratings inside, mean width at 0.9, share of extrapolations, of one world and model."""
    drawn = simulate(spark, world)
    ratings, test = drawn.ratings.persist(), drawn.test.select("user", "item", "rating").persist()
    known = test.join(ratings.select("user").distinct(), "user", "left_semi")
    known = known.join(ratings.select("item").distinct(), "item", "left_semi").persist()
    fitted = DeconfoundedMF(**FIT, **model, exchange="local", seed=world.seed).fit(ratings)
    intervals = fitted.predictIntervals(known, ratings, 0.9)
    judged = intervals.withColumnsRenamed({"user_id": "user", "item_id": "item"}).join(known, ["user", "item"])
    # An interval of another coverage has the same middle, and another number of the same standard deviations.
    distance = F.abs(F.col("rating") - F.col("prediction")) / ((F.col("high") - F.col("low")) / 2)
    inside = {c: F.avg((distance <= reach(c) / reach(0.9)).cast("int")).alias(f"inside at {c}") for c in COVERAGES}
    width = F.avg(F.col("high") - F.col("low")).alias("mean width at 0.9")
    beyond = F.avg(F.col("extrapolates").cast("int")).alias("extrapolates")
    row = judged.agg(*inside.values(), width, beyond).collect()[0]
    fitted.release()
    for frame in (intervals, known, test, ratings):
        frame.unpersist()
    return dict(row.asDict())


@click.command()
@click.option("--users", default=400, show_default=True)
@click.option("--items", default=300, show_default=True)
@click.option("--seeds", default=3, show_default=True)
def main(users: int, items: int, seeds: int) -> None:
    """Print one line of JSON for each world, model and seed."""
    spark = build_session("coverage", "local[2]")
    for world, settings in WORLDS.items():
        for name, model in MODELS.items():
            for seed in range(seeds):
                simulation = Simulation(users, items, test_pairs="withheld", seed=seed, **settings)
                row = {"world": world, "model": name, "seed": seed, **measure(spark, simulation, model)}
                click.echo(json.dumps(row))


if __name__ == "__main__":
    main()
