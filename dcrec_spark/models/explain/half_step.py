"""The half-step that explains: each block of users leaves, in place of rows, what its wanted pairs are made of.

The wanted pairs stand in the blocks as held-out ones, so that the factors of their items are in the inbox.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dcrec_spark.engine.blocks import index_at
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.half_step import Arrays, Kernel, Turn, Update
from dcrec_spark.kernels import ridge
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.explain import Explained, UserGammas, Wanted, explain_poisson, explain_ridge
from dcrec_spark.kernels.gamma import Floats, geometric_mean
from dcrec_spark.kernels.poisson import update_shape
from dcrec_spark.kernels.ridge import Shared
from dcrec_spark.models.families.gamma_poisson import GammaPoisson, SharedGammas, count_block, prior_shapes
from dcrec_spark.models.families.gaussian import Gaussian, rating_block
from dcrec_spark.models.families.select import OutcomeSteps

# How far what the given ratings imply may be from what the model has, relative to |theta| |beta|: the precision of the
# fit, not of the explanation.
AGREEMENT = {"float64": 1e-4, "float32": 1e-2}


@dataclass(frozen=True)
class Asked:
    """reasons : how many of each pair. n_items, item_blocks : the other side. tolerance : see AGREEMENT."""

    reasons: int
    n_items: int
    item_blocks: int
    tolerance: float


def explaining(steps: OutcomeSteps, shared: Any, asked: Asked) -> Kernel:
    """The kernel of a users' half-step whose memories are explanations: see :func:`_left`.

    The users' memory is what the model has of them; the source is its items, for Poisson with their means.
    """
    if isinstance(steps, Gaussian):
        return partial(explain_gaussian_block, model=steps, shared=shared, asked=asked)
    return partial(explain_poisson_block, model=steps, shared=shared, asked=asked)


def explain_gaussian_block(turn: Turn, *, model: Gaussian, shared: Shared, asked: Asked) -> Update:
    """The users are solved anew from the ratings; their memory holds what the model has."""
    ratings, rows, wanted = rating_block(turn.block, model), turn.memory["rows"], _wanted(turn.block, asked)
    system = ridge.users_system(ratings, turn.inbox, turn.source_sums, shared, model.design, model.reg)
    found = explain_ridge(ratings, system, wanted)
    theta = np.ascontiguousarray(rows[:, : model.rank])
    gamma = rows[:, model.rank] if rows.shape[1] > model.rank else np.full(len(rows), shared.gamma)
    given = inner_products(wanted.row_ptr, wanted.col, theta, turn.inbox)
    return _left(turn, asked, found, gamma, (theta, turn.inbox), (found.preference, given))


def explain_poisson_block(turn: Turn, *, model: GammaPoisson, shared: SharedGammas, asked: Asked) -> Update:
    """The users' fitted shapes are divided; one more update of them, from the ratings, has to leave them in place."""
    memory, wanted = turn.memory, _wanted(turn.block, asked)
    counts, prior = count_block(turn, model, shared, is_user=True), prior_shapes(model, is_user=True)
    shape, rate = memory["shape"], memory["rate"]
    gamma = np.full(len(shape), shared.gamma.mean if shared.gamma else 0.0)
    if model.own_weights:
        gamma = (memory["gamma_shape"] / memory["gamma_rate"])[:, 0]
        shape, rate = np.hstack([shape, memory["gamma_shape"]]), np.hstack([rate, memory["gamma_rate"]])
    cols, means = (np.ascontiguousarray(part) for part in np.hsplit(turn.inbox, 2))
    found = explain_poisson(counts, UserGammas(prior, shape, rate), cols, means, wanted)
    again = update_shape(prior, counts, geometric_mean(shape, rate), cols)
    theta, implied = ((s / rate)[:, : model.rank] for s in (shape, again))
    from_ratings = inner_products(wanted.row_ptr, wanted.col, implied, means)
    return _left(turn, asked, found, gamma, (theta, means), (from_ratings, found.preference))


def _wanted(block: Arrays, asked: Asked) -> Wanted:
    item = index_at(asked.n_items, asked.item_blocks, block["need_at"])
    return Wanted(block["held_row_ptr"], block["held_col"], asked.reasons, item[block["col"]])


def _left(
    turn: Turn,
    asked: Asked,
    found: Explained,
    gamma: Floats,
    factors: tuple[Floats, Floats],
    preferences: tuple[Floats, Floats],
) -> Update:
    """Of each wanted pair: row, item (idx), the parts of its score; of each reason: item (idx), rating, contribution.

    factors : theta of the rows, beta of the inbox. preferences : as the ratings imply them, and as the model has them.
    """
    block, at = turn.block, found.reason_at
    item = index_at(asked.n_items, asked.item_blocks, block["need_at"])
    row, col = np.repeat(np.arange(len(gamma)), np.diff(block["held_row_ptr"])), block["held_col"]
    length = np.linalg.norm(factors[0], axis=1)[row] * np.linalg.norm(factors[1], axis=1)[col]
    agrees = np.abs(preferences[0] - preferences[1]) <= asked.tolerance * length
    memory: dict[str, Array] = {
        "row": row,
        "item_idx": item[col],
        "preference": found.preference,
        "confounder": gamma[row] * block["held_a_hat"] if "held_a_hat" in block else np.zeros(len(row)),
        "baseline": found.baseline,
        "others": found.others,
        "implied": preferences[0],
        "fitted": preferences[1],
        "agrees": agrees,
        "n_reasons": found.n_reasons,
        "reason_idx": item[block["col"][at]],
        "rating": block["rating"][at].astype(np.float64),
        "contribution": found.contribution,
    }
    return Update(np.empty((len(gamma), 0)), {"disagreeing": np.array(float((~agrees).sum()))}, memory)
