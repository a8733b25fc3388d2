"""The first five minutes: confounded ratings with known potential outcomes, three models, and the truth.

python -m examples.demo                       a simulated world
python -m examples.demo --data u.data         a MovieLens file
"""

from collections.abc import Mapping
from pathlib import Path

import click
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.panel import Panel
from rich.table import Table

from dcrec_spark.config import RetrainConfig, load_config
from dcrec_spark.data.titles import read_titles
from dcrec_spark.errors import DcrecError
from dcrec_spark.evaluation.simulate import Simulated, Simulation, add_expected, simulate
from dcrec_spark.jobs.cli import configure_logging
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.job import Finished
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.runner import run_job, start_session
from dcrec_spark.models.explain.text import with_titles
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish.current import read_current
from dcrec_spark.spark.session import conf_directory

OUTPUT = Path("output/demo")
MODELS = {
    "deconfounded": {"outcome.adjustment": "deconfounded"},
    "classical": {"outcome.adjustment": "none"},
    "intercept-free": {"outcome.adjustment": "none", "outcome.fit_intercept": "false"},
}
WORLD = Simulation(
    n_users=600,
    n_items=600,
    n_factors=5,
    confounding_preference=0.6,
    confounding_outcome=3.0,
    gamma_spread=1.0,
    gamma_reading="rate",
    test_pairs="withheld",
    test_pairs_per_user=60,
    seed=7,
)
# Of ratings without a known truth, those whose recommendations stand side by side.
COMPARED = ("deconfounded", "classical")
SHOWN_USERS, SHOWN_ITEMS = 3, 5

_STORY = """\
Ratings exist only where somebody chose to look, and what makes people look also shapes what they say. This demo draws \
a world in which that is so, and in which, unlike in yours, the truth is known: what every user would have rated every \
item. Three recommenders learn from the same ratings, with the same settings: a deconfounded one, a classical one, \
and the classical one without an intercept, which does not expect the usual rating of what nobody chose. Who is \
closer to the truth?

    {users} users x {items} items, {ratings:,} ratings
    {seen:.2f} is the average of what was rated; that of all pairs, seen or not, is {all:.2f}
    {test:,} random pairs are withheld, with their true ratings"""


@click.command()
@click.option("--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A MovieLens file.")
def demo(data: Path | None) -> None:
    """Fit the deconfounded and the classical model, and show what each recommends."""
    configure_logging(for_people=True)
    with Reporter() as reporter:
        try:
            _show_movielens(data, reporter) if data else _show_simulation(reporter)
        except DcrecError as error:
            reporter.failed(error)
            raise SystemExit(error.exit_code) from error


def _show_simulation(reporter: Reporter) -> None:
    with reporter.step("draw a confounded world"):
        spark = start_session(_config({}))
        world = simulate(spark, WORLD)
        ratings, test = str(OUTPUT / "ratings"), world.test.persist()
        world.ratings.write.mode("overwrite").parquet(ratings)
        facts = _sizes_and_means(spark.read.parquet(ratings), test)
    story = _STORY.format(users=WORLD.n_users, items=WORLD.n_items, **facts)
    reporter.show(Panel(story, title="What would people rate, if they were made to look?", border_style="cyan"))
    runs = {name: _run(name, {"input.path": ratings}, reporter) for name in MODELS}
    reporter.show(_against_truth(spark, runs, world, test))
    reporter.show(_recommendations(spark, runs["deconfounded"], None, world))
    reporter.show(_next_steps())


def _sizes_and_means(ratings: DataFrame, test: DataFrame) -> dict[str, float]:
    facts: dict[str, float] = {}
    for size, mean, frame in (("ratings", "seen", ratings), ("test", "all", test)):
        facts[size], facts[mean] = frame.agg(F.count("*"), F.avg("rating")).collect()[0]
    return facts


def _show_movielens(data: Path, reporter: Reporter) -> None:
    reporter.show(f"Ratings from {data}; no truth is known here, so look at what the two models recommend.")
    runs = {name: _run(name, {"input.path": str(data), "input.format": "movielens"}, reporter) for name in COMPARED}
    spark = start_session(_config({}))
    titles = read_titles(spark, data)
    reporter.show(_agreement(spark))
    for run in runs.values():
        reporter.show(_recommendations(spark, run, titles, None))
    reporter.show(_next_steps())


def _config(settings: Mapping[str, str]) -> RetrainConfig:
    return load_config(
        RetrainConfig, conf_directory() / "demo.yaml", [f"{name}={value}" for name, value in settings.items()]
    )


def _run(name: str, settings: Mapping[str, str], reporter: Reporter) -> Finished[DeconfoundedMFModel]:
    result = run_job(Retrain(), _config({**settings, **MODELS[name], "output.path": str(OUTPUT / name)}), reporter)
    if result is None:
        raise AssertionError("only a dry run has no result")
    return result


def _against_truth(
    spark: SparkSession, runs: Mapping[str, Finished[DeconfoundedMFModel]], world: Simulated, test: DataFrame
) -> Table:
    """Error against the withheld potential outcomes, and what the recommended items are truly worth."""
    table = Table(title="Against the truth", caption="pairs that no model saw; ratings from 1 to 5")
    table.add_column("")
    table.add_column("error of the predicted\nrating (mean squared)", justify="right")
    table.add_column("true rating of\nits top 10", justify="right")
    errors, worth = {}, {}
    for name, run in runs.items():
        pairs = test.withColumnsRenamed({"user": "user_id", "item": "item_id"})
        predicted = run.result.transform(pairs, {run.result.coldStartStrategy: "mean"})
        errors[name] = _mean(predicted, F.pow(F.col("prediction") - F.col("rating"), 2))
        top = read_current(spark, str(OUTPUT / name), "recommendations")
        pairs = top.select(F.col("user_id").alias("user"), F.col("item_id").alias("item"))
        worth[name] = _mean(add_expected(pairs, world.settings), F.col("expected"))
    for name in runs:
        values = (errors[name], worth[name])
        best = (errors[name] == min(errors.values()), worth[name] == max(worth.values()))
        cells = [f"[bold green]{v:.3f}[/]" if b else f"{v:.3f}" for v, b in zip(values, best, strict=True)]
        table.add_row(name, *cells)
    average = _mean(test, F.col("rating"))
    spread = _mean(test, F.pow(F.col("rating") - F.lit(average), 2))
    table.add_row("average, any item", f"{spread:.3f}", f"{average:.3f}", style="dim")
    return table


def _mean(frame: DataFrame, what: Column) -> float:
    return float(frame.agg(F.avg(what)).collect()[0][0])


def _recommendations(
    spark: SparkSession, run: Finished[DeconfoundedMFModel], titles: DataFrame | None, world: Simulated | None
) -> Table:
    """Show the best items of a few users, with the two parts of each score."""
    name = "deconfounded" if run.result.exposureModel is not None else "classical"
    top = read_current(spark, str(OUTPUT / name), "recommendations")
    users = [row[0] for row in top.select("user_id").distinct().orderBy("user_id").limit(SHOWN_USERS).collect()]
    chosen = top.where(F.col("user_id").isin(users) & (F.col("rank") <= SHOWN_ITEMS))
    extra = with_titles(chosen, titles) if titles is not None else chosen.withColumn("title", F.lit(None))
    if world is not None:
        pairs = chosen.select(F.col("user_id").alias("user"), F.col("item_id").alias("item"))
        truth = add_expected(pairs, world.settings).withColumnsRenamed({"user": "user_id", "item": "item_id"})
        extra = extra.join(truth, ["user_id", "item_id"])
    table = Table(title=f"Recommended by the {name} model", caption=_caption(run))
    for heading in ("user", "rank", "item", "score", "preference", "confounder"):
        table.add_column(heading, justify="left" if heading == "item" else "right")
    if world is not None:
        table.add_column("true rating", justify="right")
    last = None
    for row in extra.orderBy("user_id", "rank").collect():
        cells = [f"{row[part]:.2f}" for part in ("score", "preference", "confounder")]
        cells += [f"{row['expected']:.2f}"] if world is not None else []
        table.add_section() if last not in (None, row["user_id"]) else None
        item = str(row["title"] or row["item_id"])
        table.add_row("" if last == row["user_id"] else str(row["user_id"]), str(row["rank"]), item, *cells)
        last = row["user_id"]
    return table


def _caption(run: Finished[DeconfoundedMFModel]) -> str:
    intercept = run.result.intercept
    return f"score = preference + confounder {'-' if intercept < 0 else '+'} {abs(intercept):.2f}"


def _agreement(spark: SparkSession) -> str:
    """How much the two models agree."""
    tables = [read_current(spark, str(OUTPUT / name), "recommendations") for name in COMPARED]
    both = tables[0].join(tables[1], ["user_id", "item_id"], "left_semi").count()
    return f"{100 * both / tables[0].count():.0f} % of the deconfounded recommendations are the classical model's too."


def _next_steps() -> Panel:
    text = f"""\
tables   {OUTPUT}/deconfounded/run_id=.../: recommendations,
         user_factors, item_factors, rejects, runs, as Parquet;
         {OUTPUT}/deconfounded/CURRENT names the run to read
try      make demo DATA=path/to/u.data        your own MovieLens file
         .venv/bin/dcrec --help                      the jobs, the nightly one first
         conf/base.yaml                      every setting explained"""
    return Panel(text, title="Where things are", border_style="cyan")


if __name__ == "__main__":
    demo()
