"""A model's tables of factors: cached, renumbered when rows are added."""

from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame

from dcrec_spark.data.ids import index_ids
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.spark.lineage import cache_while_used

# The posterior that a family's means come from: of no interest outside, but a warm start needs it.
POSTERIOR = ["outcome_shape", "outcome_rate"]


@dataclass(frozen=True)
class FactorTables:
    """Users and items with all that a model knows of them. ``idx`` numbers the rows of a side from 0.

    cached_here : the tables that are released with the model. Others belong to a model that has to outlive it.
    """

    users: DataFrame
    items: DataFrame
    n_users: int
    n_items: int
    cached_here: tuple[DataFrame, ...]

    @classmethod
    def cached(cls, users: DataFrame, items: DataFrame) -> Self:
        """Compute and cache the tables, so that their sources can be released."""
        cached_here = tuple(table for table in (users, items) if not table.is_cached)
        users, items = cache_while_used(users), cache_while_used(items)
        return cls(users, items, users.count(), items.count(), cached_here)

    @classmethod
    def of_fit(cls, layout: Layout, users: DataFrame, items: DataFrame) -> Self:
        """Cache the tables that a fit made on its layout, one row for each of the layout's."""
        cached = (layout.materialise(cache_while_used(users)), layout.materialise(cache_while_used(items)))
        return cls(*cached, layout.n_users, layout.n_items, cached)

    def release(self) -> None:
        """Unpersist the tables that were cached for this model. Arrow tables of this process go with the model."""
        for table in self.cached_here:
            table.unpersist()


def numbered(new: DataFrame, resources: FitResources, table: DataFrame, keep: bool) -> DataFrame:
    """Return new rows in place of a table's, or next to those of other ids, with ``idx`` from 0 by the order of ids."""
    columns = [c for c in table.columns if c != "idx"]
    rows = new.select(*columns)
    if keep:
        rows = table.join(new.select("id"), "id", "left_anti").select(*columns).unionByName(rows)
    ids = resources.add_cached(index_ids(rows, "id"))
    return rows.join(ids, "id").select("idx", *columns)
