"""The job that searches settings: ratings -> trials, each recorded as it finishes -> the best one, as a configuration.

extract      the ratings
transform    validate ─ hold ratings out ─ fit and measure each candidate ─ choose
load         trials, rejects, runs. best/best.yaml
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import ClassVar

import yaml
from pyspark.sql import DataFrame
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dcrec_spark.config.jobs import TuneConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.errors import ConfigError, DataError, FitError, prefix_errors
from dcrec_spark.jobs.features import Features, open_features
from dcrec_spark.jobs.inputs import input_line, open_ratings, other_input, validate_input, validate_other
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.jobs.run_record import Run, fingerprint
from dcrec_spark.jobs.tables import reject_table, text_file
from dcrec_spark.jobs.tune.candidates import Candidate, draw_candidates, format_parameters
from dcrec_spark.jobs.tune.fits import Fits, InMemory, OnCluster, fits_in_memory, metric_settings, split
from dcrec_spark.jobs.tune.trials import Ledger, SearchResult, TrialRow, choose
from dcrec_spark.publish import schemas
from dcrec_spark.storage.files import open_files
from dcrec_spark.version import __version__

FOLDER, FILE = "best", "best.yaml"
VALIDATION = "tuning.validation_path"
_LISTED = 10


@dataclass(frozen=True)
class TuneInputs:
    """Ratings as ``read_ratings`` gives them, those to choose by where they are given, candidates and features."""

    ratings: DataFrame
    validation: DataFrame | None
    candidates: Sequence[Candidate]
    features: Features


class Tune(Job[TuneConfig, TuneInputs, SearchResult]):
    """Search the settings of both stages that rank held-out ratings best. The result is the choice."""

    config_type = TuneConfig
    # A fit to so many ratings takes longer on the whole cluster than in one task, so that trials run in memory.
    most_in_memory: ClassVar[int] = 2_000_000

    def check(self, config: TuneConfig) -> None:
        draw_candidates(config)

    def extract(self, context: Context[TuneConfig]) -> TuneInputs:
        config, validation = context.config, None
        if context.before is not None and (job := context.before.record["job"]) != config.job:
            raise ConfigError(
                f"setting output.path: {context.output!r} is where the job {job} publishes, and a search would replace "
                "its tables for all who read the current run; choose another directory"
            )
        if config.tuning.validation_path is not None:
            given = other_input(config.input, config.tuning.validation_path, VALIDATION)
            with prefix_errors(VALIDATION):
                validation = read_ratings(context.spark, given)
        ratings = open_ratings(context)
        inputs = TuneInputs(ratings, validation, draw_candidates(config), open_features(context, ratings))
        if config.tuning.split == "time" and "timestamp" not in inputs.ratings.columns:
            raise ConfigError("setting tuning.split=time: the input has no timestamps; set input.columns.timestamp")
        return inputs

    def transform(self, context: Context[TuneConfig], inputs: TuneInputs) -> Outputs[SearchResult]:
        config, run, step = context.config, context.run, context.reporter.step
        valid = validate_input(context, inputs.ratings, to_fit=True)
        inputs.features.note(run, valid.ratings)
        given = inputs.validation
        chosen_by = None if given is None else validate_other(context, given, VALIDATION).ratings
        ledger = Ledger(*open_files(context.output, context.spark), _search_name(config, run, chosen_by))
        with step("hold out"):
            parts, small = split(config, valid.ratings, chosen_by), valid.counts["ratings"] <= self.most_in_memory
            in_memory = small and not run.features and fits_in_memory(config, inputs.candidates, valid.ratings.columns)
            features = inputs.features.params()
            fits: Fits = InMemory.open(context, parts) if in_memory else OnCluster.open(context, parts, features)
        with step("search"):
            rows = search(inputs.candidates, fits, ledger, run.run_id, config.tuning.metric, context.reporter.counter)
        choice = choose(rows, metric_settings(config))
        _record_search(run, ledger, rows, choice)
        table = context.spark.createDataFrame([asdict(row) for row in rows], schemas.TRIALS).coalesce(1)
        best = _best_yaml(config, inputs.candidates, choice.best)
        tables = {"trials": table, "rejects": reject_table(valid, run)}
        return Outputs(tables, choice, {FOLDER: text_file(context.spark, FILE, best)})

    def plan(self, context: Context[TuneConfig], inputs: TuneInputs) -> list[str]:
        tuning = context.config.tuning
        shared = len({candidate.stage_one for candidate in inputs.candidates} - {""})
        kind = "grid" if tuning.trials is None else "random"
        trials = f"{kind} search of {len(inputs.candidates)} trials over {shared} exposure models"
        return [
            input_line(context.config, inputs.ratings),
            *inputs.features.lines(),
            f"search  {trials}, by {tuning.metric}",
        ]

    def summary(self, context: Context[TuneConfig], finished: Finished[SearchResult]) -> RenderableType:
        run, best = finished.run, f"{finished.directory}/{FOLDER}/{FILE}".removeprefix("file://")
        lines = [f"run {run.run_id} published to {finished.directory.removeprefix('file://')}", *run.warnings]
        lines.append(f"next: dcrec retrain --config {best} --set input.path=... --set output.path=...")
        return Group(_best_trials(finished.result), *(Text(line, overflow="fold") for line in lines))


def search(
    candidates: Sequence[Candidate],
    fits: Fits,
    ledger: Ledger,
    run_id: str,
    metric: str,
    counter: Callable[[str, int], Callable[[str], None]],
) -> list[TrialRow]:
    """Fit and record what is not recorded yet. Return all trials by number.

    Raises FitError: all trials failed. Raises DataError: the metric is undefined.
    """
    known, keys = ledger.read(), {candidate.key(ledger.search): candidate for candidate in candidates}
    rows = [replace(known[key], trial=candidate.number) for key, candidate in keys.items() if key in known]
    missing = [candidate for key, candidate in keys.items() if key not in known]
    count = counter("trials", len(missing))
    attempts = fits.run(missing)
    while wave := list(islice(attempts, fits.wave)):
        done = [TrialRow.of(candidate, ledger.search, run_id, metric, result) for candidate, result in wave]
        if any(row.value != row.value for row in done):
            raise DataError(
                f"setting tuning.metric: {metric} is undefined for the ratings held out: no user has one that is "
                "relevant, or worth any gain; choose another metric, or a larger tuning.validation_share"
            )
        ledger.append(done)
        rows += done
        for row in done:
            count(f"{metric} {row.value:.4f}" if row.value is not None else f"failed: {row.error}")
    rows.sort(key=lambda row: row.trial)
    if not any(row.done for row in rows):
        raise FitError(f"all {len(rows)} trials failed, the first with: {rows[0].error}")
    return rows


def _search_name(config: TuneConfig, run: Run, chosen_by: DataFrame | None) -> str:
    """Hash ratings, split, metric and code. Trials of the same name can be compared and reused."""
    tuning = config.tuning
    facts = {
        "data": run.data_fingerprint,
        "seed": config.run.seed,
        "split": [tuning.split, tuning.validation_share] if chosen_by is None else fingerprint(chosen_by),
        "metric": [tuning.metric, asdict(metric_settings(config))],
        "weights": [tuning.weights, config.exposure.model_dump(mode="json") if tuning.weights != "none" else None],
        "precision": config.engine.precision,
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _record_search(run: Run, ledger: Ledger, rows: Sequence[TrialRow], choice: SearchResult) -> None:
    failed, earlier = [row for row in rows if not row.done], sum(row.run_id != run.run_id for row in rows)
    run.counts |= {"trials": len(rows), "trials_failed": len(failed), "trials_recorded_earlier": earlier}
    if failed:
        run.warnings.append(
            f"{len(failed)} of {len(rows)} trials failed, the first ({failed[0].trial}) with: {failed[0].error}"
        )
    others = ledger.count_others()
    if others:
        run.warnings.append(
            f"{others} other searches have recorded trials under {run.config.output.path}, of other ratings, another "
            "split, seed, metric or version; they were not used"
        )
    run.warnings.append(choice.verdict())


def _best_yaml(config: TuneConfig, candidates: Sequence[Candidate], best: TrialRow) -> str:
    chosen = next(candidate for candidate in candidates if candidate.number == best.trial)
    exposure = chosen.exposure or config.exposure
    sections = {"exposure": exposure.model_dump(mode="json"), "outcome": chosen.outcome.model_dump(mode="json")}
    interval = "" if best.ci_low is None else f" ({best.ci_low:.4f} to {best.ci_high:.4f})"
    head = (
        f"# Chosen by run {best.run_id}, trial {best.trial}: {best.metric} {best.value:.4f}{interval}, n = {best.n}.\n"
        "# All settings of both stages: dcrec retrain --config best.yaml --set input.path=... --set output.path=...\n\n"
    )
    return head + yaml.safe_dump(sections, sort_keys=False)


def _best_trials(choice: SearchResult) -> Table:
    metric = choice.best.metric
    second = "ndcg" if metric == "mse" else "mse"
    table = Table(box=SIMPLE_HEAD)
    for name in ("trial", metric, second, "sweeps"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for row in choice.trials[:_LISTED]:
        settings = Text(format_parameters(json.loads(row.parameters)))
        other = (row.metrics or {}).get(second)
        numbers = [f"{row.value:.4f}", "" if other is None else f"{other:.4f}"]
        table.add_row(str(row.trial), *numbers, str(row.sweeps), settings, style="bold" if row is choice.best else None)
    return table
