"""The job that chooses settings: ratings -> trials, each recorded as it ends -> the best one, as a configuration.

extract      the ratings
transform    validate ─ hold some out ─ fit and measure each candidate ─ choose
                                             └─ recorded as they end: run again, and the search goes on
load         trials, rejects, runs; best/best.yaml
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import yaml
from pyspark.sql import DataFrame, SparkSession
from rich.console import RenderableType

from dcrec_spark.config import TuneConfig
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.inputs import input_line, open_ratings
from dcrec_spark.jobs.job import Context, Finished, Job, Outputs
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.tables import reject_table, text_file
from dcrec_spark.jobs.tune.candidates import Candidate, draw
from dcrec_spark.jobs.tune.choice import Choice, choose
from dcrec_spark.jobs.tune.entry import Entry
from dcrec_spark.jobs.tune.fits import Fits, OneByOne, SideBySide, small
from dcrec_spark.jobs.tune.held_out import (
    Sizes,
    cache_known,
    gather_known,
    metric_settings,
    require_times,
    split,
    weigh_here,
    weigh_there,
)
from dcrec_spark.jobs.tune.ledger import Ledger
from dcrec_spark.jobs.tune.search import Schedule, Search, schedule
from dcrec_spark.jobs.tune.summary import plan_summary, search_summary
from dcrec_spark.publish import schemas
from dcrec_spark.publish.current import current_directory, read_record
from dcrec_spark.storage.files import open_files
from dcrec_spark.version import __version__

FOLDER, FILE = "best", "best.yaml"


@dataclass(frozen=True)
class Inputs:
    """Ratings as ``read_ratings`` gives them, the candidates, and the rounds that they are fitted in."""

    ratings: DataFrame
    candidates: Sequence[Candidate]
    rounds: Schedule


class Tune(Job[TuneConfig, Inputs, Choice]):
    """Search the settings of both stages that rank held-out ratings best. The result is the choice."""

    config_type = TuneConfig

    def check(self, config: TuneConfig) -> None:
        """Refuse a search space or rounds that make no sense."""
        draw(config)
        schedule(config)

    def extract(self, context: Context[TuneConfig]) -> Inputs:
        """Open the ratings, which need the columns that the search goes by."""
        config, spark = context.config, context.spark
        _require_place_of_searches(spark, context.output)
        inputs = Inputs(open_ratings(context), draw(config), schedule(config))
        require_times(config, inputs.ratings.columns)
        small(config, inputs.candidates, inputs.ratings.columns, 0)  # refuses what cannot be
        return inputs

    def transform(self, context: Context[TuneConfig], inputs: Inputs) -> Outputs[Choice]:
        """Validate, hold some ratings out, fit and measure each candidate, choose."""
        config, run, step = context.config, context.run, context.reporter.step
        with step("validate"):
            valid = validate(inputs.ratings, config.validation, seed=config.run.seed)
            context.resources.callback(valid.unpersist)
            run.took_in(valid)
        ledger = Ledger(*open_files(context.output, context.spark), _search_name(config, run))
        with step("hold out"):
            fits, sizes = _fits(context, inputs.candidates, valid)
            _note_split(run, sizes)
        with step("search"):
            search = Search(fits, ledger, run.run_id, config.tuning.metric, context.reporter.counter)
            entries = search.run(inputs.candidates, inputs.rounds)
        choice = choose(entries, metric_settings(config))
        _note_search(run, ledger, entries, choice)
        best = next(candidate for candidate in inputs.candidates if candidate.number == choice.best.trial)
        tables = {"trials": _trial_table(context.spark, entries), "rejects": reject_table(valid, run)}
        return Outputs(tables, choice, {FOLDER: text_file(context.spark, FILE, _best_yaml(config, best, choice, run))})

    def plan(self, context: Context[TuneConfig], inputs: Inputs) -> list[str]:
        """Name the ratings, and how the settings are searched."""
        search = plan_summary(context.config, inputs.candidates, inputs.rounds)
        return [input_line(context.config, inputs.ratings), f"search  {search}"]

    def summary(self, context: Context[TuneConfig], finished: Finished[Choice]) -> RenderableType:
        """Show the best trials, how sure the choice is, and where the configuration of the best is."""
        best = f"{finished.directory}/{FOLDER}/{FILE}"
        return search_summary(finished.run, finished.result, finished.directory, best)


def _require_place_of_searches(spark: SparkSession, output: str) -> None:
    """Refuse a directory where another job publishes: readers of its current run would get the search instead."""
    directory = current_directory(output, spark)
    record = None if directory is None else read_record(directory, spark)
    if record is not None and record["job"] != TuneConfig.job:
        raise ConfigError(
            f"setting output.path: {output!r} is where the job {record['job']} publishes, and a search would take the "
            "place of its tables there for all who read the current run; choose another directory"
        )


def _search_name(config: TuneConfig, run: Run) -> str:
    """Hash ratings, split, metric and code: trials that agree in it can be compared, and reused."""
    tuning = config.tuning
    facts = {
        "data": run.data_fingerprint,
        "seed": config.run.seed,
        "split": [tuning.split, tuning.validation_share],
        "metric": [tuning.metric, asdict(metric_settings(config))],
        "weights": [tuning.weights, config.exposure.model_dump(mode="json") if tuning.weights != "none" else None],
        "precision": config.engine.precision,
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _fits(context: Context[TuneConfig], candidates: Sequence[Candidate], valid: Validated) -> tuple[Fits, Sizes]:
    """Choose the way to fit the candidates to what is not held out; count the ratings of each part."""
    config = context.config
    parts = split(config, valid.ratings)
    if small(config, candidates, valid.ratings.columns, valid.counts["ratings"]):
        gathered, sizes = gather_known(parts)
        return SideBySide.over(context.spark, config, weigh_here(config, gathered)), sizes
    cached, sizes = cache_known(parts, context.resources)
    fits = OneByOne(config, weigh_there(config, cached, context.resources))
    context.resources.callback(fits.close)
    return fits, sizes


def _note_split(run: Run, sizes: Sizes) -> None:
    run.counts |= {"train": sizes.train, "held_out": sizes.validation}
    if sizes.unknown:
        run.counts["held_out_unknown"] = sizes.unknown
        run.warnings.append(
            f"{sizes.unknown} of the ratings held out are of users or items without any to fit to, and were not used"
        )


def _note_search(run: Run, ledger: Ledger, entries: Sequence[Entry], choice: Choice) -> None:
    failed = [entry for entry in entries if not entry.done]
    earlier = sum(entry.run_id != run.run_id for entry in entries)
    # A trial is fitted once in each of its rounds.
    run.counts |= {"trials": len({entry.trial for entry in entries}), "fits": len(entries)}
    run.counts |= {"fits_failed": len(failed), "fits_recorded_earlier": earlier}
    if failed:
        run.warnings.append(
            f"{len(failed)} of {len(entries)} fits failed, the first ({failed[0].trial}) with: {failed[0].error}"
        )
    others = ledger.others()
    if others:
        run.warnings.append(
            f"{others} other searches have recorded trials under {run.config.output.path}, of other ratings, another "
            "split, seed, metric or version; they were not used"
        )
    run.warnings.append(choice.verdict())


def _trial_table(spark: SparkSession, entries: Sequence[Entry]) -> DataFrame:
    return spark.createDataFrame([asdict(entry) for entry in entries], schemas.TRIALS).coalesce(1)


def _best_yaml(config: TuneConfig, chosen: Candidate, choice: Choice, run: Run) -> str:
    """Both stages in full, as the job retrain takes them."""
    exposure = chosen.exposure or config.exposure
    sections = {"exposure": exposure.model_dump(mode="json"), "outcome": chosen.outcome.model_dump(mode="json")}
    best = choice.best
    interval = "" if best.ci_low is None else f" ({best.ci_low:.4f} to {best.ci_high:.4f})"
    head = (
        f"# Chosen by run {run.run_id}, trial {best.trial}: {best.metric} {best.value:.4f}{interval} of {best.n}.\n"
        "# Both stages whole; the rest is as before: dcrec retrain --config best.yaml --set input.path=...\n\n"
    )
    return head + yaml.safe_dump(sections, sort_keys=False)
