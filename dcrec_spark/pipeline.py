"""The main job: ratings -> validated -> both stages -> top-N -> audited -> published."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark import schemas
from dcrec_spark.config import RunConfig
from dcrec_spark.console import Reporter
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.validate import Validated, validate
from dcrec_spark.engine.lineage import require_checkpoint_directory, set_checkpoint_directory
from dcrec_spark.errors import ConfigError
from dcrec_spark.models.exposure import PoissonFactorization
from dcrec_spark.models.outcome import DeconfoundedMF
from dcrec_spark.models.outcome_model import DeconfoundedMFModel
from dcrec_spark.publish import parquet
from dcrec_spark.publish.audit import audit_recommendations
from dcrec_spark.record import Run
from dcrec_spark.session import build_session
from dcrec_spark.summary import dry_run_summary, run_summary


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
    output, timings = _output(config), reporter.new_run()
    with reporter.step("start Spark"):
        spark = start_session(config, writes=not dry_run)
        parquet.check_writable(output, spark)
    if dry_run:
        reporter.show(dry_run_summary(config, read_ratings(spark, config.input), output))
        return None
    run = Run.begin(config, spark, timings)
    with run.recorded_on_failure(spark, output):
        return _retrain(config, reporter, spark, read_ratings(spark, config.input), run, output)


def start_session(config: RunConfig, writes: bool = True) -> SparkSession:
    """The session that the configuration asks for, its checkpoint directory set or not needed.

    writes : False leaves the checkpoint directory unmade, for a session that fits nothing.
    """
    with _own_interrupt():
        spark = build_session(config.run.name, config.spark.master, config.spark.conf)
    if config.spark.checkpoint_dir is None:
        require_checkpoint_directory(spark)
    elif writes:
        set_checkpoint_directory(spark, config.spark.checkpoint_dir)
    return spark


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep this process's answer to Ctrl-C, which a new session takes over.

    Spark's own answer calls the JVM over the very connection that it interrupts, and ends as an error of that.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _output(config: RunConfig) -> str:
    if config.output.path is None:
        raise ConfigError("setting output.path: found null, expected the directory for the tables")
    return config.output.path


def _retrain(
    config: RunConfig, reporter: Reporter, spark: SparkSession, raw: DataFrame, run: Run, output: str
) -> Retrained:
    with ExitStack() as kept:
        with reporter.step("validate"):
            valid = validate(raw, config.validation, seed=config.run.seed)
            kept.callback(valid.unpersist)
            run.took_in(valid)
        model = _fit(config, reporter, valid.ratings)
        run.fitted(model)
        with reporter.step("rank and publish"):
            tables = _tables(config, model, valid, run)
            directory = parquet.publish(
                spark, output, run.run_id, tables, record=run.published, audit=_auditor(config, spark, valid)
            )
    reporter.show(run_summary(config, run, directory))
    return Retrained(run, directory, model)


def _fit(config: RunConfig, reporter: Reporter, ratings: DataFrame) -> DeconfoundedMFModel:
    common = {"userCol": "user_id", "itemCol": "item_id", "seed": config.run.seed, **_params(config.engine)}
    kind = config.exposure.kind
    count = None if kind == "binary" else ("count" if "count" in ratings.columns else "rating")
    exposure = PoissonFactorization(**common, **_params(config.exposure, leave_out={"kind"}), countCol=count)
    outcome = DeconfoundedMF(**common, **_params(config.outcome), exposureModel=exposure)
    outcome.listener = exposure.listener = reporter.listener(
        {"exposure": config.exposure.max_iter, "outcome": config.outcome.max_iter}
    )
    with reporter.step("fit"):
        return outcome.fit(ratings)


def _params(section: BaseModel, leave_out: set[str] | None = None) -> dict[str, Any]:
    """The settings of a section as parameters of an estimator: user_reg -> userReg."""
    return {to_camel(name): value for name, value in section.model_dump(exclude=leave_out).items()}


def _tables(config: RunConfig, model: DeconfoundedMFModel, valid: Validated, run: Run) -> dict[str, DataFrame]:
    seen = valid.ratings if config.recommend.exclude_seen else None
    ranked = model.recommendationTable(config.recommend.top_n, seen).withColumn("rank", F.col("rank").cast("int"))
    users, items = model.factorTables()
    user_type, item_type = users.schema["id"].dataType, items.schema["id"].dataType
    stamp = run.stamp()
    return {
        "recommendations": schemas.conform(
            ranked.withColumns(stamp), schemas.recommendations(user_type, item_type), "recommendations"
        ),
        "user_factors": schemas.conform(users.withColumns(stamp), schemas.user_factors(user_type), "user_factors"),
        "item_factors": schemas.conform(items.withColumns(stamp), schemas.item_factors(item_type), "item_factors"),
        "rejects": schemas.conform(valid.rejects.withColumn("run_id", stamp["run_id"]), schemas.REJECTS, "rejects"),
        "runs": run.as_row(model.userFactors.sparkSession),
    }


def _auditor(config: RunConfig, spark: SparkSession, valid: Validated) -> Callable[[parquet.StagedRun], None]:
    def audit(staged: parquet.StagedRun) -> None:
        table = spark.read.parquet(staged.uri("recommendations"))
        seen = valid.ratings if config.recommend.exclude_seen else None
        audit_recommendations(table, seen)

    return audit
