"""jobs/simulate.py: a confounded world with known truth, as tables.

ratings   user, item, rating                       what a recommender gets to see
test      user, item, rating, expected, exposed    potential outcomes of random pairs, and their expectation
users     user, confounder, preference             the truth: c_u and theta_u
items     item, attribute                          beta_i
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Group
from rich.text import Text

from dcrec_spark.config import RunConfig
from dcrec_spark.evaluation.simulate import Simulation, draw_items, draw_users, simulate
from dcrec_spark.jobs.common import open_job, output_path
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.models.fitting.factors import list_array
from dcrec_spark.publish import parquet

_USERS_AT_ONCE = 10_000


def simulate_world(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> str | None:
    """Draw the world that the configuration names and publish it; returns the run's directory, None after a dry run.

    Raises
    ------
    ConfigError : a setting of the simulation, or the output, cannot be used.
    """
    output, timings = output_path(config), reporter.new_run()
    settings = Simulation(**config.simulation.model_dump(), seed=config.run.seed)
    spark = open_job(config, reporter, output, writes=not dry_run)
    if dry_run:
        reporter.show(Text("dry run: everything checks out, nothing was written", style="bold green"))
        return None
    run = Run.begin("simulate", config, spark, timings)
    with run.recorded_on_failure(spark, output):
        with reporter.step("draw and publish"):
            found: dict[str, int] = {}

            def record(staged: parquet.StagedRun) -> dict[str, object]:
                found.update({name: files.rows for name, files in staged.tables.items()})
                run.counts |= found
                return run.published(staged)

            directory = parquet.publish(spark, output, run.run_id, world_tables(spark, settings), record)
        reporter.show(_summary(settings, found, directory))
    return directory


def world_tables(spark: SparkSession, settings: Simulation) -> dict[str, DataFrame]:
    """The tables of a world, drawn when they are read."""
    world = simulate(spark, settings)
    return {
        "ratings": world.ratings,
        "test": world.test,
        "users": _users(spark, settings),
        "items": _items(spark, settings),
    }


def _users(spark: SparkSession, settings: Simulation) -> DataFrame:
    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in batch.column(0).to_pylist():
                users = np.arange(start, min(start + _USERS_AT_ONCE, settings.n_users), dtype=np.int64)
                truth = draw_users(settings, users)
                columns = {"confounder": list_array(truth.confounder), "preference": list_array(truth.preference)}
                yield pa.RecordBatch.from_pydict({"user": users, **columns})

    starts = spark.range(0, settings.n_users, _USERS_AT_ONCE)
    return starts.mapInArrow(draw, "user long, confounder array<double>, preference array<double>")


def _items(spark: SparkSession, settings: Simulation) -> DataFrame:
    def draw(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:  # one stream of random numbers, and so one task
                yield pa.RecordBatch.from_pydict(
                    {"item": np.arange(settings.n_items), "attribute": list_array(draw_items(settings))}
                )

    return spark.range(0, 1, 1, 1).mapInArrow(draw, "item long, attribute array<double>")


def _summary(settings: Simulation, rows: dict[str, int], directory: str) -> Group:
    exposed = rows["ratings"] / (settings.n_users * settings.n_items)
    where = directory.removeprefix("file://")
    return Group(
        Text(f"simulated {settings.n_users:,} users x {settings.n_items:,} items", style="bold green"),
        Text(f"  ratings   {rows['ratings']:,}, {exposed:.1%} of all pairs"),
        Text(f"  test      {rows['test']:,} random pairs with their potential outcomes"),
        Text(f"  tables    {where}", overflow="fold"),
        Text(f"  go on     python jobs/retrain.py --set input.path={where}/ratings --set output.path=..."),
    )
