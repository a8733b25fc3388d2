"""The tables that a ranking job publishes: everybody's lists, and what the settings want beside them."""

from contextlib import ExitStack
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.config import JobConfig, ListsConfig, RankingConfig
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.list_audit import last_lists
from dcrec_spark.jobs.offer import Offer
from dcrec_spark.jobs.outputs import change_table, fallback_table, recommendation_table, similar_table, vector_tables
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.served_model import id_columns
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish.current import current_run_id
from dcrec_spark.publish.list_changes import changes

ConfigT = TypeVar("ConfigT", bound=JobConfig)


def ranked_lists(
    context: Context[ConfigT],
    model: DeconfoundedMFModel,
    settings: RankingConfig,
    offer: Offer,
    left_out: DataFrame | None,
    ratings: DataFrame | None = None,
    users: DataFrame | None = None,
) -> DataFrame:
    """Rank what is on offer for each user; what is computed at once is released at the end of the run.

    left_out : user_id, item_id of pairs that may not be recommended. ratings : those of the fit, under the model's
    names; each place says how sure it is where they are given. users : under the model's name; all, if None.
    """
    seen = None if left_out is None else left_out.select(*id_columns(model))
    items, most = offer.items_of(model), offer.most
    if ratings is None:
        return model.recommendationTable(settings.top_n, seen, users, items, most)
    with context.reporter.step("say how sure"):
        lists = model.sureRecommendations(settings.top_n, ratings, seen, users, items=items, maxPerCategory=most)
    context.resources.callback(lists.unpersist)
    return lists


def list_tables(
    model: DeconfoundedMFModel, wanted: ListsConfig, offer: Offer, ranked: DataFrame, run: Run
) -> dict[str, DataFrame]:
    """Make the published tables of lists, but for the changes.

    ranked : everybody's lists, as :func:`ranked_lists` gives them.
    """
    items = offer.items_of(model)
    tables = {"recommendations": recommendation_table(ranked, run)}
    if wanted.fallback:
        tables["fallback"] = fallback_table(model.fallbackTable(wanted.top_n, items, offer.most), run)
    if wanted.similar_items:
        alike = model.similarItems(wanted.similar_items, wanted.similarity, items)
        tables["similar_items"] = similar_table(alike, wanted.similarity, run)
    if wanted.vectors:
        tables |= vector_tables(model, run)
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
