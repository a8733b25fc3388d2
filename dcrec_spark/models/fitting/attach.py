"""The substitute confounder of each pair and the covariates of each row, attached to the blocks before a fit.

The confounder h is made from a_hat. Covariates, on which the other side has slopes, are (x - mean) / deviation: first
the composition of exposure, attached with the confounder, then given features. A row without a feature is at its mean.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import NumericType

from dcrec_spark.data.ids import plain_id
from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.blocks import Pairs
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.exposure import Form, Posterior, Scaling, composition, leave_one_out, moments
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.families.base import ExposureTerm, OutcomeFamily, TableColumn
from dcrec_spark.models.families.gaussian import COMPOSITION, FEATURES
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout

SomeLayout = TypeVar("SomeLayout", bound=Layout)
LEAVE_ONE_OUT = ExposureTerm(leave_one_out=True)


def sent(inputs: KernelInput, *, term: ExposureTerm) -> Update:
    """Send the exposure factors of a side to the other: posterior means, and what else a term needs.

    The sums hold the total and the second moments of the means, (L,) and (L, L), and the moments of their composition.
    """
    mean = means_of(inputs)
    sums = {"total": mean.sum(axis=0, dtype=np.float64), "second": (mean.T @ mean).astype(np.float64)}
    if term.composition:
        sums |= {f"{COMPOSITION}_{name}": total for name, total in moments(composition(mean)).items()}
    return Update(Posterior.of(inputs.memory).rows() if term.leave_one_out else mean, sums, {})


def means_of(inputs: KernelInput) -> Floats:
    """Return the posterior means of the block's rows, whose memory holds shape and rate. (n, L)."""
    return np.asarray(inputs.memory["shape"] / inputs.memory["rate"])


def a_hats(inputs: KernelInput, pairs: Pairs, term: ExposureTerm, is_fitted: bool) -> Floats:
    """Return a_hat of some pairs, (nnz,): those of a fit without their own exposure, if the term says so."""
    if not (is_fitted and term.leave_one_out):
        return products(inputs, pairs, term)
    count = pairs.value("exposure_count").astype(np.float64)
    return leave_one_out(pairs.row_ptr, pairs.col, count, Posterior.of(inputs.memory), Posterior.of_rows(inputs.inbox))


def products(inputs: KernelInput, pairs: Pairs, term: ExposureTerm) -> Floats:
    """Return E[pi_u] . E[lambda_i] of some pairs, (nnz,)."""
    cols = np.ascontiguousarray(Posterior.of_rows(inputs.inbox).mean) if term.leave_one_out else inputs.inbox
    return inner_products(pairs.row_ptr, pairs.col, means_of(inputs), cols)


def propensities(inputs: KernelInput, pairs: Pairs, is_fitted: bool) -> Floats:
    """Return p = 1 - exp(-a_hat) of some pairs, (nnz,). The inbox is what the other side sends for LEAVE_ONE_OUT.

    is_fitted : whether they are rated, and p is without their own exposure.
    """
    return np.asarray(-np.expm1(-a_hats(inputs, pairs, LEAVE_ONE_OUT, is_fitted)))


def fit_form(
    layout: Layout, users: State, items: State, user_memory: State, term: ExposureTerm, resources: FitResources
) -> Form:
    """Find mean and standard deviation of the confounder: of a_hat over all pairs, exactly, of a link over the rated.

    users, items : both sides' means as :func:`sent` sends them. user_memory : shape and rate of the users' exposure.

    Raises DataError: the confounder is the same for all pairs, so that it can't be brought to unit spread.
    """
    mean = float(users.sums["total"] @ items.sums["total"]) / layout.n_pairs
    square = float(np.vdot(users.sums["second"], items.sums["second"])) / layout.n_pairs
    form = Form(term.link, mean if term.link == "log" else 0.0)
    if not form.is_low_rank:
        form = form._replace(linked=len(users.sums["total"]) + 1)  # E[pi] and gamma
    if term.composition:
        form = form._replace(composition=(_composition_scaling(users), _composition_scaling(items)))
    if not term.standardize:
        return form
    if not form.is_low_rank:
        over_rated = resources.add(
            layout.users.half_step(partial(linked_moments, term=term, form=form), items, user_memory)
        )
        count, total, squares = (float(over_rated.sums[name]) for name in ("count", "total", "squares"))
        mean, square = total / count, squares / count
    variance = square - mean**2
    if not variance > np.finfo(np.float64).eps * square:
        raise DataError(
            f"the confounder is {mean:.4g} for all pairs, so it can't be standardised: fit with adjustment=none, or "
            "with another exposure model"
        )
    return form._replace(mean=mean, scale=float(np.sqrt(variance)))


def _composition_scaling(means: State) -> Scaling:
    names = ("count", "total", "square")
    return Scaling.of({name: means.sums[f"{COMPOSITION}_{name}"] for name in names}, together=True)


def linked_moments(inputs: KernelInput, *, term: ExposureTerm, form: Form) -> Update:
    """Add up f(a_hat) and its square over the pairs of the fit."""
    pairs = inputs.block.fitted
    linked = form.apply_link(a_hats(inputs, pairs, term, is_fitted=True))
    sums = {
        "count": np.array(float(len(linked))),
        "total": np.array(linked.sum()),
        "squares": np.array(linked @ linked),
    }
    return Update(np.empty((len(inputs.block.row_key), 0)), sums, {})


def attach_confounder(
    layout: SomeLayout,
    user_exposure: State,
    item_exposure: State,
    term: ExposureTerm,
    resources: FitResources,
    form: Form | None = None,
) -> tuple[SomeLayout, Form]:
    """Add the confounder of each pair, and the vectors of each row that it is the product of, to a layout's blocks.

    Where the term says so, the composition of each row's exposure is added too, as covariates::

        p_u = (E[pi_u] / sum_k E[pi_uk] - mean over users) / s       s: standard deviation of all U x L numbers
        q_i the same of E[lambda_i]

    user_exposure, item_exposure : their memories hold shape and rate. form : as a fit found it. None: to be found here.
    """
    with layout.environment():
        user_means = resources.add(layout.users.half_step(partial(sent, term=term), previous=user_exposure))
        item_means = resources.add(layout.items.half_step(partial(sent, term=term), previous=item_exposure))
        form = form or fit_form(layout, user_means, item_means, user_exposure, term, resources)
        of_users, of_items = (
            partial(add_confounder, term=term, form=form, is_user=is_user) for is_user in (True, False)
        )
        users = resources.add(layout.users.rebuild(of_users, item_means, user_exposure))
        items = resources.add(layout.items.rebuild(of_items, user_means, item_exposure))
    layout.users.release()
    layout.items.release()
    return layout.with_sides(users, items), form


def add_confounder(inputs: KernelInput, *, term: ExposureTerm, form: Form, is_user: bool) -> Update:
    """Add the confounder of each pair, held-out ones too, and the vector of each row to a block."""
    block, means = inputs.block, means_of(inputs)
    contents = dict(block)

    def stored(numbers: Floats) -> Floats:  # in the precision of the fit: they travel at every half-step
        return numbers.astype(means.dtype, copy=False)

    for pairs, is_fitted in zip(block.parts, (True, False), strict=False):
        a_hat = a_hats(inputs, pairs, term, is_fitted)
        contents.pop(pairs.named("exposure_count"), None)  # of stage 1, and of what has been done with it here
        contents[pairs.named("a_hat")] = stored(form.of(a_hat))
        if is_fitted and term.leave_one_out and term.over_all_pairs:
            contents["a_hat_product"] = stored(form.of(products(inputs, pairs, term)))
    contents["exposure"] = stored(form.row_vectors(means, is_user))
    if form.composition is not None:
        contents[COMPOSITION] = stored(form.composition[0 if is_user else 1].scaled(composition(means)))
    return Update(np.empty((len(means), 0)), {}, contents)


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
        return with_features(layout, is_user, state, scaling, resources), scaling


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


def with_features(
    layout: SomeLayout, is_user: bool, state: State | None, scaling: Scaling, resources: FitResources
) -> SomeLayout:
    """Add the features that a state remembers to a side's blocks. state : None: all rows are at their means."""
    side = layout.users if is_user else layout.items
    rebuilt = resources.add(side.rebuild(partial(add_features, scaling=scaling), None, state))
    side.release()
    return layout.with_sides(*((rebuilt, layout.items) if is_user else (layout.users, rebuilt)))
