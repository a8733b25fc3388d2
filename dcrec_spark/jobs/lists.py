"""The tables that a ranking job publishes: everybody's lists, and what the settings want beside them."""

from contextlib import ExitStack
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import JobConfig, ListsConfig
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.list_audit import last_lists
from dcrec_spark.jobs.offer import Offer
from dcrec_spark.jobs.outputs import change_table, fallback_table, recommendation_table, similar_table
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.served_model import id_columns
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.list_changes import changes

ConfigT = TypeVar("ConfigT", bound=JobConfig)


def ranked_lists(
    context: Context[ConfigT],
    model: DeconfoundedMFModel,
    settings: ListsConfig,
    offer: Offer,
    ratings: DataFrame | None,
    left_out: DataFrame | None,
    users: DataFrame | None = None,
) -> DataFrame:
    """Rank the catalogue for each user; what is computed at once is released at the end of the run.

    ratings : those of the fit, under the model's names; needed where intervals are asked for. left_out : user_id,
    item_id of pairs that may not be recommended. users : as ``recommendationTable`` takes them.
    """
    seen, items = None if left_out is None else left_out.select(*id_columns(model)), offer.items_of(model)
    if not settings.intervals or ratings is None:
        return model.recommendationTable(settings.top_n, seen, users, items, offer.most)
    with context.reporter.step("say how sure"):
        lists = model.sureRecommendations(settings.top_n, ratings, seen, users, items=items, maxPerCategory=offer.most)
    context.resources.callback(lists.unpersist)
    return lists


def list_tables(
    model: DeconfoundedMFModel, wanted: ListsConfig, offer: Offer, ranked: DataFrame, run: Run
) -> dict[str, DataFrame]:
    """Make the published tables of lists, but for the changes.

    ranked : everybody's lists, as ``recommendationTable`` gives them.
    """
    items = offer.items_of(model)
    tables = {"recommendations": recommendation_table(ranked, run)}
    if wanted.fallback:
        tables["fallback"] = fallback_table(model.fallbackTable(wanted.top_n, items, offer.most), run)
    if wanted.similar_items:
        alike = model.similarItems(wanted.similar_items, wanted.similarity, items)
        tables["similar_items"] = similar_table(alike, wanted.similarity, run)
    return tables


def with_changes(
    spark: SparkSession, output: str, tables: dict[str, DataFrame], run: Run, resources: ExitStack
) -> dict[str, DataFrame]:
    """Add the table of changes since the run that is published now; the lists are kept, for two tables need them."""
    lists = tables["recommendations"].persist()
    resources.callback(lists.unpersist)
    before = last_lists(spark, output)
    if before is not None and not _same_ids(before, lists):
        run.warnings.append("changes: the run before has ids of another type, so every row counts as added")
        before = None
    since = None if before is None else current_run_id(output, spark)
    return {**tables, "recommendations": lists, "changes": change_table(changes(before, lists), since, run)}


def _same_ids(before: DataFrame, lists: DataFrame) -> bool:
    return all(before.schema[name].dataType == lists.schema[name].dataType for name in ("user_id", "item_id"))
