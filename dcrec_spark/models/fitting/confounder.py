"""The substitute confounder: a_hat and propensities of pairs, h made from a_hat, h joined onto the ratings."""

from functools import partial
from typing import TypeVar

import numpy as np

from dcrec_spark.engine.blocks import Pairs
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.exposure import Form, Posterior, Scaling, composition, leave_one_out, moments
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.families.base import ExposureTerm
from dcrec_spark.models.families.gaussian import COMPOSITION
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
    return Update(posterior_of(inputs).rows() if term.leave_one_out else mean, sums, {})


def means_of(inputs: KernelInput) -> Floats:
    """Return the posterior means of the block's rows, whose memory holds shape and rate. (n, L)."""
    return np.asarray(inputs.memory["shape"] / inputs.memory["rate"])


def posterior_of(inputs: KernelInput) -> Posterior:
    """Return the posterior of the block's rows."""
    return Posterior.of(inputs.memory["shape"], inputs.memory["rate"])


def a_hats(inputs: KernelInput, pairs: Pairs, term: ExposureTerm, is_fitted: bool) -> Floats:
    """Return a_hat of some pairs, (nnz,): those of a fit without their own exposure, if the term says so."""
    if not (is_fitted and term.leave_one_out):
        return products(inputs, pairs, term)
    count = pairs.value("exposure_count").astype(np.float64)
    return leave_one_out(pairs.row_ptr, pairs.col, count, posterior_of(inputs), Posterior.of_rows(inputs.inbox))


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
    block = inputs.block
    contents = dict(block)
    for pairs, is_fitted in zip(block.parts, (True, False), strict=False):
        a_hat = a_hats(inputs, pairs, term, is_fitted)
        contents.pop(pairs.named("exposure_count"), None)  # of stage 1, and of what has been done with it here
        contents[pairs.named("a_hat")] = form.of(a_hat)
        if is_fitted and term.leave_one_out and term.over_all_pairs:
            contents["a_hat_product"] = form.of(products(inputs, pairs, term))
    means = means_of(inputs)
    contents["exposure"] = form.row_vectors(means, is_user)
    if form.composition is not None:
        contents[COMPOSITION] = form.composition[0 if is_user else 1].scaled(composition(means))
    return Update(np.empty((len(means), 0)), {}, contents)
