"""The first five minutes: simulated ratings whose truth is known, five recommenders, and their errors.

python -m examples.demo                       simulated data sets
python -m examples.demo --data u.data         a MovieLens file
"""

from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from rich.panel import Panel
from rich.table import Table

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.data.listed import read_titles_file
from dcrec_spark.errors import DcrecError
from dcrec_spark.jobs.cli import configure_logging
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.job import Finished
from dcrec_spark.jobs.retrain import Retrain
from dcrec_spark.jobs.runner import run_job, start_session
from dcrec_spark.models.explain.text import with_titles
from dcrec_spark.models.outcome.blend import AnyModel
from dcrec_spark.publish.current import read_current
from dcrec_spark.spark.session import conf_directory
from examples.closeness import KINDS, LIST_LENGTH, SEEDS, SHARED, Closeness, compare, draw_data
from examples.picture import draw_closeness
from studies.fair_simulation import Confounding, FairSimulation

OUTPUT = Path("output/demo")
SIZE = 600
MODELS = {"deconfounded": {"outcome.adjustment": "deconfounded"}, "classical": {"outcome.adjustment": "none"}}
# As the comparison has them. A MovieLens file has the defaults.
PRIORS = {"outcome.reg_param": str(SHARED["regParam"]), "outcome.bias_reg": str(SHARED["biasReg"])}
# The data set whose tables are published and shown.
SHOWN: tuple[Confounding, int] = ("lowers", 0)
SHOWN_USERS, SHOWN_ITEMS = 3, 5

_STORY = """\
Users rate only items that they are exposed to, and what exposes them may also shape their ratings: it confounds \
them. This demo draws data sets in which exposure raises ratings, lowers them, or changes none. Unlike in yours, the \
truth is known: what every user would have rated every item. Five recommenders learn from the same ratings, with the \
same settings, which suit the biased one best. Which one is close to the truth, without knowing which data set it has?

    {size} users x {size} items, {ratings:,} ratings in each data set ({share:.0%} of all pairs), {seeds} draws of each
    {test:,} random pairs of each are withheld, with their true ratings"""

_ROWS = """\
intercept-free   matrix factorization, as in the paper: expects 0 where nothing is known
classical        with an intercept: expects the usual rating
biased           with a bias of each user and each item: what is usual for them
deconfounded     biased, and with the substitute confounder: what exposes the users to the items
shuffled         the same, with the confounder's users and items shuffled: a placebo"""


@click.command()
@click.option("--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A MovieLens file.")
def demo(data: Path | None) -> None:
    """Show whose predictions are close to the truth, then fit and publish with the nightly job."""
    configure_logging(for_people=True)
    with Reporter(for_people=True) as reporter:
        try:
            _show_movielens(data, reporter) if data else _show_simulated(reporter)
        except DcrecError as error:
            reporter.failed(error)
            raise SystemExit(error.exit_code) from error


def _show_simulated(reporter: Reporter) -> None:
    with reporter.step("draw the data sets"):
        spark = start_session(_config({}))
        drawn = draw_data(SIZE)
        story = _STORY.format(**_sizes(drawn))
    reporter.show(Panel(story, title="What would users rate, if they were made to look?", border_style="cyan"))
    reporter.show(Panel(_ROWS, title="Who predicts", border_style="cyan"))
    results = compare(spark, drawn, reporter.counter("fit five recommenders to each data set", 5 * len(drawn)))
    reporter.show(_against_truth(results, drawn))
    reporter.show(_values(results))
    reporter.show(_conclusion(results))
    picture = draw_closeness(results, OUTPUT / "closeness.svg")
    ratings = _write(spark, drawn[SHOWN])
    run = _run("deconfounded", {"input.path": ratings, **PRIORS}, reporter)
    reporter.show(_recommendations(spark, run, None, drawn[SHOWN]))
    reporter.show(_next_steps(picture))


def _sizes(drawn: Mapping[tuple[Confounding, int], FairSimulation]) -> dict[str, float]:
    simulated = drawn[SHOWN]
    ratings = len(simulated.ratings["user"])
    share = float(np.mean([w.exposed.mean() for w in drawn.values()]))
    return {"size": SIZE, "ratings": ratings, "share": share, "seeds": len(SEEDS), "test": len(simulated.test["user"])}


def _write(spark: SparkSession, simulated: FairSimulation) -> str:
    path = str(OUTPUT / "ratings")
    spark.createDataFrame(pa.table(simulated.ratings)).write.mode("overwrite").parquet(path)
    return path


def _against_truth(
    results: Mapping[str, Mapping[Confounding, Closeness]], drawn: Mapping[tuple[Confounding, int], FairSimulation]
) -> Table:
    """Error and mean error of each row by kind of confounding, and the worst of the kinds."""
    table = Table(
        title="Against the truth",
        caption=f"random pairs that no model saw, ratings from 1 to 5, means of {len(SEEDS)} draws; mean error: of the "
        "unexposed pairs among them",
    )
    table.add_column("mean squared error\n(mean error)")
    for what in KINDS.values():
        table.add_column(what, justify="right")
    table.add_column("worst of\nthe three", justify="right")
    best = {kind: min(of[kind].squared_error.mean() for of in results.values()) for kind in KINDS}
    best_worst = min(_worst(of) for of in results.values())
    for name, of in results.items():
        cells = [_cell(of[kind], best[kind]) for kind in KINDS]
        table.add_row(name, *cells, _bold_if(f"{_worst(of):.3f}", _worst(of) == best_worst))
    noise = [f"{np.mean([_noise(w) for (k, _), w in drawn.items() if k == kind]):.3f}        " for kind in KINDS]
    table.add_row("the truth itself", *noise, "", style="dim")
    return table


def _values(results: Mapping[str, Mapping[Confounding, Closeness]]) -> Table:
    """Mean expected rating of what each row recommends, and what the best lists would have."""
    table = Table(
        title="What the lists are worth",
        caption=f"mean expected rating of the {LIST_LENGTH} best items of each user that they have not rated",
    )
    table.add_column("value of the lists")
    for what in KINDS.values():
        table.add_column(what, justify="right")
    table.add_column("worst of\nthe three", justify="right")
    values = {name: [of[kind].value.mean() for kind in KINDS] for name, of in results.items()}
    best = np.max([[*row, min(row)] for row in values.values()], axis=0)
    for name, row in values.items():
        cells = zip([*row, min(row)], best, strict=True)
        table.add_row(name, *(_bold_if(f"{value:.2f}", value == most) for value, most in cells))
    first = next(iter(results.values()))
    possible = [f"{(first[kind].value + first[kind].regret).mean():.2f}" for kind in KINDS]
    table.add_row("the best lists", *possible, "", style="dim")
    return table


def _cell(close: Closeness, best: float) -> str:
    error = close.squared_error.mean()
    return f"{_bold_if(f'{error:.3f}', error == best)} ({close.bias.mean():+.2f})"


def _bold_if(text: str, holds: bool) -> str:
    return f"[bold green]{text}[/]" if holds else text


def _worst(of: Mapping[Confounding, Closeness]) -> float:
    return float(max(close.squared_error.mean() for close in of.values()))


def _worst_value(of: Mapping[Confounding, Closeness]) -> float:
    return float(min(close.value.mean() for close in of.values()))


def _noise(simulated: FairSimulation) -> float:
    """Error of the expected rating itself: nobody can do better."""
    user, item, rating = (simulated.test[name] for name in ("user", "item", "rating"))
    return float(np.mean((simulated.expected(user, item) - rating) ** 2))


def _conclusion(results: Mapping[str, Mapping[Confounding, Closeness]]) -> str:
    """Say what the table says, in sentences that are computed from it."""
    lines = []
    for kind, what in KINDS.items():
        change = _change(results, kind, "deconfounded", "biased")
        placebo = _change(results, kind, "shuffled", "biased")
        lines.append(
            f"  If {what.replace(chr(10), ' ')}: the confounder changes the error of the biased model by "
            f"{change:+.1%}, its placebo by {placebo:+.1%}."
        )
    first = min(results, key=lambda name: _worst(results[name]))
    best = max(results, key=lambda name: _worst_value(results[name]))
    lines.append(
        f"  If the kind is unknown: the smallest worst error is that of the {first} model, the largest worst value of "
        f"lists that of the {best} model."
    )
    return "\n".join(lines)


def _change(results: Mapping[str, Mapping[Confounding, Closeness]], kind: Confounding, row: str, against: str) -> float:
    one, other = (results[name][kind].squared_error.mean() for name in (row, against))
    return float(one / other - 1.0)


def _show_movielens(data: Path, reporter: Reporter) -> None:
    reporter.show(f"Ratings from {data}; no truth is known here, so look at what the two models recommend.")
    runs = {name: _run(name, {"input.path": str(data), "input.format": "movielens"}, reporter) for name in MODELS}
    spark = start_session(_config({}))
    named = [path for name in ("u.item", "movies.dat") if (path := data.parent / name).exists()]
    titles = read_titles_file(spark, str(named[0].resolve()), LongType()) if named else None
    reporter.show(_agreement(spark))
    for run in runs.values():
        reporter.show(_recommendations(spark, run, titles, None))
    reporter.show(_next_steps())


def _config(settings: Mapping[str, str]) -> RetrainConfig:
    return load_config(
        RetrainConfig, conf_directory() / "demo.yaml", [f"{name}={value}" for name, value in settings.items()]
    )


def _run(name: str, settings: Mapping[str, str], reporter: Reporter) -> Finished[AnyModel]:
    result = run_job(Retrain(), _config({**settings, **MODELS[name], "output.path": str(OUTPUT / name)}), reporter)
    if result is None:
        raise AssertionError("only a dry run has no result")
    return result


def _recommendations(
    spark: SparkSession, run: Finished[AnyModel], titles: DataFrame | None, simulated: FairSimulation | None
) -> Table:
    """Show the best items of a few users, with the two parts of each score."""
    name = "deconfounded" if run.result.exposureModel is not None else "classical"
    top = read_current(spark, str(OUTPUT / name), "recommendations")
    users = [row[0] for row in top.select("user_id").distinct().orderBy("user_id").limit(SHOWN_USERS).collect()]
    chosen = top.where(F.col("user_id").isin(users) & (F.col("rank") <= SHOWN_ITEMS))
    extra = with_titles(chosen, titles) if titles is not None else chosen.withColumn("title", F.lit(None))
    table = Table(title=f"Recommended by the {name} model", caption=_caption(run))
    for heading in ("user", "rank", "item", "score", "preference", "confounder"):
        table.add_column(heading, justify="left" if heading == "item" else "right")
    if simulated is not None:
        table.add_column("true rating", justify="right")
    last = None
    for row in extra.orderBy("user_id", "rank").collect():
        cells = [f"{row[part]:.2f}" for part in ("score", "preference", "confounder")]
        if simulated is not None:
            pair = np.array([row["user_id"]]), np.array([row["item_id"]])
            cells.append(f"{simulated.expected(*pair)[0]:.2f}")
        table.add_section() if last not in (None, row["user_id"]) else None
        item = str(row["title"] or row["item_id"])
        table.add_row("" if last == row["user_id"] else str(row["user_id"]), str(row["rank"]), item, *cells)
        last = row["user_id"]
    return table


def _caption(run: Finished[AnyModel]) -> str:
    intercept = run.result.intercept
    return f"score = preference + confounder {'-' if intercept < 0 else '+'} {abs(intercept):.2f}"


def _agreement(spark: SparkSession) -> str:
    """How much the two models agree."""
    tables = [read_current(spark, str(OUTPUT / name), "recommendations") for name in MODELS]
    both = tables[0].join(tables[1], ["user_id", "item_id"], "left_semi").count()
    return f"{100 * both / tables[0].count():.0f} % of the deconfounded recommendations are the classical model's too."


def _next_steps(picture: Path | None = None) -> Panel:
    shown = f"picture  {picture}: the errors above\n" if picture else ""
    text = f"""\
{shown}tables   {OUTPUT}/deconfounded/run_id=.../: recommendations,
         user_factors, item_factors, rejects, runs, as Parquet;
         {OUTPUT}/deconfounded/CURRENT names the run to read
try      make demo DATA=path/to/u.data        your own MovieLens file
         .venv/bin/dcrec --help               the jobs, the nightly one first
         conf/base.yaml                       every setting explained"""
    return Panel(text, title="Where things are", border_style="cyan")


if __name__ == "__main__":
    demo()
