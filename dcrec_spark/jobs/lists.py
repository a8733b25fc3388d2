"""The lists that a job publishes: the best items of each user, with how sure each place is where that is asked for."""

from typing import TypeVar

from pyspark.sql import DataFrame

from dcrec_spark.config.shared import JobConfig, SureRankingConfig
from dcrec_spark.jobs.job import Context
from dcrec_spark.models.outcome.model import DeconfoundedMFModel

ConfigT = TypeVar("ConfigT", bound=JobConfig)


def ranked_lists(
    context: Context[ConfigT],
    model: DeconfoundedMFModel,
    settings: SureRankingConfig,
    ratings: DataFrame | None,
    leave_out: DataFrame | None,
    users: DataFrame | None = None,
) -> DataFrame:
    """Rank the catalogue for each user; what is computed at once is released at the end of the run.

    ratings : those of the fit, under the model's names; needed where intervals are asked for. leave_out, users : as
    :meth:`DeconfoundedMFModel.recommendationTable` takes them.
    """
    if not settings.intervals or ratings is None:
        return model.recommendationTable(settings.top_n, leave_out, users)
    with context.reporter.step("say how sure"):
        lists = model.sureRecommendations(settings.top_n, ratings, leave_out, users)
    context.resources.callback(lists.unpersist)
    return lists
