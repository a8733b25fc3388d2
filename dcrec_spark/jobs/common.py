"""What the jobs have in common: the session, the stamped tables, the audit, the publication."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import RunConfig
from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish import parquet, schemas
from dcrec_spark.publish.audit import audit_recommendations
from dcrec_spark.publish.protocol import Save
from dcrec_spark.spark.lineage import require_checkpoint_directory, set_checkpoint_directory
from dcrec_spark.spark.session import build_session
from dcrec_spark.storage.files import open_files


def output_path(config: RunConfig) -> str:
    """Where the tables go; ConfigError where that is not said."""
    if config.output.path is None:
        raise ConfigError("setting output.path: found null, expected the directory for the tables")
    return config.output.path


def open_job(config: RunConfig, reporter: Reporter, output: str, writes: bool) -> SparkSession:
    """The session, when the job may write to ``output``; ``writes``: as :func:`start_session` has it."""
    with reporter.step("start Spark"):
        spark = start_session(config, writes)
        parquet.check_writable(output, spark)
    return spark


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


def recommendation_table(ranked: DataFrame, run: Run) -> DataFrame:
    """``ranked`` as DeconfoundedMFModel.recommendationTable gives it -> the published table."""
    types = {field.name: field.dataType for field in ranked.schema}
    schema = schemas.recommendations(types["user_id"], types["item_id"])
    stamped = ranked.withColumns({"rank": F.col("rank").cast("int"), **run.stamp()})
    return schemas.conform(stamped, schema, "recommendations")


def factor_tables(model: DeconfoundedMFModel, run: Run) -> dict[str, DataFrame]:
    """The published tables of both sides' factors."""
    users, items = (table.withColumns(run.stamp()) for table in model.factorTables())
    user_schema, item_schema = (
        schemas.user_factors(users.schema["id"].dataType),
        schemas.item_factors(items.schema["id"].dataType),
    )
    return {
        "user_factors": schemas.conform(users, user_schema, "user_factors"),
        "item_factors": schemas.conform(items, item_schema, "item_factors"),
    }


def reject_table(valid: Validated, run: Run) -> DataFrame:
    """The published table of rows that were not used."""
    return schemas.conform(valid.rejects.withColumn("run_id", F.lit(run.run_id)), schemas.REJECTS, "rejects")


def publish_run(
    spark: SparkSession,
    output: str,
    run: Run,
    tables: Mapping[str, DataFrame],
    seen: DataFrame | None,
    folders: Mapping[str, Save] | None = None,
) -> str:
    """Stage the tables and the run's own row, audit, commit; returns the run's directory as a URI.

    seen : user_id, item_id that must not be recommended, or None. A run without recommendations has none to audit.
    """

    def audit(staged: parquet.StagedRun) -> None:
        audit_recommendations(spark.read.parquet(staged.uri("recommendations")), seen)

    with_runs = {**tables, "runs": run.as_row(spark)}
    audited = audit if "recommendations" in tables else None
    return parquet.publish(spark, output, run.run_id, with_runs, run.published, audited, folders)


def metric_settings(config: RunConfig, cuts: tuple[int, ...]) -> MetricSettings:
    """The variants of the metrics that the configuration names, for lists of these lengths."""
    given = config.evaluation
    return MetricSettings(cuts, given.relevant_from, given.gain, replications=given.bootstrap, seed=config.run.seed)


def file_writer(spark: SparkSession, name: str, text: str) -> Save:
    """What writes ``text`` to a file of that name into a directory of its own."""

    def write(uri: str) -> None:
        files, directory = open_files(uri, spark)
        files.make_directory(directory)
        files.write(f"{directory}/{name}", text.encode())

    return write


def saver(model: DeconfoundedMFModel, spark: SparkSession) -> Callable[[str], object]:
    """What writes the model to a URI."""
    return lambda uri: model.write().session(spark).save(uri)
