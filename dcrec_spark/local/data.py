"""Training ratings and held-out ones that one task can hold, over common indices: brought to the driver and checked."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import PLAIN_COLUMNS, Columns, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate_arrays
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.kernels.random import keys_of
from dcrec_spark.local.fits import Ratings
from dcrec_spark.spark.compat import collect_arrow

# Each rating takes 40 bytes on its way to the driver; a sweep over so many takes a second or two.
MOST_RATINGS = 5_000_000


class Gathered(NamedTuple):
    """Ratings to fit to, and held-out ones, by places in the sorted ids of both.

    held_out : user, item, rating, (n,) each, by user and item. Perhaps weight.
    """

    train: Ratings
    held_out: Mapping[str, Array]

    def select_known(self) -> "Gathered":
        """Leave out the held-out pairs whose user or item has no training rating."""
        train, pairs = self.train, self.held_out
        is_known = np.isin(pairs["user"], train.user) & np.isin(pairs["item"], train.item)
        return self._replace(held_out={name: column[is_known] for name, column in pairs.items()})

    def compact(self) -> "Gathered":
        """Return the same by places among the users and items of training alone, as an estimator has them.

        The held-out pairs are of these.
        """
        users, items = np.unique(self.train.user), np.unique(self.train.item)
        places = {name: np.searchsorted(ids, self.held_out[name]) for name, ids in (("user", users), ("item", items))}
        return Gathered(self.train.among(users, items), {**self.held_out, **places})

    def evaluate(self, predictions: Mapping[str, Array], settings: MetricSettings) -> Metrics:
        """Metrics of predictions for the held-out pairs. All items could be recommended."""
        pairs, train = self.held_out, self.train
        keys = {"user_key": train.user_key[pairs["user"]], "item_key": train.item_key[pairs["item"]]}
        table = {**keys, **{name: pairs[name] for name in ("item", "rating", "weight") if name in pairs}}
        return evaluate_arrays(table, predictions, settings, len(train.item_key))


def gather(
    train: DataFrame, held_out: DataFrame, columns: Columns = PLAIN_COLUMNS, most: int = MOST_RATINGS
) -> Gathered:
    """Bring both parts of a data set to the driver. Raises ConfigError: they have more than ``most`` ratings."""
    rows = _plain(train, columns, False).unionByName(_plain(held_out, columns, True))
    table = collect_arrow(rows.limit(most + 1))
    if table.num_rows > most:
        raise ConfigError(f"more than {most:,} ratings are too many for a task: fit on the cluster")
    (user_key, user), (item_key, item) = _index(table, "user"), _index(table, "item")
    order, columns_of = np.lexsort((item, user)), {"user": user, "item": item, "rating": table["rating"].to_numpy()}
    is_held_out = table["held_out"].to_numpy()[order]
    fit, test = (
        {name: column[order][part] for name, column in columns_of.items()} for part in (~is_held_out, is_held_out)
    )
    return Gathered(Ratings(fit["user"], fit["item"], fit["rating"], user_key, item_key), test)


def _plain(frame: DataFrame, columns: Columns, is_held_out: bool) -> DataFrame:
    return frame.select(
        F.col(f"`{columns.user}`").alias("user"),
        F.col(f"`{columns.item}`").alias("item"),
        F.col(f"`{columns.rating}`").cast("double").alias("rating"),
        F.lit(is_held_out).alias("held_out"),
    )


def _index(table: pa.Table, side: str) -> tuple[Array, Array]:
    """Hash of each distinct id, in the order of the ids (text by bytes), and each row's place among these."""
    column = table[side].combine_chunks()
    ids = column.unique()
    ids = ids.take(pc.sort_indices(ids))
    return keys_of(ids.cast(pa.string()).to_pylist()), pc.index_in(column, ids).to_numpy().astype(np.int64)
