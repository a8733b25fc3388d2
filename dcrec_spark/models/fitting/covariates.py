"""Given features of users and items as covariates, on which the other side has slopes: (x - mean) / deviation.

A row without a feature, or without all of them, is at its mean. The composition of exposure, which comes before them,
is attached with the confounder: :mod:`dcrec_spark.models.fitting.confounder`.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import NumericType

from dcrec_spark.data.ids import plain_id
from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError
from dcrec_spark.kernels.exposure import Form, Scaling, moments
from dcrec_spark.models.families.base import OutcomeFamily, TableColumn
from dcrec_spark.models.families.gaussian import FEATURES
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout

SomeLayout = TypeVar("SomeLayout", bound=Layout)


class Covariates(NamedTuple):
    """Scalings of the features of users and of items, as a fit finds them."""

    users: Scaling = Scaling()
    items: Scaling = Scaling()

    def features(self, is_user: bool) -> Scaling:
        return self.users if is_user else self.items

    def of_family(self, family: OutcomeFamily, form: Form | None) -> OutcomeFamily:
        """Return the family for rows with these covariates, and with the composition of exposure that a form scales."""
        rank = 0 if form is None else form.rank
        widths = (rank + len(self.users.mean), rank + len(self.items.mean))
        return type(family)({**family.settings, "covariates": widths, "composition": rank}) if any(widths) else family


NO_COVARIATES = Covariates()


class FeatureColumns(NamedTuple):
    """Columns of a table with features, as a block remembers them: one matrix, from its column ``first`` on."""

    of_table: tuple[TableColumn, ...]
    first: int = 0

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        return self.of_table

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        numbers = np.column_stack([np.asarray(columns[column.name], np.float64) for column in self.of_table])
        return {FEATURES: numbers[:, self.first :]}


def add_moments(inputs: KernelInput) -> Update:
    """Add up the moments of the features that the block remembers."""
    numbers = np.asarray(inputs.memory[FEATURES], np.float64)
    return Update(np.empty((len(numbers), 0)), dict(moments(numbers)), {})


def add_features(inputs: KernelInput, *, scaling: Scaling) -> Update:
    """Add scaled features to the contents of a block: those that it remembers, or none, which is their mean."""
    n_rows = len(inputs.block.row_key)
    scaled: Array = np.zeros((n_rows, len(scaling.mean)))
    if inputs.memory:
        scaled = scaling.scaled(np.asarray(inputs.memory[FEATURES], np.float64))
    return Update(np.empty((n_rows, 0)), {}, {**inputs.block, FEATURES: scaled})


def attach_features(
    layout: SomeLayout, tables: Iterable[DataFrame | None], id_columns: tuple[str, str], resources: FitResources
) -> tuple[SomeLayout, Covariates]:
    """Add given features to the blocks, tables of users and of items, and return how they were scaled.

    Raises DataError: a table has no id, an id twice, or a column that is no number, or none of its ids is known.
    """
    scalings = [Scaling(), Scaling()]
    for is_user, table in zip((True, False), tables, strict=True):
        if table is not None:
            with layout.environment():
                state, names = place_features(layout, is_user, table, id_columns, resources)
            layout, scalings[not is_user] = attach_feature_state(layout, is_user, state, names, resources)
    return layout, Covariates(*scalings)


def attach_feature_state(
    layout: SomeLayout, is_user: bool, state: State, names: tuple[str, ...], resources: FitResources
) -> tuple[SomeLayout, Scaling]:
    """Add the features that a state remembers to a side's blocks, and return how they were scaled."""
    with layout.environment():
        sums = (layout.users if is_user else layout.items).add_up(add_moments, state)
        if not sums["count"].any():
            name = "user" if is_user else "item"
            raise DataError(f"{name}Features: found numbers of no {name} with ratings, expected the ids of the ratings")
        scaling = Scaling.of(sums, names=names)
        return _with_side(layout, is_user, state, scaling, resources), scaling


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
    renamed = table.select(plain_id(table, id_column).alias("id"), *of_names)
    return resources.add(layout.place(is_user, renamed, columns)), names


def attach_known(
    layout: SomeLayout, is_user: bool, table: DataFrame, covariates: Covariates, rank: int, resources: FitResources
) -> SomeLayout:
    """Add the features of fitted rows to their blocks. The table has them after ``rank`` numbers of the composition."""
    width = len(covariates.features(is_user).mean)
    if not width:
        return layout
    with layout.environment():
        state = resources.add(
            layout.place(is_user, table, FeatureColumns((TableColumn("covariates", rank + width),), rank))
        )
        return _with_side(layout, is_user, state, Scaling((0.0,) * width, (1.0,) * width), resources)


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
            return _with_side(layout, is_user, None, scaling, resources)
        missing = [name for name in scaling.names if name not in table.columns]
        if missing:
            raise DataError(f"features: found no columns {missing}, expected those of the fit: {list(scaling.names)}")
        of_fit = table.select(quoted(id_column), *map(quoted, scaling.names))
        state, _ = place_features(layout, is_user, of_fit, id_columns, resources)
        return _with_side(layout, is_user, state, scaling, resources)


def _with_side(
    layout: SomeLayout, is_user: bool, state: State | None, scaling: Scaling, resources: FitResources
) -> SomeLayout:
    side = layout.users if is_user else layout.items
    rebuilt = resources.add(side.rebuild(partial(add_features, scaling=scaling), None, state))
    side.release()
    return layout.with_sides(*((rebuilt, layout.items) if is_user else (layout.users, rebuilt)))
