"""The job that draws the paper's simulated data set, as tables.

ratings   user, item, rating                       what a recommender sees
test      user, item, rating, expected, exposed    potential outcomes of random pairs, and their expectation
users     user, confounder, preference             the truth: c_u and theta_u
items     item, attribute                          beta_i
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.console import RenderableType
from rich.text import Text

from dcrec_spark.config.sections import JobConfig
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.parquet import StagedRun
from dcrec_spark.publish.protocol import publish
from studies.paper_simulation import Simulation, SimulationSettings, draw_items, draw_users, simulate


class SimulateConfig(JobConfig):
    """Everything that jobs/simulate.py can be given; the seed is run.seed."""

    job: ClassVar[str] = "simulate"

    simulation: SimulationSettings = SimulationSettings()


class Simulate(Job[SimulateConfig, Simulation, None]):
    """Draw the data set that the configuration describes, and publish it."""

    config_type = SimulateConfig
    last_step = "draw and publish"

    def extract(self, context: Context[SimulateConfig]) -> Simulation:
        """Combine settings and seed; nothing is read."""
        return Simulation(**context.config.simulation.model_dump(), seed=context.config.run.seed)

    def transform(self, context: Context[SimulateConfig], inputs: Simulation) -> Outputs[None]:
        """Return the tables, which Spark draws while it writes them."""
        return Outputs(simulated_tables(context.spark, inputs), None)

    def load(self, context: Context[SimulateConfig], outputs: Outputs[None]) -> str:
        """Publish; rows are counted as they are written, so that Spark draws them only once."""
        run = context.run

        def record(staged: StagedRun) -> dict[str, object]:
            run.counts |= {name: files.rows for name, files in staged.tables.items()}
            return run.published(staged)

        return publish(open_output(context.output, context.spark), run.run_id, outputs.tables, record)

    def plan(self, context: Context[SimulateConfig], inputs: Simulation) -> list[str]:
        """State the size of the data set."""
        return [f"draw    {inputs.n_users:,} users x {inputs.n_items:,} items"]

    def summary(self, context: Context[SimulateConfig], finished: Finished[None]) -> RenderableType:
        """Size of the data set, and how to fit a model to it."""
        settings, rows = context.config.simulation, finished.run.counts
        exposed = rows["ratings"] / (settings.n_users * settings.n_items)
        where = finished.directory.removeprefix("file://")
        return Text(
            f"simulated {settings.n_users:,} users x {settings.n_items:,} items\n"
            f"  ratings   {rows['ratings']:,}, {exposed:.1%} of all pairs\n"
            f"  test      {rows['test']:,} random pairs with their potential outcomes\n"
            f"  tables    {where}\n"
            f"  go on     dcrec retrain --set input.path={where}/ratings --set output.path=...",
            overflow="fold",
        )


def simulated_tables(spark: SparkSession, settings: Simulation) -> dict[str, DataFrame]:
    """Return the tables by name."""
    data, ids = simulate(spark, settings), np.arange(settings.n_users)
    truth = draw_users(settings, ids)
    users = {"user": ids, "confounder": list(truth.confounder), "preference": list(truth.preference)}
    items = {"item": np.arange(settings.n_items), "attribute": list(draw_items(settings))}
    tables = {name: spark.createDataFrame(pa.table(of)) for name, of in (("users", users), ("items", items))}
    return {"ratings": data.ratings, "test": data.test, **tables}
