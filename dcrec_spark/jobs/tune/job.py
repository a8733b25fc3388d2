"""The job that chooses settings: ratings -> validated -> trials, each recorded -> the best one, as a configuration.

ratings ─ validate ─ hold some out ─ fit and judge each candidate ─ trials table and best.yaml, published
                                          │  └─ recorded as they end: run again, and the search goes on
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import yaml
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import RunConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.common import file_writer, open_job, output_path, publish_run, reject_table
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.summary import dry_run_summary
from dcrec_spark.jobs.tune.candidates import Candidate, draw
from dcrec_spark.jobs.tune.choice import Choice, choose
from dcrec_spark.jobs.tune.entry import Entry
from dcrec_spark.jobs.tune.fits import Fits, OneByOne, SideBySide, small
from dcrec_spark.jobs.tune.held_out import Sizes, gather_known, keep_known, metric_settings, require_times, split
from dcrec_spark.jobs.tune.ledger import Ledger
from dcrec_spark.jobs.tune.search import Schedule, Search, schedule
from dcrec_spark.jobs.tune.summary import plan_summary, search_summary
from dcrec_spark.publish import schemas
from dcrec_spark.publish.parquet import current_directory, read_record
from dcrec_spark.storage.files import open_files
from dcrec_spark.version import __version__

JOB = "tune"
FOLDER, FILE = "best", "best.yaml"


@dataclass(frozen=True)
class Tuned:
    """A finished search: where its tables are, all trials, the choice, and the configuration file with it."""

    run: Run
    directory: str
    entries: list[Entry]
    choice: Choice
    best: str


def tune(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> Tuned | None:
    """Search as configured; None after a dry run.

    Raises
    ------
    ConfigError, DataError, FitError, ConflictError : nothing is published; run.json under ``output.path/failed`` says
        why. Trials that have ended stay recorded, and the next run of the same search begins with them.
    """
    output, timings = output_path(config), reporter.new_run()
    candidates, plan = draw(config), schedule(config)
    spark = open_job(config, reporter, output, writes=not dry_run)
    _require_own(spark, output)
    raw = read_ratings(spark, config.input)
    require_times(config, raw.columns)
    small(config, candidates, raw.columns, 0)  # refuses what cannot be
    if dry_run:
        reporter.show(dry_run_summary(config, raw, plan_summary(config, candidates, plan), output))
        return None
    run = Run.begin(JOB, config, spark, timings)
    with run.recorded_on_failure(spark, output), ExitStack() as kept:
        return _tune(config, reporter, run, output, raw, candidates, plan, kept)


def _tune(
    config: RunConfig,
    reporter: Reporter,
    run: Run,
    output: str,
    raw: DataFrame,
    candidates: Sequence[Candidate],
    plan: Schedule,
    kept: ExitStack,
) -> Tuned:
    spark = raw.sparkSession
    with reporter.step("validate"):
        valid = validate(raw, config.validation, seed=config.run.seed)
        kept.callback(valid.unpersist)
        run.took_in(valid)
    ledger = Ledger(*open_files(output, spark), _search_name(config, run))
    with reporter.step("hold out"):
        fits, sizes = _fits(config, spark, candidates, valid, kept)
        _note_split(run, sizes)
    with reporter.step("search"):
        search = Search(fits, ledger, run.run_id, config.tuning.metric, reporter.counter)
        entries = search.run(candidates, plan)
    choice = choose(entries, metric_settings(config))
    _note_search(run, ledger, entries, choice)
    with reporter.step("publish"):
        tables = {"trials": _table(spark, entries), "rejects": reject_table(valid, run)}
        chosen = next(candidate for candidate in candidates if candidate.number == choice.best.trial)
        writer = file_writer(spark, FILE, _best_yaml(config, chosen, choice, run))
        directory = publish_run(spark, output, run, tables, None, {FOLDER: writer})
    best = f"{directory}/{FOLDER}/{FILE}"
    reporter.show(search_summary(run, choice, directory, best))
    return Tuned(run, directory, entries, choice, best)


def _require_own(spark: SparkSession, output: str) -> None:
    """A search becomes the current run: whoever reads models or recommendations there would lose them."""
    directory = current_directory(output, spark)
    record = None if directory is None else read_record(directory, spark)
    if record is not None and record["job"] != JOB:
        raise ConfigError(
            f"setting output.path: {output!r} is where jobs/{record['job']}.py publishes, and a search would take the "
            "place of its tables there for all who read the current run; choose another directory"
        )


def _search_name(config: RunConfig, run: Run) -> str:
    """The same for the same ratings, split, metric and code: their trials can be compared, and used again."""
    tuning = config.tuning
    facts = {
        "data": run.data_fingerprint,
        "seed": config.run.seed,
        "split": [tuning.split, tuning.validation_share],
        "metric": [tuning.metric, asdict(metric_settings(config))],
        "precision": config.engine.precision,
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _fits(
    config: RunConfig, spark: SparkSession, candidates: Sequence[Candidate], valid: Validated, kept: ExitStack
) -> tuple[Fits, Sizes]:
    parts = split(config, valid.ratings)
    if small(config, candidates, valid.ratings.columns, valid.counts["ratings"]):
        gathered, sizes = gather_known(parts)
        return SideBySide.over(spark, config, gathered), sizes
    cached, sizes = keep_known(parts, kept)
    fits = OneByOne(config, cached)
    kept.callback(fits.close)
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


def _table(spark: SparkSession, entries: Sequence[Entry]) -> DataFrame:
    return spark.createDataFrame([asdict(entry) for entry in entries], schemas.TRIALS).coalesce(1)


def _best_yaml(config: RunConfig, chosen: Candidate, choice: Choice, run: Run) -> str:
    """Both stages in full, as jobs/retrain.py takes them."""
    exposure = chosen.exposure or config.exposure
    sections = {"exposure": exposure.model_dump(mode="json"), "outcome": chosen.outcome.model_dump(mode="json")}
    best = choice.best
    interval = "" if best.ci_low is None else f" ({best.ci_low:.4f} to {best.ci_high:.4f})"
    head = (
        f"# Chosen by run {run.run_id}, trial {best.trial}: {best.metric} {best.value:.4f}{interval} of {best.n}.\n"
        "# Both stages whole; the rest is as before: python jobs/retrain.py --config best.yaml --set input.path=...\n\n"
    )
    return head + yaml.safe_dump(sections, sort_keys=False)
