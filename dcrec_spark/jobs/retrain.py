"""The main job: ratings -> validated -> both stages -> top-N -> audited -> published, the model beside the tables."""

from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import RunConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError, FitError
from dcrec_spark.jobs.common import (
    factor_tables,
    open_job,
    output_path,
    publish_run,
    recommendation_table,
    reject_table,
    saver,
)
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.estimator_settings import exposure_params, outcome_params
from dcrec_spark.jobs.run_record import RETRAIN, Run
from dcrec_spark.jobs.saved_model import FOLDER, SavedModel, load_model, previous_run
from dcrec_spark.jobs.summary import dry_run_summary, run_summary
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.fitting.degeneracies import vanished
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

PREVIOUS = "previous"


@dataclass(frozen=True)
class Retrained:
    """A finished run: where its tables are, and the fitted model, still in memory."""

    run: Run
    directory: str
    model: DeconfoundedMFModel


def retrain(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> Retrained | None:
    """Run the job as configured; None after a dry run.

    Raises
    ------
    ConfigError, DataError, FitError, AuditError, ConflictError : nothing is published, the old tables stay; run.json
        under ``output.path/failed`` says why.
    """
    output, timings = output_path(config), reporter.new_run()
    spark = open_job(config, reporter, output, writes=not dry_run)
    with ExitStack() as kept:
        if dry_run:
            raw = read_ratings(spark, config.input)
            _estimator(config, raw, _warm_model(config, spark, output, kept))
            model = f"{config.outcome.outcome}, adjustment {config.outcome.adjustment}"
            reporter.show(dry_run_summary(config, raw, model, output))
            return None
        run = Run.begin(RETRAIN, config, spark, timings)
        with run.recorded_on_failure(spark, output):
            return _retrain(config, reporter, spark, run, output, kept)


def _retrain(
    config: RunConfig, reporter: Reporter, spark: SparkSession, run: Run, output: str, kept: ExitStack
) -> Retrained:
    raw = read_ratings(spark, config.input)
    warm = _warm_model(config, spark, output, kept)
    run.begins_with(warm.source if warm else None)
    with reporter.step("validate"):
        valid = validate(raw, config.validation, seed=config.run.seed)
        kept.callback(valid.unpersist)
        run.took_in(valid)
    model = _fit(config, reporter, valid.ratings, warm)
    run.fitted(model)
    with reporter.step("rank and publish"):
        seen = valid.ratings if config.recommend.exclude_seen else None
        tables = _tables(config, model, valid, run, seen)
        directory = publish_run(spark, output, run, tables, seen, {FOLDER: saver(model, spark)})
    reporter.show(run_summary(config, run, directory))
    return Retrained(run, directory, model)


def _warm_model(config: RunConfig, spark: SparkSession, output: str, kept: ExitStack) -> SavedModel | None:
    """The model that the fit is to start from, if any; it is released with ``kept``."""
    path = config.model.warm_start
    if path == PREVIOUS:
        path = previous_run(spark, output)
    if path is None:
        return None
    warm = load_model(spark, path, "model.warm_start")
    kept.callback(warm.model.release)
    return warm


def _fit(config: RunConfig, reporter: Reporter, ratings: DataFrame, warm: SavedModel | None) -> DeconfoundedMFModel:
    outcome, exposure = _estimator(config, ratings, warm)
    outcome.listener = exposure.listener = reporter.listener(
        {"exposure": config.exposure.max_iter, "outcome": config.outcome.max_iter}
    )
    with reporter.step("fit"):
        model = outcome.fit(ratings)
    _require_factors(model)
    return model


def _estimator(
    config: RunConfig, ratings: DataFrame, warm: SavedModel | None
) -> tuple[DeconfoundedMF, PoissonFactorization]:
    """Both stages as they are configured, for ratings with these columns.

    Raises
    ------
    ConfigError : the fit could not start from the given model.
    """
    shared = config.engine, config.run.seed, ratings.columns
    exposure = PoissonFactorization(**exposure_params(config.exposure, *shared))
    outcome = DeconfoundedMF(
        **outcome_params(config.outcome, *shared), exposureModel=exposure, initialModel=warm.model if warm else None
    )
    try:
        outcome.checkInitialModel(ratings)
    except ConfigError as error:
        raise ConfigError(f"setting model.warm_start: {error}; null starts anew") from error
    return outcome, exposure


def _require_factors(model: DeconfoundedMFModel) -> None:
    """Rankings by factors that vanished would be rankings by the confounder alone, or by nothing.

    Raises
    ------
    FitError : all factors of a stage are zero.
    """
    exposure = model.exposureModel.degeneracies if model.exposureModel else []
    found = [*exposure, *model.degeneracies]
    if vanished(found):
        raise FitError("; ".join(map(str, found)))


def _tables(
    config: RunConfig, model: DeconfoundedMFModel, valid: Validated, run: Run, seen: DataFrame | None
) -> dict[str, DataFrame]:
    ranked = model.recommendationTable(config.recommend.top_n, seen)
    return {
        "recommendations": recommendation_table(ranked, run),
        **factor_tables(model, run),
        "rejects": reject_table(valid, run),
    }
