"""Composition of recommendation lists: how well known, how varied and how popular their items are.

A metric on held-out ratings can't see a list of items that hardly anybody has rated, nor one list for everybody.
"""

from math import isnan, nan
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Array
from dcrec_spark.errors import DataError
from dcrec_spark.evaluation.measures import MeasureKind

# An item with fewer training ratings is rare: one more rating could move its bias by a sixth.
RARE_BELOW = 5
# With fewer, a list of it is a list of lucky ratings.
RAREST_BELOW = 3
# Shares beyond which lists deserve a second look.
MOST_RARE, MOST_OF_ONE = 0.1, 0.5


class ListComposition(NamedTuple):
    """Figures of a table of lists.

    lists, places, items : numbers of lists, of their rows, and of different items in them.
    short : lists with fewer rows than asked for.
    rare_share : share of the places whose item has fewer than 5 training ratings.
    rarest_share : the same of fewer than 3.
    largest_share : share of the lists that hold the most listed item.
    relative_popularity : training ratings of an average place's item, divided by those of the item that an average
        training rating is of. Lists as popular as what people rated have 1.
    """

    lists: int
    places: int
    items: int
    short: int
    rare_share: float
    rarest_share: float
    largest_share: float
    relative_popularity: float

    @classmethod
    def of_counts(cls, lists: int, places: Array, ratings: Array) -> "ListComposition":
        """Describe lists by the places that hold each item, and by its training ratings, (I,) each."""
        total = max(places.sum(), 1.0)  # without a place, each share is 0
        listed, rated = places @ ratings / total, ratings @ ratings / ratings.sum()
        rare, rarest = (float(places[ratings < few].sum() / total) for few in (RARE_BELOW, RAREST_BELOW))
        items, largest = int((places > 0).sum()), float(places.max() / max(lists, 1))
        return cls(lists, int(places.sum()), items, 0, rare, rarest, largest, float(listed / rated))

    @property
    def measures(self) -> dict[MeasureKind, float]:
        """The figures that are measures of lists."""
        return {
            MeasureKind.RARE_SHARE: self.rare_share,
            MeasureKind.RAREST_SHARE: self.rarest_share,
            MeasureKind.LARGEST_SHARE: self.largest_share,
            MeasureKind.POPULARITY: self.relative_popularity,
        }

    @property
    def warnings(self) -> list[str]:
        """Name what a shop would hardly publish, with the way out."""
        found = []
        if self.rare_share > MOST_RARE:
            found.append(
                f"{self.rare_share:.0%} of the places in the lists go to items with fewer than {RARE_BELOW} ratings: "
                "raise outcome.bias_reg and outcome.reg_param, or validation.min_ratings_per_item"
            )
        if self.largest_share > MOST_OF_ONE and self.lists > 2:  # two lists share an item by chance
            found.append(
                f"one item stands in {self.largest_share:.0%} of all lists: look at the lists, and compare them with a "
                "smaller outcome.reg_param, or with recommend.exposure_weight=0.5, which a blend does not take"
            )
        return found

    @property
    def summary(self) -> str:
        """Sum the lists up in one line."""
        text = f"{self.lists:,} lists of {self.items:,} items, the most listed item in {self.largest_share:.0%} of them"
        if isnan(self.rare_share):
            return text
        text += f", {self.rare_share:.1%} of the places with fewer than {RARE_BELOW} ratings"
        return f"{text}, {self.relative_popularity:.2f} times as popular as what was rated"


def describe_lists(lists: DataFrame, training: DataFrame | None, length: int = 0) -> ListComposition:
    """Describe what lists consist of, in a Spark job by user and one by item.

    lists : user_id, item_id: a row for each place, as ``recommendationTable`` returns them.
    training : item_id: a row for each rating that the model was fitted to. None: shares that need it are NaN.
    length : rows of a list that is not short.

    Returns a composition whose ``warnings`` are sentences about lists to look at, each with a way out.
    Raises DataError: there are no lists, or no ratings.

    Examples
    --------
    >>> lists = model.recommendationTable(2, seen=ratings)
    >>> described = describe_lists(lists, ratings.withColumnRenamed("item", "item_id"))
    >>> described.lists, described.rare_share
    (6, 1.0)
    """
    by_user = lists.groupBy("user_id").count()
    users, short = by_user.agg(F.count("*"), F.count_if(F.col("count") < length)).collect()[0]
    places = lists.groupBy("item_id").agg(F.count("*").alias("places"))
    rated = lists.limit(0) if training is None else training
    ratings = rated.groupBy("item_id").agg(F.count("*").alias("ratings"))
    both = ratings.join(places, "item_id", "full").select(
        F.coalesce("places", F.lit(0)).alias("places"), F.coalesce("ratings", F.lit(0)).alias("ratings")
    )
    total, rated, items, largest, listed, squares, rare, rarest = both.agg(
        F.sum("places"),
        F.sum("ratings"),
        F.count_if(F.col("places") > 0),
        F.max("places"),
        F.sum(F.col("places") * F.col("ratings").cast("double")),
        F.sum(F.col("ratings") * F.col("ratings").cast("double")),
        *(F.sum(F.when(F.col("ratings") < few, F.col("places")).otherwise(0)) for few in (RARE_BELOW, RAREST_BELOW)),
    ).collect()[0]
    if not total or (training is not None and not rated):
        raise DataError("lists: found no row of lists, or no rating, expected both")
    shares = (nan, nan, largest / users, nan)
    if training is not None:
        shares = (rare / total, rarest / total, largest / users, (listed / total) / (squares / rated))
    return ListComposition(int(users), int(total), int(items), int(short), *shares)
