"""The job that judges a saved model: model + its training ratings + held-out ratings -> metrics table and report.

ratings, test ─ validate ─ drop pairs seen in training, and what a model does not know ─┐
model (+ a second one) ─ predict the test ─ rank the catalogue ─ explain ─ exposure check ┴─ facts ─ report.html
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import InputConfig, RunConfig, ValidationConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.titles import read_titles_file
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.common import file_writer, open_job, output_path, publish_run, reject_table
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.evaluate.facts import Found, gather, sample_users
from dcrec_spark.jobs.evaluate.steps import Judged, check_exposures, judge, judged_by
from dcrec_spark.jobs.model_input import load_to_serve, model_path, require_ids_of
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.saved_model import SavedModel, load_model, record_of
from dcrec_spark.jobs.summary import dry_run_summary, run_summary
from dcrec_spark.report.page import render

T = TypeVar("T")

JOB = "evaluate"
FOLDER, PAGE = "report", "report.html"
_TEST = "evaluation.test_path"


@dataclass(frozen=True)
class Evaluated:
    """A finished run, where its tables are, and the page."""

    run: Run
    directory: str
    report: str


@dataclass(frozen=True)
class Request:
    """What is to be judged, and by what; opened, not yet read."""

    saved: SavedModel
    other: SavedModel | None
    training: DataFrame
    test: DataFrame
    titles: DataFrame | None


def evaluate(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> Evaluated | None:
    """Judge the model at ``model.path`` as configured; None after a dry run.

    Raises
    ------
    ConfigError, DataError, ConflictError : nothing is published; run.json under ``output.path/failed`` says why.
    """
    output, timings = output_path(config), reporter.new_run()
    path, test_input = model_path(config), _test_input(config)
    spark = open_job(config, reporter, output, writes=not dry_run)
    with ExitStack() as kept:
        if dry_run:
            request = _open(config, spark, path, test_input, output, kept)
            model = f"{request.saved.source.model_version} {request.saved.source.path}"
            reporter.show(dry_run_summary(config, request.training, model, output))
            return None
        run = Run.begin(JOB, config, spark, timings)
        with run.recorded_on_failure(spark, output):
            with reporter.step("load the models"):
                request = _open(config, spark, path, test_input, output, kept)
                run.serves(request.saved)
            return _evaluate(config, reporter, spark, run, output, request, kept)


def _evaluate(
    config: RunConfig,
    reporter: Reporter,
    spark: SparkSession,
    run: Run,
    output: str,
    request: Request,
    kept: ExitStack,
) -> Evaluated:
    with reporter.step("validate"):
        training = _kept(validate(request.training, config.validation, seed=config.run.seed, to_fit=False), kept)
        run.took_in(training)
        record = record_of(spark, request.saved.source)
        _note_other_data(run, record)
        test = _kept(_named(lambda: validate(request.test, _as_given(config.validation), to_fit=False)), kept)
        judged = _judged(request, training, test, kept)
        run.counts |= {
            "test_ratings": judged.n_test,
            "test_rejected": test.counts["rejected"],
            "test_overlap": judged.overlap,
            "test_unknown": judged.unknown,
        }
    with reporter.step("predict and rank"):
        verdicts = judge(config, judged, kept)
    with reporter.step("explain"):
        samples = sample_users(config, judged, verdicts, request.titles)
    with reporter.step("check the exposures"):
        check = check_exposures(config, judged, kept)
    with reporter.step("gather"):
        page = render(gather(config, run, Found(judged, verdicts, check, samples, request.titles, record)))
    with reporter.step("publish"):
        tables = {"metrics": verdicts.table(spark, run.run_id), "rejects": reject_table(training, run)}
        directory = publish_run(spark, output, run, tables, None, {FOLDER: file_writer(spark, PAGE, page)})
    reporter.show(run_summary(config, run, directory))
    report = f"{directory}/{FOLDER}/{PAGE}"
    reporter.show(f"report    {report}")
    return Evaluated(run, directory, report)


def _test_input(config: RunConfig) -> InputConfig:
    """Where the test ratings are: the input with another place."""
    path, given = config.evaluation.test_path, config.input
    if path is None:
        raise ConfigError(
            f"setting {_TEST}: found null, expected held-out ratings, in the format and with the columns of input"
        )
    if given.format == "jdbc" and "query" in given.options:
        raise ConfigError(
            f"setting {_TEST}: input.options.query says what is read, and would be read for the test too; name the "
            "ratings with input.table, and the test with evaluation.test_path"
        )
    return given.model_copy(update={"table" if given.format in ("table", "jdbc") else "path": path})


def _open(
    config: RunConfig, spark: SparkSession, path: str, test_input: InputConfig, output: str, kept: ExitStack
) -> Request:
    settings = config.evaluation
    saved = load_to_serve(spark, path, output, kept)
    other = None
    if settings.compare_with is not None:
        other = load_model(spark, settings.compare_with, "evaluation.compare_with")
        kept.callback(other.model.release)
    training = read_ratings(spark, config.input)
    test = _named(lambda: read_ratings(spark, test_input))
    for model in filter(None, (saved, other)):
        require_ids_of(model.model, training, "input", ("user", "item"))
        require_ids_of(model.model, test, _TEST, ("user", "item"))
    titles = None
    if settings.titles_path is not None:
        titles = read_titles_file(spark, settings.titles_path, saved.model.itemFactors.schema["id"].dataType)
    return Request(saved, other, training, test, titles)


def _named(read: Callable[[], T]) -> T:
    """What ``read`` gives; what it refuses is of the test, not of the input."""
    try:
        return read()
    except DataError as error:
        raise DataError(f"setting {_TEST}: {error}") from error


def _as_given(config: ValidationConfig) -> ValidationConfig:
    """The rules for test ratings: limits on how many a user or an item has are for fits."""
    return config.model_copy(
        update={"min_ratings_per_user": 1, "min_ratings_per_item": 1, "max_ratings_per_user": None}
    )


def _kept(valid: Validated, kept: ExitStack) -> Validated:
    kept.callback(valid.unpersist)
    return valid


def _note_other_data(run: Run, record: Mapping[str, Any] | None) -> None:
    """Say so where the input is not what the model's own run was given."""
    if record is not None and record["data_fingerprint"] != run.data_fingerprint:
        run.warnings.append(
            f"the training ratings (input) are not those that run {record['run_id']} fitted the model to: what was "
            "seen, the baselines and the check of the exposures go by other data than the model"
        )


def _judged(request: Request, training: Validated, test: Validated, kept: ExitStack) -> Judged:
    judged = judged_by(request.saved, request.other, training.ratings, test.ratings, kept)
    if not judged.n_test:
        raise DataError(
            f"setting {_TEST}: none of its {test.counts['ratings']} ratings can be used: {judged.overlap} are of pairs "
            f"that are in the training ratings too, and {judged.unknown} of users or items that a model does not know"
        )
    return judged
