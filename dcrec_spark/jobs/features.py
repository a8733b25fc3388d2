"""Features of users and items: tables of numbers that the settings name, checked before anything is fitted."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.sections import ReadingConfig
from dcrec_spark.data.listed import read_features
from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.jobs.catalogue import require_id_types
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.run_record import Run, fingerprint
from dcrec_spark.models.outcome.blend import AnyModel, members_of

_SIDES = ("user", "item")


@dataclass(frozen=True)
class Features:
    """Tables of features, side -> an id column and columns of numbers, each id once. Without a side: none of it."""

    of: Mapping[str, DataFrame]

    def params(self) -> dict[str, Any]:
        return {f"{side}Features": self.of.get(side) for side in _SIDES}

    def lines(self) -> list[str]:
        """Name the columns of each table, a line each, for a dry run."""
        return [f"{side}s   features {', '.join(table.columns[1:])}" for side, table in self.of.items()]

    def note(self, run: Run, ratings: DataFrame) -> None:
        """Note columns, rows and matches in the record. The fingerprint of the data covers the tables from here on."""
        marks = []
        for side, table in self.of.items():
            names = table.columns[1:]
            known = table.select(f"{side}_id", F.lit(True).alias("__known"))
            rated = ratings.select(f"{side}_id").distinct().join(known, f"{side}_id", "left")
            total, matched = rated.agg(F.count("*"), F.count("__known")).collect()[0]
            run.features[side] = {"columns": names, "rows": table.count(), "matched": matched}
            if matched < total:
                run.warnings.append(
                    f"{total - matched} of the {total} {side}s have no row in input.{side}_features: they are at the "
                    "mean of each feature"
                )
            marks += [side, json.dumps(names), fingerprint(table.toDF(*(f"c{at}" for at in range(len(table.columns)))))]
        if marks:
            all_marks = " ".join([str(run.data_fingerprint), *marks])
            run.data_fingerprint = hashlib.sha256(all_marks.encode()).hexdigest()[:24]

    def of_model(self, model: AnyModel, warnings: list[str], sides: tuple[str, ...] = _SIDES) -> "Features":
        """Return the columns that a model has learned from, under its name of the ids. Warn of a table that is missing.

        Raises ConfigError: the model has no features of a side, or a table lacks a column.
        """
        chosen = {}
        for side in sides:
            table, setting = self.of.get(side), f"input.{side}_features"
            names = next(iter(members_of(model).values())).facts.covariates.features(side == "user").names
            if table is None:
                if names:
                    warnings.append(
                        f"the model was fitted with features ({', '.join(names)}), and setting {setting} is null: "
                        f"all {side}s are at the mean of each feature here"
                    )
                continue
            missing = [name for name in names if name not in table.columns]
            if missing or not names:
                expected = f"the columns {', '.join(names)}, which the model was fitted with" if names else "null"
                why = f"a table without {', '.join(missing)}" if missing else "a table, and the model has no features"
                raise ConfigError(f"setting {setting}: found {why}; expected {expected}")
            identity = F.col(f"{side}_id").alias(model.getOrDefault(f"{side}Col"))
            chosen[side] = table.select(identity, *(quoted(name) for name in names))
        return Features(chosen)


def open_features(context: Context[Any], ratings: DataFrame, sides: tuple[str, ...] = _SIDES) -> Features:
    """Open the features that ``input`` names, cached until the job ends.

    Raises DataError: a table cannot be opened, a column is no number, an id is there twice, or no rating has its ids.
    """
    config: ReadingConfig = context.config
    tables = {}
    for side in sides:
        setting, place = f"input.{side}_features", getattr(config.input, f"{side}_features")
        if place is None:
            continue
        identity = f"{side}_id"
        id_type = ratings.schema[identity].dataType
        table = context.cache(read_features(context.spark, setting, place, config.input, side, id_type))
        require_id_types(table, {identity: id_type}, setting)
        if ratings.join(table.select(identity), identity, "left_semi").isEmpty():
            raise DataError(
                f"{setting} {place!r}: no rating is of one of its {table.count()} {side}s; expected the ids of the "
                f"ratings in its column {getattr(config.input.columns, side)!r}"
            )
        tables[side] = table
    return Features(tables)
