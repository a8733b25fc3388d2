"""Covariates of users and items, on which the other side has slopes: composition of exposure, and given features.

    p_u = (E[pi_u] / sum_k E[pi_uk] - mean over users) / s          s: standard deviation of all U x L numbers
    q_i the same of E[lambda_i]                                     a feature: (x - mean) / its standard deviation

A row without a feature, or without all of them, is at its mean.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.families.base import OutcomeFamily, TableColumn
from dcrec_spark.models.families.gaussian import COMPOSITION, FEATURES
from dcrec_spark.models.fitting.confounder import means_of
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout

SomeLayout = TypeVar("SomeLayout", bound=Layout)
States = tuple[State, State]
Raw = Callable[[KernelInput], Floats]


class Scaling(NamedTuple):
    """Mean and scale of each covariate of a side, as a fit finds them. names : of features, else empty."""

    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, sums: Arrays, together: bool, names: tuple[str, ...]) -> Self:
        """Take it from the sums of :func:`add_moments`. together : one scale for all, else each has its own."""
        count = np.maximum(sums["count"], 1.0)
        mean = sums["total"] / count
        variance = np.maximum(sums["square"] / count - mean**2, 0.0)
        scale = np.sqrt(np.full(len(variance), variance.mean()) if together else variance)
        # Equal numbers tell no rows apart, and stay at zero.
        return cls(tuple(mean.tolist()), tuple(np.where(scale > 0, scale, 1.0).tolist()), names)

    def scaled(self, raw: Floats) -> Floats:
        """Scale (n, numbers). Missing and infinite numbers are at their mean."""
        return np.where(np.isfinite(raw), (raw - np.array(self.mean)) / np.array(self.scale), 0.0)


class Covariates(NamedTuple):
    """Covariates of a fit: scalings of the composition of exposure, and of features, of users and of items."""

    user_composition: Scaling = Scaling()
    item_composition: Scaling = Scaling()
    user_features: Scaling = Scaling()
    item_features: Scaling = Scaling()

    def composition(self) -> tuple[Scaling, Scaling]:
        """Scalings of the composition of exposure, of users and of items."""
        return self.user_composition, self.item_composition

    def features(self, is_user: bool) -> Scaling:
        """Scaling of the features of a side."""
        return self.user_features if is_user else self.item_features

    def of_family(self, family: OutcomeFamily) -> OutcomeFamily:
        """Return the family for rows with these covariates."""
        rank = len(self.user_composition.mean)
        widths = (rank + len(self.user_features.mean), rank + len(self.item_features.mean))
        return family.with_covariates(*widths, rank) if any(widths) else family

    def as_json(self) -> dict[str, Any]:
        """Return them as JSON holds them."""
        return {name: scaling._asdict() for name, scaling in self._asdict().items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_json` gave."""
        return cls(**{name: Scaling(*(tuple(s[of]) for of in Scaling._fields)) for name, s in values.items()})


NO_COVARIATES = Covariates()


class FeatureColumns(NamedTuple):
    """Columns of a table with features, as a block remembers them: one matrix, from its column ``first`` on."""

    of_table: tuple[TableColumn, ...]
    first: int = 0

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        """All of them."""
        return self.of_table

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        """Return (n, numbers)."""
        numbers = np.column_stack([np.asarray(columns[column.name], np.float64) for column in self.of_table])
        return {FEATURES: numbers[:, self.first :]}


def composition_of(inputs: KernelInput) -> Floats:
    """Return E[pi_u] / sum_k E[pi_uk] of the block's rows, (n, L)."""
    means = means_of(inputs).astype(np.float64)
    return np.asarray(means / means.sum(axis=1, keepdims=True))


def features_of(inputs: KernelInput) -> Floats:
    """Return the features that the block remembers."""
    return np.asarray(inputs.memory[FEATURES], np.float64)


def add_moments(inputs: KernelInput, *, raw: Raw) -> Update:
    """Count and add up each covariate of a block's rows, and its square. Missing numbers are left out."""
    numbers = raw(inputs)
    known = np.isfinite(numbers)
    numbers = np.where(known, numbers, 0.0)
    sums = {"count": known.sum(axis=0).astype(np.float64), "total": numbers.sum(axis=0)}
    return Update(np.empty((len(numbers), 0)), {**sums, "square": np.square(numbers).sum(axis=0)}, {})


def add_covariates(inputs: KernelInput, *, raw: Raw, scaling: Scaling, name: str) -> Update:
    """Add scaled covariates to the contents of a block."""
    scaled = scaling.scaled(raw(inputs))
    return Update(np.empty((len(scaled), 0)), {}, {**inputs.block, name: scaled})


def attach_composition(
    layout: SomeLayout, exposure: States, resources: FitResources, given: tuple[Scaling, Scaling] | None = None
) -> tuple[SomeLayout, tuple[Scaling, Scaling]]:
    """Add the composition of each row's exposure to the blocks.

    exposure : states whose memories hold shape and rate. given : the scalings of an earlier fit. None: found here.
    """
    with layout.environment():
        scalings = given
        if scalings is None:
            moments = partial(add_moments, raw=composition_of)
            sides = zip((layout.users, layout.items), exposure, strict=True)
            found = [Scaling.of(side.add_up(moments, state), True, ()) for side, state in sides]
            scalings = found[0], found[1]
        for is_user, state, scaling in zip((True, False), exposure, scalings, strict=True):
            layout = _with_side(layout, is_user, state, COMPOSITION, composition_of, scaling, resources)
        return layout, scalings


def attach_features(
    layout: SomeLayout, tables: Mapping[bool, DataFrame], id_columns: tuple[str, str], resources: FitResources
) -> tuple[SomeLayout, Mapping[bool, Scaling]]:
    """Add given features to the blocks, of users (True) and items (False), and return how they were scaled.

    Raises DataError: a table has no id, an id twice, or a column that is no number, or none of its ids is known.
    """
    scalings: dict[bool, Scaling] = {}
    for is_user, table in tables.items():
        with layout.environment():
            state, names = place_features(layout, is_user, table, id_columns, resources)
        layout, scalings[is_user] = attach_feature_state(layout, is_user, state, names, resources)
    return layout, scalings


def attach_feature_state(
    layout: SomeLayout, is_user: bool, state: State, names: tuple[str, ...], resources: FitResources
) -> tuple[SomeLayout, Scaling]:
    """Add the features that a state remembers to a side's blocks, and return how they were scaled."""
    with layout.environment():
        sums = (layout.users if is_user else layout.items).add_up(partial(add_moments, raw=features_of), state)
        if not sums["count"].any():
            name = "user" if is_user else "item"
            raise DataError(f"{name}Features: found numbers of no {name} with ratings, expected the ids of the ratings")
        scaling = Scaling.of(sums, False, names)
        return _with_side(layout, is_user, state, FEATURES, features_of, scaling, resources), scaling


def place_features(
    layout: Layout, is_user: bool, table: DataFrame, id_columns: tuple[str, str], resources: FitResources
) -> tuple[State, tuple[str, ...]]:
    """Return a table of features as a state of the side's blocks, and their names. See :func:`attach_features`."""
    setting, id_column = ("userFeatures", id_columns[0]) if is_user else ("itemFeatures", id_columns[1])
    if id_column not in table.columns:
        raise DataError(f"{setting}: found no column {id_column!r} among {table.columns}, expected the ids there")
    fields = [field for field in table.schema if field.name != id_column]
    texts = [field.name for field in fields if not isinstance(field.dataType, NumericType)]
    if texts or not fields:
        found = f"columns {texts} that are no numbers" if texts else f"no column but {id_column!r}"
        raise DataError(f"{setting}: found {found}, expected numbers; make numbers of categories first (one-hot)")
    twice = table.groupBy(quoted(id_column)).count().where("count > 1").first()
    if twice:
        raise DataError(f"{setting}: found {twice['count']} rows of {id_column} {twice[0]!r}, expected one an id")
    names = tuple(field.name for field in fields)
    # Names of its own: those of a user's frame may have dots, or be "id".
    columns = FeatureColumns(tuple(TableColumn(f"feature_{at}", None) for at in range(len(names))))
    of_names = [quoted(name).alias(c.name) for name, c in zip(names, columns.of_table, strict=True)]
    renamed = table.select(quoted(id_column).alias("id"), *of_names)
    return resources.add(layout.place(is_user, renamed, columns)), names


def attach_known(
    layout: SomeLayout,
    is_user: bool,
    table: DataFrame,
    covariates: Covariates,
    resources: FitResources,
) -> SomeLayout:
    """Add the features of fitted rows to their blocks, as the fitted table has them."""
    width, rank = len(covariates.features(is_user).mean), len(covariates.user_composition.mean)
    if not width:
        return layout
    with layout.environment():
        state = resources.add(
            layout.place(is_user, table, FeatureColumns((TableColumn("covariates", rank + width),), rank))
        )
        as_it_is = Scaling((0.0,) * width, (1.0,) * width)
        return _with_side(layout, is_user, state, FEATURES, features_of, as_it_is, resources)


def attach_new(
    layout: SomeLayout,
    is_user: bool,
    table: DataFrame | None,
    id_columns: tuple[str, str],
    covariates: Covariates,
    resources: FitResources,
) -> SomeLayout:
    """Add the features of rows that are folded in. table : None: all are at their means."""
    scaling = covariates.features(is_user)
    if not scaling.mean:
        return layout
    with layout.environment():
        id_column = id_columns[0 if is_user else 1]
        if table is None:
            nobody = (layout.user_ids if is_user else layout.item_ids).limit(0)
            zeros = [F.lit(None).cast("double").alias(name) for name in scaling.names]
            table = nobody.select(F.col("id").alias(id_column), *zeros)  # of no rows
        missing = [name for name in scaling.names if name not in table.columns]
        if missing:
            raise DataError(f"features: found no columns {missing}, expected those of the fit: {list(scaling.names)}")
        of_fit = table.select(quoted(id_column), *map(quoted, scaling.names))
        state, _ = place_features(layout, is_user, of_fit, id_columns, resources)
        return _with_side(layout, is_user, state, FEATURES, features_of, scaling, resources)


def _with_side(
    layout: SomeLayout, is_user: bool, state: State, name: str, raw: Raw, scaling: Scaling, resources: FitResources
) -> SomeLayout:
    side = layout.users if is_user else layout.items
    rebuilt = resources.add(side.rebuild(partial(add_covariates, raw=raw, scaling=scaling, name=name), None, state))
    side.release()
    return layout.with_sides(*((rebuilt, layout.items) if is_user else (layout.users, rebuilt)))
