"""A fitted outcome model as fold-ins, explanations and intervals take it: its tables on a layout of other pairs."""

from dataclasses import dataclass, replace

import numpy as np
from pyspark.ml.param import Params
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.blocks import index_at
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.kernel_input import KernelInput
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError, cut
from dcrec_spark.kernels.exposure import Scaling
from dcrec_spark.models.families.base import Family, OutcomeFamily, TableColumn
from dcrec_spark.models.families.poisson import NOTHING_SHARED
from dcrec_spark.models.fitting.attach import FeatureColumns, attach_confounder, place_features, with_features
from dcrec_spark.models.fitting.checks import observed, require_columns, require_ids_alike
from dcrec_spark.models.fitting.factors import completed, select_columns
from dcrec_spark.models.fitting.facts import OutcomeFacts
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.lay_out import lay_out
from dcrec_spark.models.fitting.layout import Layout, Part
from dcrec_spark.models.fitting.layout_settings import layout_settings
from dcrec_spark.models.fitting.propensity import exposure_values, require_ratings, weighted_ratings
from dcrec_spark.models.fitting.stages import fold_in

PAIR = ["user_id", "item_id"]
# How far what the given ratings imply may be from what the model has, relative to |theta| |beta|: the precision of the
# fit, not of the explanation.
AGREEMENT = {"float64": 1e-4, "float32": 1e-2}
WANTED, COUNT = "__wanted", "__count"


def inbox_idx(inputs: KernelInput, size: tuple[int, int]) -> Array:
    """Return the ``idx`` of the rows of an inbox, (m,). size : rows and blocks of the other side."""
    return np.asarray(index_at(*size, inputs.block.need_at))


@dataclass(frozen=True)
class FittedOutcome:
    """A fitted outcome model. params, facts : of the model.

    users, items : ``idx, id``, the family's columns, ``exposure_shape, exposure_rate``.
    exposure : the family of stage 1, if there is one. count_column : its exposure counts. None: each pair counts once.
    """

    params: Params
    family: OutcomeFamily
    facts: OutcomeFacts
    users: DataFrame
    items: DataFrame
    exposure: Family | None
    count_column: str | None

    @property
    def id_columns(self) -> tuple[str, str]:
        return self.params.getOrDefault("userCol"), self.params.getOrDefault("itemCol")

    @property
    def row_width(self) -> int:
        """How many numbers a row of either stage has at most."""
        exposure = 0 if self.exposure is None else self.family.exposure_row_width(self.exposure)
        return max(self.family.row_width, exposure)

    def table(self, is_user: bool) -> DataFrame:
        return self.users if is_user else self.items

    def exposure_table(self, is_user: bool) -> DataFrame:
        """``id, shape, rate`` of the users' or the items' exposure factors."""
        return select_columns(self.table(is_user), {"id": "id", "exposure_shape": "shape", "exposure_rate": "rate"})

    def require_pairs(self, dataset: DataFrame, *numbers: str | None) -> None:
        """Refuse a user's frame without ids of the model's kinds, or without some columns of numbers."""
        require_columns(dataset, self.id_columns, [name for name in numbers if name])
        require_ids_alike(dataset, self.id_columns, (self.users, self.items))

    def pairs_of(self, dataset: DataFrame) -> DataFrame:
        """``user_id, item_id`` of a user's frame."""
        self.require_pairs(dataset)
        return dataset.select(*[quoted(name).alias(to) for name, to in zip(self.id_columns, PAIR, strict=True)])

    def observed(self, ratings: DataFrame) -> DataFrame:
        """Return the ratings without those that the fit held out, where the frame says which."""
        return observed(ratings, self.params.getOrDefault("validationIndicatorCol"))

    def require_known(self, wanted: DataFrame, rated: DataFrame, verb: str) -> None:
        """Refuse pairs of users or items that the model does not know, and users without ratings to explain by."""
        known = {
            "the user, {!r}, is not in the model": ("user_id", self.users.select(F.col("id").alias("user_id"))),
            "the item, {!r}, is not in the model": ("item_id", self.items.select(F.col("id").alias("item_id"))),
            "the user, {!r}, has no row in ratings": ("user_id", rated.select("user_id").distinct()),
        }
        flagged, outputs = wanted, [F.count("*").alias("pairs")]
        for at, (column, ids) in enumerate(known.values()):
            flagged = flagged.join(ids.withColumn(f"known_{at}", F.lit(True)), column, "left")
            missing = F.col(f"known_{at}").isNull()
            outputs += [F.count_if(missing), F.min(F.when(missing, F.col(column)))]
        pairs, *found = flagged.agg(*outputs).collect()[0]
        if not pairs:
            raise DataError(f"there are no pairs to {verb}: expected at least one row of a user and an item")
        for sentence, count, example in zip(known, found[::2], found[1::2], strict=True):
            if count:
                raise DataError(
                    f"{count} of {pairs} pairs cannot be {verb}ed: {sentence.format(example)} (for example); expected "
                    "pairs of the model's users and items, and the ratings that its users were fitted or folded in with"
                )

    def lay_out_pairs(
        self, wanted: DataFrame, ratings: DataFrame, resources: FitResources, everyone: bool = False
    ) -> Layout:
        """Lay out ratings in blocks, with the wanted pairs as held-out ones.

        everyone : whether all users of the model have a row, under the model's ``idx``, and exposures stay known, else
            the users are those of the ratings, and exposures are there where the confounder asks for them.
        """
        require_ratings(ratings, self.params, self.facts.propensity)
        user, item = self.id_columns
        weighted, values = weighted_ratings(ratings, self.params.getOrDefault("ratingCol"), self.facts.propensity)
        if self.exposure is not None and (self.family.exposure_term.leave_one_out or everyone):
            self.require_pairs(ratings, self.count_column)
            weighted = weighted.withColumn(COUNT, F.expr(exposure_values(self.count_column)["exposure_count"]))
            values["exposure_count"] = f"`{COUNT}`"
        columns = [expression.strip("`") for expression in values.values()]
        names = quoted(user).alias("user_id"), quoted(item).alias("item_id")
        rated = weighted.select(*names, *map(quoted, columns), F.lit(False).alias(WANTED))
        several = rated.groupBy(*PAIR).count().where("count > 1 and item_id is not null").first()
        if several:
            raise DataError(
                f"user {cut(several['user_id'])} has {several['count']} ratings of item {cut(several['item_id'])}: "
                "every (user, item) pair may occur once; give the ratings as they were in the fit"
            )
        requested = wanted.select(*PAIR, *[F.lit(1.0).alias(c) for c in columns], F.lit(True).alias(WANTED))
        settings = replace(layout_settings(self.params, self.row_width), precision="float64")
        given = {"item": self.items.select("id", "idx")}
        if everyone:
            given["user"] = self.users.select("id", "idx")
        pairs = rated.unionByName(requested)
        return lay_out(pairs, "user_id", "item_id", values, settings, resources, WANTED, given, distinct=False)

    def fold_in(self, dataset: DataFrame, features: DataFrame | None, new_is_user: bool) -> DataFrame:
        """Fold in new users or items: exposures first, then ratings, then one table of both, cached."""
        self.require_pairs(dataset)
        dataset, known = self.observed(dataset), self.table(not new_is_user)
        require_ratings(dataset, self.params, self.facts.propensity)
        dataset, values = weighted_ratings(dataset, self.params.getOrDefault("ratingCol"), self.facts.propensity)
        if self.exposure is not None:
            values |= exposure_values(self.count_column)
            self.require_pairs(dataset, self.count_column)
        # Items are solved from their pairs, which their blocks have to hold.
        settings = layout_settings(self.params, self.row_width, new_is_user and self.family.splits)
        frozen = {"item" if new_is_user else "user": select_columns(known, {"id": "id", "idx": "idx"})}
        with FitResources() as resources:
            layout = lay_out(dataset, *self.id_columns, values, settings, resources, frozen=frozen, new_only=True)
            exposure: Part | None = None
            if self.exposure is not None:
                table = self.exposure_table(not new_is_user)
                states = fold_in(layout, new_is_user, table, self.exposure, NOTHING_SHARED, resources)
                exposure, term = Part(states[new_is_user], self.exposure, NOTHING_SHARED), self.family.exposure_term
                layout, _ = attach_confounder(layout, states[True], states[False], term, resources, self.facts.form)
            layout = self.with_new_features(layout, new_is_user, features, resources)
            layout = self.with_features(layout, not new_is_user, resources)
            states = fold_in(layout, new_is_user, known, self.family, self.facts.shared, resources)
            table = layout.table(new_is_user, states[new_is_user], self.family, self.facts.shared, exposure)
            return layout.materialise(completed(table.drop("idx")).persist())

    def with_exposure_term(self, layout: Layout, resources: FitResources) -> Layout:
        """Attach the confounder of each pair and the covariates of each row, as the model has them."""
        for is_user in (True, False):
            layout = self.with_features(layout, is_user, resources)
        if self.exposure is None:
            return layout
        states = self.exposure_states(self.exposure, layout, resources)
        return attach_confounder(layout, *states, self.family.exposure_term, resources, self.facts.form)[0]

    def with_features(self, layout: Layout, is_user: bool, resources: FitResources) -> Layout:
        """Add the features of the model's users or items to their blocks. Their table has the composition first."""
        width, rank = len(self.facts.covariates.features(is_user).mean), self.family.composition
        if not width:
            return layout
        columns = FeatureColumns((TableColumn("covariates", rank + width),), rank)
        with layout.environment():
            state = resources.add(layout.place(is_user, self.table(is_user), columns))
            return with_features(layout, is_user, state, Scaling((0.0,) * width, (1.0,) * width), resources)

    def with_new_features(
        self, layout: Layout, is_user: bool, table: DataFrame | None, resources: FitResources
    ) -> Layout:
        """Add the features of rows that are folded in. table : None: all are at their means."""
        scaling, id_column = self.facts.covariates.features(is_user), self.id_columns[0 if is_user else 1]
        if not scaling.mean:
            return layout
        with layout.environment():
            state = None
            if table is not None:
                missing = [name for name in scaling.names if name not in table.columns]
                if missing:
                    expected = f"expected those of the fit: {list(scaling.names)}"
                    raise DataError(f"features: found no columns {missing}, {expected}")
                of_fit = table.select(quoted(id_column), *map(quoted, scaling.names))
                state, _ = place_features(layout, is_user, of_fit, self.id_columns, resources)
            return with_features(layout, is_user, state, scaling, resources)

    def exposure_states(self, exposure: Family, layout: Layout, resources: FitResources) -> tuple[State, State]:
        """Return the exposure factors of the model's users and items as the states of a layout's blocks."""
        with layout.environment():
            tables = self.exposure_table(True), self.exposure_table(False)
            return layout.place_both(tables, exposure, resources)
