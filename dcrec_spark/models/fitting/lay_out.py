"""From ratings with ids to the layout of a fit: in this process if they are few, else on the cluster."""

import logging
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.data.ids import plain_id
from dcrec_spark.models.fitting.checks import require_usable
from dcrec_spark.models.fitting.cluster_layout import lay_out_on_cluster
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.layout_settings import Driver, LayoutSettings, width_of
from dcrec_spark.models.fitting.process_layout import CollectedPairs, lay_out_in_process
from dcrec_spark.spark.compat import is_classic, require_supported
from dcrec_spark.spark.lineage import is_local
from dcrec_spark.spark.planning import few_partitions, rows_at_most
from dcrec_spark.spark.preflight import require_workers
from dcrec_spark.spark.session import jvm_limits, machine_memory

# Ratings whose fit is far shorter than starting the tasks of its sweeps.
_FEW = 100_000
_log = logging.getLogger(__name__)


def lay_out(
    df: DataFrame,
    user_col: str,
    item_col: str,
    values: dict[str, str],
    settings: LayoutSettings,
    resources: FitResources,
    held_out_col: str | None = None,
    frozen: Mapping[str, DataFrame] | None = None,
    distinct: bool = True,
    new_only: bool = False,
    driver: Driver | None = None,
) -> Layout:
    """Index the ids and build the blocks of users and of items.

    values : name of a block's array -> expression over ``df`` that makes it.
    resources : owns the cached data of the result. Until it ends, shuffles have few partitions, by the ratings' size.
    frozen : "user" or "item" -> ``id, idx`` of a side whose rows are given; pairs with other ids of that side are left
        out. By default both sides have the ids of the pairs.
    distinct : whether to refuse a pair that occurs twice, without it, a pair may be both held out and not.
    new_only : whether only the side that is not given will be updated. In this process the other one gets no pairs.

    Raises DataError: the pairs can't be used, or are all of one user or item. ConfigError: this version of Spark, its
    workers or the driver's memory will not do.
    """
    require_supported(df.sparkSession)
    # Without a cluster, a fit in this process needs no Python workers, which are slow to start. Nor does a client.
    if is_classic(df.sparkSession) and not is_local(df.sparkSession):
        require_workers(df.sparkSession)
    resources.enter_context(few_partitions(df.sparkSession))
    sides = {"user": user_col, "item": item_col}
    pairs = df.select(
        *(plain_id(df, name).alias(f"{side}_id") for side, name in sides.items()),
        *[F.expr(expression).cast("double").alias(name) for name, expression in values.items()],
        *([F.coalesce(f"`{held_out_col}`", F.lit(False)).alias("held_out")] if held_out_col else []),
    )
    given = dict(frozen or {})
    columns = {"user_id": user_col, "item_id": item_col, **{n: e.strip("`") for n, e in values.items()}}
    with FitResources() as scratch:
        level = df.storageLevel
        if not (level.useMemory or level.useDisk):  # it is read several times, and may be costly to make
            pairs = scratch.cache(pairs)
        if settings.may_be_local:
            collected = _collected(pairs, given, settings, driver)
            if collected is not None:
                return lay_out_in_process(collected, columns, settings, distinct, new_only)
        require_workers(df.sparkSession)
        checked = require_usable(pairs, list(values), columns, settings.signed)
        if settings.exchange != "auto" and checked.rows <= _FEW and not given:
            _log.warning("exchange=%s: so few ratings take seconds with auto, and minutes in tasks", settings.exchange)
        return lay_out_on_cluster(pairs, list(values), checked, settings, resources, given, distinct)


def _collected(
    pairs: DataFrame, given: Mapping[str, DataFrame], settings: LayoutSettings, driver: Driver | None
) -> CollectedPairs | None:
    # Counting takes as long as half a dozen sweeps of few ratings, and is left out if they can only be few.
    frames = [pairs, *given.values()]
    bounds = [rows_at_most(frame) for frame in frames]
    number = settings.local_rows + 1 if None in bounds else sum(bound for bound in bounds if bound is not None)
    if number > settings.local_rows:
        number = reduce(DataFrame.unionAll, [frame.select(F.lit(1)) for frame in frames]).count()
    width, driver = width_of(pairs), driver or driver_of(pairs.sparkSession)
    collected = CollectedPairs(pairs, given, driver.portions(number, width))
    return collected if settings.is_local(number, width, collected.count_rows, driver) else None


def driver_of(spark: SparkSession) -> Driver:
    """Return the driver's resources."""
    heap, results = jvm_limits(spark)
    return Driver(machine_memory(), heap, results, has_cluster=not is_local(spark))
