"""Ratings as arrays, and their blocks: the input of a fit without Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcrec_spark.engine.build import build_process_side
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.fitting.process_layout import ProcessLayout

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ratings:
    """Ratings by dense indices; the caller has the ids.

    A user or item without ratings gets factors too.

    user, item : (n,) places in the keys. rating : (n,) >= 0. user_key, item_key : (U,), (I,) hashes of the ids, the
    seeds of the starts.
    """

    user: Ints
    item: Ints
    rating: Floats
    user_key: Ints
    item_key: Ints

    def only(self, chosen: npt.NDArray[Any]) -> "Ratings":
        """Return some of the ratings, of the same users and items."""
        return replace(self, user=self.user[chosen], item=self.item[chosen], rating=self.rating[chosen])

    def of_users(self, users: Ints) -> "Ratings":
        """Return the same ratings where only ``users``, sorted places of all that have any, are users."""
        return replace(self, user=np.searchsorted(users, self.user), user_key=self.user_key[users])

    def of_items(self, items: Ints) -> "Ratings":
        """Return the same ratings where only ``items``, sorted places of all that have any, are items."""
        return replace(self, item=np.searchsorted(items, self.item), item_key=self.item_key[items])


def lay_out(ratings: Ratings, values: Mapping[str, Floats], precision: str) -> ProcessLayout:
    """Return the blocks of ratings.

    values : name of a block's array -> one number for each rating. precision : "float64" or "float32".
    """
    users, items = (
        build_process_side(name, {"row": row, "col": col, **values}, key, n_source, list(values), precision)
        for name, row, col, key, n_source in (
            ("user", ratings.user, ratings.item, ratings.user_key, len(ratings.item_key)),
            ("item", ratings.item, ratings.user, ratings.item_key, len(ratings.user_key)),
        )
    )
    means = {name: float(value.mean()) for name, value in values.items()}
    return ProcessLayout(users, items, len(ratings.rating), means)
