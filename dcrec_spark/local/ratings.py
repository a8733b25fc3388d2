"""Ratings as arrays: what a fit in this process takes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcrec_spark.kernels.gamma import Floats

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ratings:
    """Ratings by dense indices; who is who, the caller knows.

    A user or item without ratings gets factors too.

    Parameters
    ----------
    user, item : (n,) places in the keys.
    rating : (n,) >= 0.
    user_key, item_key : (U,), (I,) hashes of the ids, the seeds of the starts.
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
