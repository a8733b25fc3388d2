"""The substitute confounder joined onto the ratings: h of each pair, made from a_hat, once, in the blocks."""

from functools import partial
from typing import TypeVar

import numpy as np

from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.families.base import ExposureTerm
from dcrec_spark.models.fitting.confounder_form import fit_form
from dcrec_spark.models.fitting.exposure_term import a_hats, means_of, products, sent
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout

SomeLayout = TypeVar("SomeLayout", bound=Layout)


def attach_confounder(
    layout: SomeLayout,
    user_exposure: State,
    item_exposure: State,
    term: ExposureTerm,
    resources: FitResources,
    form: Form | None = None,
) -> tuple[SomeLayout, Form]:
    """Add the confounder of each pair, and the vectors of each row that it is the product of, to a layout's blocks.

    Parameters
    ----------
    user_exposure, item_exposure : states whose memories hold shape and rate of the exposure factors.
    term : what the model wants of a_hat. form : as a fit found it. None: to be found here.

    Raises
    ------
    DataError : the confounder is the same for all pairs, so that it can't be standardised.
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
    return Update(np.empty((len(means), 0)), {}, contents)
