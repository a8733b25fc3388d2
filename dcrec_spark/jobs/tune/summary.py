"""What people read of a search: what it would try, and what came of it."""

import json
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config import TuneConfig
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.tune.candidates import Candidate, shown
from dcrec_spark.jobs.tune.choice import Choice
from dcrec_spark.jobs.tune.entry import Entry
from dcrec_spark.jobs.tune.search import Schedule

_SHOWN = 10


def plan_summary(config: TuneConfig, candidates: Sequence[Candidate], plan: Schedule) -> str:
    """How the space is searched, in one line."""
    shared = len({candidate.stage_one for candidate in candidates} - {""})
    plain = f"{config.tuning.search} search of {len(candidates)} trials over {shared} exposure models"
    if len(plan.sweeps) > 1:
        plain += f", in rounds of {', '.join(map(str, plan.sweeps))} sweeps, one in {plan.reduction} going on"
    weighted = ", weighted by inverse propensities" if config.tuning.weights == "exposure" else ""
    return f"{plain}, by {config.tuning.metric}{weighted}"


def search_summary(run: Run, choice: Choice, directory: str, best: str) -> RenderableType:
    """Summarise a search: the best trials, how sure the choice is, and where the tables are."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", justify="right")
    facts.add_column(overflow="fold")
    counts = run.counts
    facts.add_row("ratings", f"{counts['train']:,} to fit to, {counts['held_out']:,} held out")
    fits = f"{counts['fits']:,} fits, of which {counts['fits_failed']:,} failed"
    facts.add_row("trials", f"{counts['trials']:,}; {fits}, {counts['fits_recorded_earlier']:,} recorded earlier")
    facts.add_row("time", ", ".join(f"{step} {seconds:.1f} s" for step, seconds in run.timings.items()))
    facts.add_row("best", _best(choice.best))
    for warning in run.warnings:
        facts.add_row("[yellow]note[/]", Text(warning))
    facts.add_row("tables", Text(directory.removeprefix("file://"), overflow="fold"))
    facts.add_row("next", Text(f"dcrec retrain --config {best.removeprefix('file://')}", overflow="fold"))
    return Group(Text(f"run {run.run_id} published", style="bold green"), _best_trials(choice), facts)


def _best_trials(choice: Choice) -> Table:
    metric = choice.best.metric
    second = "ndcg" if metric == "mse" else "mse"
    table = Table(box=SIMPLE_HEAD)
    for name in ("trial", metric, second, "sweeps"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for entry in choice.entries[:_SHOWN]:
        style = "bold" if entry is choice.best else None
        settings = Text(shown(json.loads(entry.parameters)))
        numbers = (_number(entry.value), _number(entry.metrics.get(second)))
        table.add_row(str(entry.trial), *numbers, str(entry.sweeps), settings, style=style)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _best(entry: Entry) -> str:
    interval = "" if entry.ci_low is None or entry.ci_high is None else f" ({entry.ci_low:.4f} to {entry.ci_high:.4f})"
    return f"trial {entry.trial}: {entry.metric} {_number(entry.value)}{interval}, n {entry.n}"
