"""The job that draws a confounded world with known truth, as tables.

ratings   user, item, rating                       what a recommender gets to see
test      user, item, rating, expected, exposed    potential outcomes of random pairs, and their expectation
users     user, confounder, preference             the truth: c_u and theta_u
items     item, attribute                          beta_i
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import Group, RenderableType
from rich.text import Text

from dcrec_spark.config import SimulateConfig
from dcrec_spark.evaluation.simulate import Simulation, draw_items, draw_users, simulate
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.models.fitting.factors import list_array
from dcrec_spark.publish.output import open_output
from dcrec_spark.publish.parquet import StagedRun
from dcrec_spark.publish.protocol import publish

_USERS_AT_ONCE = 10_000


class Simulate(Job[SimulateConfig, Simulation, None]):
    """Draw the world that the configuration names, and publish it."""

    config_type = SimulateConfig
    last_step = "draw and publish"

    def check(self, config: SimulateConfig) -> None:
        """Refuse settings that make no world."""
        _world(config)

    def extract(self, context: Context[SimulateConfig]) -> Simulation:
        """Nothing is read: a world follows from its settings and the seed."""
        return _world(context.config)

    def transform(self, context: Context[SimulateConfig], inputs: Simulation) -> Outputs[None]:
        """Return the tables of the world, sampled while they are written."""
        return Outputs(world_tables(context.spark, inputs), None)

    def load(self, context: Context[SimulateConfig], outputs: Outputs[None]) -> str:
        """Publish; the rows are counted as they are written, because the world is sampled only once."""
        run = context.run

        def record(staged: StagedRun) -> dict[str, object]:
            run.counts |= {name: files.rows for name, files in staged.tables.items()}
            return run.published(staged)

        return publish(open_output(context.output, context.spark), run.run_id, outputs.tables, record)

    def plan(self, context: Context[SimulateConfig], inputs: Simulation) -> list[str]:
        """State the size of the world."""
        return [f"draw    {inputs.n_users:,} users x {inputs.n_items:,} items"]

    def summary(self, context: Context[SimulateConfig], finished: Finished[None]) -> RenderableType:
        """How large the world is, and how to fit a model to it."""
        return _summary(_world(context.config), finished.run.counts, finished.directory)


def _world(config: SimulateConfig) -> Simulation:
    return Simulation(**config.simulation.model_dump(), seed=config.run.seed)


def world_tables(spark: SparkSession, settings: Simulation) -> dict[str, DataFrame]:
    """Return the tables of a world, sampled when they are read."""
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
        Text(f"  go on     dcrec retrain --set input.path={where}/ratings --set output.path=..."),
    )
