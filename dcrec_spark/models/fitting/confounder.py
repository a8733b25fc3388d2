"""The substitute confounder joined onto the ratings: a_hat of each pair, once, in the blocks."""

from typing import TypeVar

import numpy as np

from dcrec_spark.engine.half_step import State, Turn, Update, half_step, rebuild
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.scope import FitScope

AnyLayout = TypeVar("AnyLayout", bound=Layout)


def attach_confounder(layout: AnyLayout, user_exposure: State, item_exposure: State, scope: FitScope) -> AnyLayout:
    """Add a_hat of each pair, and the mean exposure factors of each row, to the blocks of a layout.

    Parameters
    ----------
    user_exposure, item_exposure : states whose memories hold shape and rate of the exposure factors.
    """
    with layout.fixed_placement():
        user_means = scope.add(half_step(layout.users, means, previous=user_exposure))
        item_means = scope.add(half_step(layout.items, means, previous=item_exposure))
        users = scope.add(rebuild(layout.users, add_confounder, item_means, user_exposure))
        items = scope.add(rebuild(layout.items, add_confounder, user_means, item_exposure))
    layout.users.release()
    layout.items.release()
    return layout.with_sides(users, items)


def means(turn: Turn) -> Update:
    """Send the posterior means of exposure factors to the other side."""
    return Update(turn.memory["shape"] / turn.memory["rate"], {}, {})


def add_confounder(turn: Turn) -> Update:
    """Add a_hat of each pair, held-out ones too, and the mean exposure of each row to a block."""
    block, row_mean = turn.block, turn.memory["shape"] / turn.memory["rate"]
    contents = dict(block)
    for pairs in block.parts:
        contents.pop(pairs.named("exposure_count"), None)  # of stage 1 only
        contents[pairs.named("a_hat")] = inner_products(pairs.row_ptr, pairs.col, row_mean, turn.inbox)
    return Update(np.empty((len(row_mean), 0)), {}, {**contents, "exposure": row_mean})
