"""The tables that say how much of each user, and of each item, the ratings show."""

from typing import TypeVar

from pyspark.sql import DataFrame

from dcrec_spark.config import JobConfig, ListsConfig
from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.outputs import overlap_table
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

ConfigT = TypeVar("ConfigT", bound=JobConfig)


def require_exposure(wanted: ListsConfig, has_exposure: bool, found: str) -> None:
    """Refuse tables of overlap of a model without an exposure model, before anything is computed.

    found : what has none, for the message.

    Raises
    ------
    ConfigError
    """
    if wanted.overlap and not has_exposure:
        raise ConfigError(
            f"setting recommend.overlap: found true, expected false for {found}, which has no exposure model to take "
            "propensities from; outcome.adjustment=deconfounded has one, and so has ipw with "
            "outcome.propensity_source=exposure and no column of propensities"
        )


def overlap_tables(
    context: Context[ConfigT],
    model: DeconfoundedMFModel,
    wanted: ListsConfig,
    ratings: DataFrame,
    users: DataFrame | None = None,
) -> dict[str, DataFrame]:
    """Make the published tables of both sides; what is computed for them is released at the end of the run.

    ratings : those of the fit, under the model's names. users : under the model's name, whose rows are published; None
    for all. Items are judged by all ratings.
    """
    with context.reporter.step("say what was seen"):
        seen = dict(zip(("user", "item"), model.overlaps(ratings, wanted.overlap_odds), strict=True))
    for table in seen.values():
        context.resources.callback(table.unpersist)
    if users is not None:
        wanted_ids = users.select(quoted(model.getOrDefault("userCol")).alias("user_id"))
        seen["user"] = seen["user"].join(wanted_ids, "user_id", "left_semi")
    return {f"{side}_overlap": overlap_table(seen[side], side, wanted.overlap_odds, context.run) for side in seen}
