"""Inputs of jobs: ratings of one snapshot, and saved models with ratings under the names that they know."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.sections import FittingConfig, InputConfig, ReadingConfig, ServingConfig
from dcrec_spark.data.read import pin_snapshot, read_ratings, table_id
from dcrec_spark.data.validation.row_rules import ALL_DAYS, Window
from dcrec_spark.data.validation.validate import Validated, validate
from dcrec_spark.errors import ConfigError, prefix_errors
from dcrec_spark.jobs.job import Context, Job, ResultT
from dcrec_spark.jobs.run_record import fingerprint
from dcrec_spark.jobs.saved_model import SavedModel, load_model
from dcrec_spark.models.fitting.checks import require_same_ids
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel
from dcrec_spark.settings.tables import OF_RATED_PAIRS
from dcrec_spark.storage.files import open_files

ServingT = TypeVar("ServingT", bound=ServingConfig)


def open_ratings(context: Context[Any]) -> DataFrame:
    """Open the ratings that the settings name, and note their snapshot. See ``read_ratings``."""
    given = pin_snapshot(context.spark, context.config.input)
    context.run.input_snapshot = given.snapshot
    context.run.input_table_id = table_id(context.spark, given)
    return read_ratings(context.spark, given)


def other_input(given: InputConfig, path: str, name: str) -> InputConfig:
    """Return the settings of further ratings, at ``path``. Raises ConfigError: a query of the input would be theirs."""
    if given.format == "jdbc" and "query" in given.options:
        raise ConfigError(
            f"setting {name}: input.options.query would be used for these ratings too; name those of the input with "
            f"input.table, and these with {name}"
        )
    return given.model_copy(update={"table" if given.format in ("table", "jdbc") else "path": path, "snapshot": None})


def validate_other(context: Context[Any], raw: DataFrame, name: str) -> Validated:
    """Validate ratings of the setting ``name``, which no model is fitted to. Released at the end."""
    # The limits on how many ratings a user or an item has are for fits.
    lifted = {"min_ratings_per_user": 1, "min_ratings_per_item": 1, "max_ratings_per_user": None}
    limits = context.config.validation.model_copy(update=lifted)
    with prefix_errors(name):
        valid = validate(raw, limits, to_fit=False)
    context.resources.callback(valid.unpersist)
    return valid


def input_line(config: ReadingConfig, raw: DataFrame | None) -> str:
    """Name the ratings that a run would read, with their columns. ``raw`` is as ``read_ratings`` returns them."""
    if raw is None:
        return "input   none"
    shown = [field for field in raw.schema.fields if field.name not in ("raw", "read_problems")]  # added for rejects
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in shown)
    days = window_of(config, raw).describe()
    return f"input   {config.input.format} {config.input.path or config.input.table}{days}: {columns}"


def window_of(config: ReadingConfig, raw: DataFrame) -> Window:
    """Return the days of the ratings that a run uses: none after its own, where timestamps tell."""
    if "timestamp" not in raw.columns:
        return ALL_DAYS
    day, given = config.run.run_date, config.input
    is_past = day < datetime.now(UTC).date()
    return Window(given.since, day if given.until is None and is_past else given.until)


def validate_input(context: Context[Any], raw: DataFrame, to_fit: bool = False) -> Validated:
    """Validate ratings, noted in the record and released at the end. to_fit : whether a model is fitted to them."""
    config, window = context.config, window_of(context.config, raw)
    context.run.input_window = window
    with context.reporter.step("validate"):
        outcome = config.outcome if isinstance(config, FittingConfig) else None
        signed = outcome is not None and outcome.outcome in OF_RATED_PAIRS
        equal = not signed or bool(outcome and outcome.unobserved_weight)
        of_fit = {"to_fit": to_fit, "signed": signed, "equal": equal}
        refused = context.run.note_refusal
        valid = validate(raw, config.validation, seed=config.run.seed, window=window, refused=refused, **of_fit)
        context.resources.callback(valid.unpersist)
        run = context.run
        run.counts, run.reasons = run.counts | valid.counts, dict(valid.reasons)
        run.warnings += valid.warnings
        run.data_fingerprint = fingerprint(valid.ratings)
    return valid


@dataclass(frozen=True)
class ServedInputs:
    """Inputs of a job that begins with a saved model. ratings : as ``read_ratings`` returns them, or None."""

    saved: SavedModel
    ratings: DataFrame | None


ServedT = TypeVar("ServedT", bound=ServedInputs)


class ServingJob(Job[ServingT, ServedT, ResultT]):
    """A job that begins with a saved model."""

    def check(self, config: ServingT) -> None:
        if config.model.path is None:
            raise ConfigError(
                "setting model.path: found null, expected a saved model, the directory of a run, or an output directory"
            )

    def plan(self, context: Context[ServingT], inputs: ServedT) -> list[str]:
        source = inputs.saved.source
        return [input_line(context.config, inputs.ratings), f"model   {source.model_version} {source.path}"]


def load_served_model(context: Context[ServingT]) -> SavedModel:
    """Load the model that ``model.path`` names, noted in the record of the run and released at its end.

    Raises ConfigError: the job would publish where the model is published. DataError : there is no model to load.
    """
    saved = load_model(context.spark, str(context.config.model.path), "model.path")
    context.resources.callback(saved.model.release)
    files, root = open_files(context.output, context.spark)
    if saved.source.path.startswith(f"{files.uri(root)}/"):
        raise ConfigError(
            f"setting output.path: {context.output!r} is where the model is published, and a run without a model would "
            "take its place there for all who read the current run; choose another directory"
        )
    context.run.serves(saved)
    return saved


def require_ids_of(model: AnyModel, given: DataFrame, where: str, sides: tuple[str, ...]) -> None:
    """Refuse ids of another type than the model's. where : their source, for the message. Raises ConfigError."""
    for side, table in zip(sides, model.tables(), strict=False):
        try:
            require_same_ids(side, given.select(F.col(f"{side}_id").alias("id")), table)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}; input.id_type does so for the input") from error


def as_trained(model: AnyModel, ratings: DataFrame) -> DataFrame:
    """Rename columns to the names of the model's fit. Raises ConfigError: the input lacks one that the model needs."""
    rating = model.getOrDefault("ratingCol")
    count = model.exposureModel.getOrDefault("countCol") if model.exposureModel is not None else None
    weighting = None if isinstance(model, BlendModel) else model.facts.propensity
    propensity = None if weighting is None else weighting.settings.column
    more = {role: name for role, name in (("count", count), ("propensity", propensity)) if name not in (None, rating)}
    missing = [role for role in more if role not in ratings.columns]
    if missing:
        raise ConfigError(
            f"setting input.columns.{missing[0]}: found null, expected the column from which the model learned"
        )
    columns = [F.col(role).alias(name) for role, name in {"rating": rating, **more}.items()]
    return ratings.select(*id_columns(model), *columns)


def id_columns(model: AnyModel) -> list[Column]:
    """Return user_id and item_id under the model's names."""
    get = model.getOrDefault
    return [F.col("user_id").alias(get("userCol")), F.col("item_id").alias(get("itemCol"))]
