"""The substitute confounder joined onto the ratings: a_hat beside each of them, once, in the blocks."""

from contextlib import ExitStack

import numpy as np

from dcrec_spark.engine.half_step import SomeSide, State, Turn, Update, half_step, rebuild
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.models.families.gamma_poisson import means


def attach_confounder(
    users: SomeSide, items: SomeSide, user_exposure: State, item_exposure: State, kept: ExitStack
) -> tuple[SomeSide, SomeSide]:
    """Blocks that carry a_hat beside each rating and the exposure factors of their rows.

    user_exposure, item_exposure : states whose memories hold the exposure model's shape and rate.
    kept : gets a callback for everything that is cached.
    """
    user_means = half_step(users, means, previous=user_exposure)
    kept.callback(user_means.release)
    item_means = half_step(items, means, previous=item_exposure)
    kept.callback(item_means.release)
    new_users = rebuild(users, add_confounder, item_means, user_exposure)
    kept.callback(new_users.release)
    new_items = rebuild(items, add_confounder, user_means, item_exposure)
    kept.callback(new_items.release)
    return new_users, new_items


def add_confounder(turn: Turn) -> Update:
    """The block with a_hat for each of its pairs, held-out ones too, and the mean exposure of each of its rows."""
    block, row_mean = turn.block, turn.memory["shape"] / turn.memory["rate"]
    contents = {name: array for name, array in block.items() if not name.endswith("exposure_count")}  # of stage 1 only
    for prefix in ("", "held_"):
        if f"{prefix}col" in block:
            pairs = block[f"{prefix}row_ptr"], block[f"{prefix}col"]
            contents[f"{prefix}a_hat"] = inner_products(*pairs, row_mean, turn.inbox)
    return Update(np.empty((len(row_mean), 0)), {}, {**contents, "exposure": row_mean})
