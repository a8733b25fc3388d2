"""Data that one task can hold: parts of one data set over common indices, brought to the driver once and checked.

parts = gather({"train": train, "validation": validation, "test": test})
parts.ratings("train")      Ratings, what a fit in memory takes
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import Columns, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate_arrays
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.local.fits import Ratings
from dcrec_spark.spark.compat import collect_arrow

# Each rating takes 40 bytes on its way to the driver; a sweep over so many takes a second or two.
MOST_RATINGS = 5_000_000
_PLAIN = Columns()


@dataclass(frozen=True)
class Parts:
    """Parts of one data set over common indices, which are places in the sorted ids."""

    user_ids: pa.Array  # all that occur in some part, sorted
    item_ids: pa.Array  # as user_ids
    user_key: Array  # hashes of the ids
    item_key: Array  # as user_key
    of: Mapping[str, Mapping[str, Array]]  # part -> user, item, rating, (n,) each, by user and item; perhaps weight

    @classmethod
    def of_indices(cls, n_users: int, n_items: int, of: Mapping[str, Mapping[str, Array]]) -> "Parts":
        """Parts whose ids are the indices themselves, as those of simulated data."""
        users, items = np.arange(n_users), np.arange(n_items)
        named = {name: _sort({c: pairs[c] for c in ("user", "item", "rating")}) for name, pairs in of.items()}
        return cls(pa.array(users), pa.array(items), users, items, named)

    def ratings(self, *names: str) -> Ratings:
        """Return some parts together, as a fit takes them. Users and items are those of all parts."""
        user, item, rating = (np.concatenate([self.of[n][c] for n in names]) for c in ("user", "item", "rating"))
        return Ratings(user, item, rating, self.user_key, self.item_key)

    def select_known(self, part: str, training: tuple[str, ...]) -> "Parts":
        """``part`` without the pairs whose user or item is in none of the ``training`` parts."""
        known, pairs = self.ratings(*training), self.of[part]
        is_known = np.isin(pairs["user"], known.user) & np.isin(pairs["item"], known.item)
        return replace(self, of={**self.of, part: {name: column[is_known] for name, column in pairs.items()}})

    def with_weights(self, part: str, weight: Array) -> "Parts":
        """``part`` with these weights of its pairs, (n,), in its order."""
        return replace(self, of={**self.of, part: {**self.of[part], "weight": weight}})

    def evaluate(
        self, part: str, predictions: Mapping[str, Array], settings: MetricSettings, catalogue: tuple[str, ...] = ()
    ) -> Metrics:
        """Metrics of predictions for a part's pairs. catalogue : parts whose items could be recommended."""
        pairs = self.of[part]
        keys = {"user_key": self.user_key[pairs["user"]], "item_key": self.item_key[pairs["item"]]}
        table = {**keys, **{name: pairs[name] for name in ("item", "rating", "weight") if name in pairs}}
        size = len(np.unique(self.ratings(*catalogue).item)) if catalogue else len(self.item_key)
        return evaluate_arrays(table, predictions, settings, size)


def gather(frames: Mapping[str, DataFrame], columns: Columns = _PLAIN, most: int = MOST_RATINGS) -> Parts:
    """Bring the parts of one data set to the driver. Raises ConfigError: they have more than ``most`` ratings."""
    named = [_plain(frame, columns).withColumn("part", F.lit(name)) for name, frame in frames.items()]
    rows = reduce(DataFrame.unionByName, named)
    table = collect_arrow(rows.limit(most + 1))
    if table.num_rows > most:
        raise ConfigError(f"more than {most:,} ratings are too many for a task: fit on the cluster")
    (user_ids, user_key, user), (item_ids, item_key, item) = _index(table, "user"), _index(table, "item")
    columns_of = {"user": user, "item": item, "rating": table["rating"].to_numpy()}
    part = table["part"].to_numpy(zero_copy_only=False)
    of = {name: _sort({column: values[part == name] for column, values in columns_of.items()}) for name in frames}
    return Parts(user_ids, item_ids, user_key, item_key, of)


def _plain(frame: DataFrame, columns: Columns) -> DataFrame:
    return frame.select(
        F.col(f"`{columns.user}`").alias("user"),
        F.col(f"`{columns.item}`").alias("item"),
        F.col(f"`{columns.rating}`").cast("double").alias("rating"),
    )


def _index(table: pa.Table, side: str) -> tuple[pa.Array, Array, Array]:
    """Distinct ids in their order (text by bytes), the hash of each, and each row's place among them."""
    column = table[side].combine_chunks()
    ids = column.unique()
    ids = ids.take(pc.sort_indices(ids))
    place = pc.index_in(column, ids).to_numpy().astype(np.int64)
    return ids, keys_of(ids.cast(pa.string()).to_pylist()), place


def _sort(pairs: dict[str, Array]) -> dict[str, Array]:
    order = np.lexsort((pairs["item"], pairs["user"]))
    return {name: column[order] for name, column in pairs.items()}
