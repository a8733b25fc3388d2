"""What people read of a run: what it would do, and what it has done."""

from pyspark.sql import DataFrame
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config import ReadingConfig
from dcrec_spark.jobs.run_record import RETRAIN, Run
from dcrec_spark.jobs.saved_model import SavedModel

# Columns that reading adds for the table of rejects: they are no columns of the input.
_NOT_OF_INPUT = ("raw", "read_problems")


def run_summary(run: Run, directory: str) -> RenderableType:
    """Summarise a run: what was read, how the fits ended, where the tables are."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", justify="right")
    facts.add_column(overflow="fold")
    counts = run.counts
    if run.source is not None:
        facts.add_row("served" if run.job != RETRAIN else "begun with", Text(run.source.path, overflow="fold"))
    if "rows_in" in counts:
        read = f"{counts['accepted']:,} of {counts['rows_in']:,} rows, {counts['rejected']:,} rejected"
        facts.add_row("ratings", read)
    if run.since is not None:
        new, changed, gone = (f"{counts[f'{which}_pairs']:,} {which}" for which in ("new", "changed", "gone"))
        facts.add_row("pairs", f"{new}, {changed}, {gone} since run {run.since}")
    facts.add_row("users x items", f"{counts['users']:,} x {counts['items']:,}")
    for stage, (objective, values, _) in run.fits.items():
        facts.add_row(stage, f"{len(values)} iterations, {objective} {values[0]:,.6g} -> {values[-1]:,.6g}")
    facts.add_row("time", ", ".join(f"{step} {seconds:.1f} s" for step, seconds in run.timings.items()))
    for warning in run.warnings:
        facts.add_row("[yellow]note[/]", Text(warning))
    facts.add_row("tables", Text(directory.removeprefix("file://"), overflow="fold"))
    title = f"run {run.run_id} published, model {run.model_version}"
    return Group(Text(title, style="bold green"), facts)


def input_line(config: ReadingConfig, raw: DataFrame | None) -> str:
    """Name the ratings that a run would read, with their columns; ``raw`` is as ``read_ratings`` gives them."""
    if raw is None:
        return "input   none"
    shown = [field for field in raw.schema.fields if field.name not in _NOT_OF_INPUT]
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in shown)
    return f"input   {config.input.format} {config.input.path or config.input.table}: {columns}"


def model_line(saved: SavedModel) -> str:
    """Name the saved model that a run would begin with."""
    return f"model   {saved.source.model_version} {saved.source.path}"
