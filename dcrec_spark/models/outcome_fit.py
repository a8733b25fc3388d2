"""Stage 2: the rating model's alternating least squares, laid over the distributed half-step."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtri

from dcrec_spark.blocks import Side
from dcrec_spark.engine.half_step import (
    Arrays,
    State,
    Turn,
    Update,
    end_lineage,
    half_step,
    rebuild,
    released_on_failure,
)
from dcrec_spark.kernels import ridge
from dcrec_spark.kernels.gamma import Floats, noise
from dcrec_spark.kernels.poisson import CountBlock, pair_means
from dcrec_spark.kernels.ridge import Off, RatingBlock, Regulariser
from dcrec_spark.models.exposure_fit import means
from dcrec_spark.models.history import SLACK, History, Listener

_START_SCALE = 0.1


@dataclass(frozen=True)
class OutcomeSettings:
    """What stage 2 is told. ``alpha``: an observed pair weighs 1 + alpha * rating."""

    rank: int
    max_iter: int
    tol: float
    off: Off
    reg: Regulariser
    alpha: float
    fit_intercept: bool
    seed: int
    checkpoint_interval: int = 10
    precision: str = "float64"


@dataclass(frozen=True)
class OutcomeFit:
    """The last states of both sides, beta_0, and J after each sweep."""

    users: State
    items: State
    intercept: float
    objective: list[float]


def attach_confounder(
    users: Side, items: Side, user_exposure: State, item_exposure: State, kept: ExitStack
) -> tuple[Side, Side]:
    """Blocks that carry a_hat beside each rating and the exposure factors of their rows.

    user_exposure, item_exposure : states whose memories hold the exposure model's shape and rate.
    kept : gets a callback for everything that is cached.
    """
    user_means = half_step(users, means, own=user_exposure)
    kept.callback(user_means.release)
    item_means = half_step(items, means, own=item_exposure)
    kept.callback(item_means.release)
    new_users = rebuild(users, add_confounder, item_means, user_exposure)
    kept.callback(new_users.release)
    new_items = rebuild(items, add_confounder, user_means, item_exposure)
    kept.callback(new_items.release)
    return new_users, new_items


def add_confounder(turn: Turn) -> Update:
    """The block with a_hat for each of its nonzeros and the mean exposure of each of its rows."""
    block, row_mean = turn.block, turn.memory["shape"] / turn.memory["rate"]
    counts = CountBlock(block["row_ptr"], block["col"], block["rating"])
    a_hat = pair_means(counts, row_mean, turn.inbox)
    contents = {name: array for name, array in block.items() if name != "exposure_count"}  # stage 2 has no use for it
    return Update(np.empty((len(row_mean), 0)), {}, {**contents, "a_hat": a_hat, "exposure": row_mean})


def fit_outcome(users: Side, items: Side, settings: OutcomeSettings, listener: Listener) -> OutcomeFit:
    """Users, items, intercept, in turn; each minimises J given the others, so J never rises."""
    history = History("outcome", False, settings.tol, SLACK[settings.precision], listener)
    n_pairs = float(users.n_rows) * items.n_rows
    intercept = 0.0
    item_state = half_step(items, partial(start, rank=settings.rank, seed=settings.seed, dtype=settings.precision))
    for sweep in range(1, settings.max_iter + 1):
        user_state = half_step(users, partial(user_step, settings=settings, intercept=intercept), item_state)
        before = item_state
        item_state = half_step(items, partial(item_step, settings=settings, intercept=intercept), user_state)
        before.release()
        user_state.release()
        intercept, objective = ridge.intercept_and_objective(
            user_state.sums, item_state.sums, n_pairs, settings.off, settings.reg, settings.fit_intercept
        )
        with released_on_failure(item_state):
            settled = history.settled_at(objective)
        if settled:
            break
        if sweep % settings.checkpoint_interval == 0:
            (item_state,) = end_lineage(item_state)
    # Once more the users, given the final items: folding a user in with his own ratings gives back his factors.
    user_state = half_step(users, partial(user_step, settings=settings, intercept=intercept), item_state)
    return OutcomeFit(user_state, item_state, intercept, history.values)


def start(turn: Turn, *, rank: int, seed: int, dtype: str = "float64") -> Update:
    """Small normal factors, by noise that depends on (seed, side, id) alone."""
    uniform = np.clip(noise(seed, turn.block["row_key"], rank), 2.0**-53, 1 - 2.0**-53)
    rows = (_START_SCALE * ndtri(uniform)).astype(dtype)
    return Update(rows, ridge.item_sums(rows, _exposure(turn.block, dtype)), {})


def user_step(turn: Turn, *, settings: OutcomeSettings, intercept: float) -> Update:
    """Users given the items."""
    ratings = _ratings(turn.block, settings)
    rows = ridge.update_users(ratings, turn.inbox, turn.source_sums, intercept, settings.off, settings.reg)
    return Update(rows, ridge.user_sums(rows, ratings.exposure), {})


def item_step(turn: Turn, *, settings: OutcomeSettings, intercept: float) -> Update:
    """Items given the users, and what the observed pairs then add to the objective."""
    ratings = _ratings(turn.block, settings)
    rows = ridge.update_items(ratings, turn.inbox, turn.source_sums, intercept, settings.off, settings.reg)
    observed = ridge.observed_sums(ratings, rows, turn.inbox, settings.off)
    return Update(rows, {**ridge.item_sums(rows, ratings.exposure), **observed}, {})


def _ratings(block: Arrays, settings: OutcomeSettings) -> RatingBlock:
    rating = block["rating"].astype(settings.precision)
    weight = 1 + rating.dtype.type(settings.alpha) * rating
    a_hat = block.get("a_hat", np.empty(0)).astype(settings.precision, copy=False)
    return RatingBlock(block["row_ptr"], block["col"], rating, weight, a_hat, _exposure(block, settings.precision))


def _exposure(block: Arrays, dtype: str) -> Floats:
    none = np.empty((len(block["row_ptr"]) - 1, 0))
    return block.get("exposure", none).astype(dtype, copy=False)
