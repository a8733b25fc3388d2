"""Inverse propensities from the exposure model: p_ui = 1 - exp(-a_hat_ui), a_hat without the pair's own vote."""

from functools import partial
from typing import TypeVar

import numpy as np

from dcrec_spark.engine.blocks import Pairs
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.propensity import inverse_of_exposure
from dcrec_spark.models.families.exposure_term import ExposureTerm
from dcrec_spark.models.fitting.exposure_term import a_hats, sent
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.propensity import Propensity, PropensitySettings
from dcrec_spark.models.fitting.scope import FitScope

WITHOUT_OWN_VOTE = ExposureTerm(leave_one_out=True)
SomeLayout = TypeVar("SomeLayout", bound=Layout)


def attach_weights(
    layout: SomeLayout,
    user_exposure: State,
    item_exposure: State,
    settings: PropensitySettings,
    scope: FitScope,
    mean_weight: float | None = None,
) -> tuple[SomeLayout, Propensity]:
    """Add the weight min(1 / p, cap) / mean of each rated pair to the blocks of a layout, which have its exposure.

    Parameters
    ----------
    user_exposure, item_exposure : states whose memories hold shape and rate of the exposure factors.
    mean_weight : as a fit found it; None: the mean of these pairs.
    """
    with layout.environment():
        users = scope.add(layout.users.half_step(partial(sent, term=WITHOUT_OWN_VOTE), previous=user_exposure))
        items = scope.add(layout.items.half_step(partial(sent, term=WITHOUT_OWN_VOTE), previous=item_exposure))
        if mean_weight is None:
            added = scope.add(layout.users.half_step(partial(added_up, cap=settings.cap), items, user_exposure))
            mean_weight = float(added.sums["weight"] / added.sums["count"])
        weigh = partial(add_weight, cap=settings.cap, mean=mean_weight)
        user_side = scope.add(layout.users.rebuild(weigh, items, user_exposure))
        item_side = scope.add(layout.items.rebuild(weigh, users, item_exposure))
    layout.users.release()
    layout.items.release()
    return layout.with_sides(user_side, item_side), Propensity(settings, None, mean_weight)


def added_up(inputs: KernelInput, *, cap: float | None) -> Update:
    """Add up the weights of the rated pairs."""
    weight = inverse_propensities(inputs, cap)
    sums = {"weight": np.array(weight.sum()), "count": np.array(float(len(weight)))}
    return Update(np.empty((len(inputs.block.row_key), 0)), sums, {})


def add_weight(inputs: KernelInput, *, cap: float | None, mean: float) -> Update:
    """Add the weight of each rated pair to a block; held-out ones have none."""
    contents = dict(inputs.block)
    for pairs in inputs.block.parts:
        contents.pop(pairs.named("exposure_count"), None)
    contents["weight"] = inverse_propensities(inputs, cap) / mean
    return Update(np.empty((len(inputs.block.row_key), 0)), {}, contents)


def inverse_propensities(inputs: KernelInput, cap: float | None) -> Floats:
    """Return min(1 / p, cap) of each rated pair of a block, (nnz,)."""
    weight = inverse_of_exposure(a_hats(inputs, inputs.block.fitted, WITHOUT_OWN_VOTE, is_fitted=True))
    return weight if cap is None else np.minimum(weight, cap)


def propensities(inputs: KernelInput, pairs: Pairs, is_fitted: bool) -> Floats:
    """Return p of some pairs, (nnz,); the inbox is what :data:`WITHOUT_OWN_VOTE` has the other side send.

    is_fitted : whether they are rated, and p is without their own vote.
    """
    return np.asarray(-np.expm1(-a_hats(inputs, pairs, WITHOUT_OWN_VOTE, is_fitted)))
