"""The jobs that fit nothing: a saved model -> recommendations, for its own users or for new ones.

recommend   model (+ users) (+ ratings to leave out)  -> recommendations
fold_in     model + ratings of new users              -> recommendations, user_factors
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import RunConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.data.users import SETTING as USERS
from dcrec_spark.data.users import read_users
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.common import (
    factor_tables,
    open_job,
    output_path,
    publish_run,
    recommendation_table,
    reject_table,
)
from dcrec_spark.jobs.console import Reporter
from dcrec_spark.jobs.model_input import as_trained, id_columns, load_to_serve, model_path, require_ids_of
from dcrec_spark.jobs.run_record import Run, fingerprint
from dcrec_spark.jobs.saved_model import SavedModel
from dcrec_spark.jobs.summary import dry_run_summary, run_summary
from dcrec_spark.models.outcome.model import DeconfoundedMFModel


@dataclass(frozen=True)
class Served:
    """A finished run, and where its tables are."""

    run: Run
    directory: str


@dataclass(frozen=True)
class Request:
    """What a job is to serve: a model, and the input that goes with it, opened and not yet read.

    raw : ratings as read_ratings gives them. users : DataFrame[user_id]; None stands for all.
    """

    saved: SavedModel
    raw: DataFrame | None
    users: DataFrame | None


@dataclass(frozen=True)
class Work:
    """What a running job has at hand: the request, its ratings when they are validated, and what is to be released."""

    config: RunConfig
    run: Run
    request: Request
    valid: Validated | None
    kept: ExitStack

    @property
    def model(self) -> DeconfoundedMFModel:
        """The model that is served."""
        return self.request.saved.model

    @property
    def seen(self) -> DataFrame | None:
        """user_id, item_id to leave out; None where nothing is."""
        return self.valid.ratings if self.valid is not None and self.config.recommend.exclude_seen else None


Tables = Callable[[Work], dict[str, DataFrame]]


def recommend(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> Served | None:
    """A saved model -> recommendations for all of its users, or for a list; None after a dry run.

    Raises
    ------
    ConfigError, DataError, AuditError, ConflictError : nothing is published, the old tables stay; run.json under
        ``output.path/failed`` says why.
    """
    if config.recommend.exclude_seen and not _has_input(config):
        raise ConfigError(
            "setting recommend.exclude_seen is true, and input.path is null: set input to the ratings that the users "
            "have given, or recommend.exclude_seen=false to recommend items that they have rated too"
        )
    return _serve(config, reporter, dry_run, "recommend", _open_recommend, _recommend)


def fold_in(config: RunConfig, reporter: Reporter, dry_run: bool = False) -> Served | None:
    """A saved model and ratings of new users -> their recommendations and factors; None after a dry run.

    Raises
    ------
    ConfigError, DataError, AuditError, ConflictError : as :func:`recommend`.
    """
    return _serve(config, reporter, dry_run, "fold_in", _open_fold_in, _fold_in)


def _serve(
    config: RunConfig,
    reporter: Reporter,
    dry_run: bool,
    job: str,
    opened: Callable[[RunConfig, SparkSession, SavedModel], Request],
    tables: Tables,
) -> Served | None:
    output, timings = output_path(config), reporter.new_run()
    path = model_path(config)
    spark = open_job(config, reporter, output, writes=not dry_run)
    with ExitStack() as kept:
        if dry_run:
            request = opened(config, spark, load_to_serve(spark, path, output, kept))
            model = f"{request.saved.source.model_version} {request.saved.source.path}"
            reporter.show(dry_run_summary(config, request.raw, model, output))
            return None
        run = Run.begin(job, config, spark, timings)
        with run.recorded_on_failure(spark, output):
            with reporter.step("load the model"):
                saved = load_to_serve(spark, path, output, kept)
                run.serves(saved)
            request = opened(config, spark, saved)
            with reporter.step("validate"):
                work = Work(config, run, request, _validated(config, request, run, kept), kept)
            with reporter.step("rank and publish"):
                directory = publish_run(spark, output, run, tables(work), work.seen)
            reporter.show(run_summary(config, run, directory))
    return Served(run, directory)


def _has_input(config: RunConfig) -> bool:
    given = config.input
    if given.format in ("table", "jdbc"):
        return given.table is not None or "query" in given.options
    return given.path is not None


# ---- recommend


def _open_recommend(config: RunConfig, spark: SparkSession, saved: SavedModel) -> Request:
    raw = read_ratings(spark, config.input) if config.recommend.exclude_seen else None
    if raw is not None:
        require_ids_of(saved.model, raw, "input", ("user", "item"))
    if config.recommend.users is None:
        return Request(saved, raw, None)
    known = saved.model.userFactors
    users = read_users(spark, config.recommend.users, config.input, known.schema["id"].dataType)
    require_ids_of(saved.model, users, USERS, ("user",))
    return Request(saved, raw, users)


def _recommend(work: Work) -> dict[str, DataFrame]:
    model, users = work.model, None
    if work.request.users is not None:
        users = work.request.users.distinct().persist()
        work.kept.callback(users.unpersist)
        _note_users(work, users)
        users = users.withColumnRenamed("user_id", model.getOrDefault("userCol"))
    seen = None if work.seen is None else work.seen.select(*id_columns(model))
    ranked = model.recommendationTable(work.config.recommend.top_n, seen, users)
    tables = {"recommendations": recommendation_table(ranked, work.run)}
    return tables if work.valid is None else {**tables, "rejects": reject_table(work.valid, work.run)}


def _note_users(work: Work, users: DataFrame) -> None:
    """Note who was asked for, and who of them the model doesn't know.

    Raises
    ------
    DataError : it knows none of them.
    """
    run, path = work.run, work.config.recommend.users
    asked = users.count()
    known = users.join(work.model.userFactors.select(F.col("id").alias("user_id")), "user_id", "left_semi").count()
    if known == 0:
        raise DataError(f"{USERS} {path!r}: the model knows none of its {asked} users; are they those of the training?")
    run.counts |= {"users_asked": asked, "users_known": known}
    run.data_fingerprint = "+".join(filter(None, (run.data_fingerprint, fingerprint(users))))
    if known < asked:
        run.warnings.append(
            f"{asked - known} of the {asked} users in {USERS} are not in the model and get no recommendations; "
            "jobs/fold_in.py serves new users who have ratings"
        )


# ---- fold in


def _open_fold_in(config: RunConfig, spark: SparkSession, saved: SavedModel) -> Request:
    raw = read_ratings(spark, config.input)
    require_ids_of(saved.model, raw, "input", ("user", "item"))
    as_trained(saved.model, raw)
    return Request(saved, raw, None)


def _fold_in(work: Work) -> dict[str, DataFrame]:
    if work.valid is None:
        raise AssertionError("users are folded in by their ratings")
    ratings = as_trained(work.model, work.valid.ratings)
    _note_ratings(work, work.valid.ratings)
    folded = work.model.foldInUsers(ratings)
    work.kept.callback(folded.unpersist)
    served = work.model.withUsers(folded)
    work.kept.callback(served.release)
    work.run.counts["users"] = served.numUsers
    ranked = served.recommendationTable(work.config.recommend.top_n, None if work.seen is None else ratings)
    return {
        "recommendations": recommendation_table(ranked, work.run),
        "user_factors": factor_tables(served, work.run)["user_factors"],
        "rejects": reject_table(work.valid, work.run),
    }


def _note_ratings(work: Work, ratings: DataFrame) -> None:
    items = work.model.itemFactors.select(F.col("id").alias("item_id"))
    unknown = ratings.join(items, "item_id", "left_anti").count()
    if unknown:
        work.run.counts["ratings_of_unknown_items"] = unknown
        work.run.warnings.append(
            f"{unknown} of the {work.run.counts['ratings']} ratings are of items that the model does not know; they "
            "were left out, and a user with no others is served as one who has rated nothing"
        )


# ---- ratings for a model


def _validated(config: RunConfig, request: Request, run: Run, kept: ExitStack) -> Validated | None:
    if request.raw is None:
        return None
    valid = validate(request.raw, config.validation, seed=config.run.seed, to_fit=False)
    kept.callback(valid.unpersist)
    run.took_in(valid)
    return valid
