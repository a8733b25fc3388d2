"""Items that may be recommended, pairs that may not, and the limit for one category."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from dcrec_spark.data.listed import read_listed
from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import DataError, cut
from dcrec_spark.jobs.job import Catalogue, Context
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.models.outcome.blend import AnyModel

SETTING, EXCLUDE = "recommend.catalogue", "recommend.exclude"
CATEGORY = "category"


def open_catalogue(context: Context[Any], known: Mapping[str, DataFrame]) -> Catalogue:
    """Open the catalogue and the excluded pairs. Warn if no excluded pair is known.

    known : user, item -> ids of the ratings or of the model, in the first column.
    Raises DataError: one of them cannot be opened, or the catalogue has an item in two categories, or no known one.
    """
    recommend, given, items, excluded = context.config.recommend, context.config.input, None, None
    ids = {side: frame.select(quoted(frame.columns[0]).alias(f"{side}_id")) for side, frame in known.items()}
    id_types = {side: frame.schema[0].dataType for side, frame in ids.items()}
    if recommend.catalogue is not None:
        more = () if recommend.max_per_category is None else (CATEGORY,)
        listed = read_listed(context.spark, SETTING, recommend.catalogue, given, {"item": id_types["item"]}, more)
        require_id_types(listed, {"item_id": id_types["item"]}, SETTING)
        items = context.cache(listed.where("item_id is not null").distinct())
        where = f"{SETTING} {recommend.catalogue!r}"
        first = items.groupBy("item_id").count().where("count > 1").orderBy("item_id").first()
        if first is not None:
            raise DataError(f"{where}: item {cut(first['item_id'])} is in {first['count']} categories; expected one")
        if items.isEmpty():
            raise DataError(f"{where} lists no item: nothing could be recommended")
        if ids["item"].join(items, "item_id", "left_semi").isEmpty():
            raise DataError(
                f"{where}: found none of its {items.count()} items in the ratings or the model; expected their ids in "
                f"its column {given.columns.item!r}"
            )
    if recommend.exclude is not None:
        pairs = read_listed(context.spark, EXCLUDE, recommend.exclude, given, id_types)
        require_id_types(pairs, {f"{side}_id": kind for side, kind in id_types.items()}, EXCLUDE)
        excluded = context.cache(pairs.dropna().distinct())
        unknown = [side for side in ids if ids[side].join(excluded, f"{side}_id", "left_semi").isEmpty()]
        if unknown and not excluded.isEmpty():
            context.run.warnings.append(
                f"{EXCLUDE} {recommend.exclude!r} excludes nothing: no {unknown[0]} of its {excluded.count()} pairs is "
                "in the ratings or the model"
            )
    return Catalogue(items, excluded, recommend.max_per_category)


def note_catalogue(run: Run, catalogue: Catalogue, model: AnyModel) -> None:
    """Count items and excluded pairs in the record. Raises DataError: the model knows none of the items."""
    if catalogue.items is not None:
        known = model.tables()[1].select(F.col("id").alias("item_id"))
        listed, unknown = catalogue.items.count(), catalogue.items.join(known, "item_id", "left_anti").count()
        run.counts |= {"items_in_catalogue": listed - unknown, "items_in_catalogue_unknown": unknown}
        if listed == unknown:
            raise DataError(f"setting {SETTING}: the model knows none of its {listed} items")
        if unknown:
            run.warnings.append(
                f"{unknown} of the {listed} items in {SETTING} have no ratings and are in no list: the model does "
                "not know them"
            )
    if catalogue.excluded is not None:
        run.counts["pairs_excluded"] = catalogue.excluded.count()


def require_id_types(listed: DataFrame, expected: dict[str, DataType], setting: str) -> None:
    """Refuse ids of another type than those of the ratings, which Spark would match with nothing or cast silently."""
    for name, kind in expected.items():
        found = listed.schema[name].dataType
        if found != kind:
            raise DataError(
                f"{setting}: column {name.removesuffix('_id')} holds {found.simpleString()}; expected "
                f"{kind.simpleString()}, as the ratings have"
            )
