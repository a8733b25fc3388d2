"""Probabilistic and weighted matrix factorization over the distributed loop: alternating least squares, exact over all
pairs. A side's rows say all that is known of it, so nothing is remembered.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtri

from dcrec_spark.engine.half_step import Arrays, Kernel, Turn, Update
from dcrec_spark.kernels import ridge
from dcrec_spark.kernels.gamma import Floats, noise
from dcrec_spark.kernels.ridge import Design, RatingBlock, Regulariser, Shared

_START_SCALE = 0.1


@dataclass(frozen=True)
class Gaussian:
    """The steps of a least-squares model. ``alpha``: an observed pair weighs 1 + alpha * rating, times its own weight.

    n_pairs : U x I. validates : whether there are held-out pairs. first_intercept : beta_0 where a fit begins.
    """

    rank: int
    design: Design
    reg: Regulariser
    alpha: float
    fit_intercept: bool
    seed: int
    n_pairs: float
    precision: str = "float64"
    validates: bool = False
    first_intercept: float = 0.0

    stage = "outcome"
    rises = False
    remembers = False

    @property
    def shared(self) -> Shared:
        """The first intercept, and no global gamma."""
        return Shared(self.first_intercept)

    def start_users(self) -> Kernel:
        """Users as they were fitted: a fit itself begins with the items."""
        return partial(resume_users, model=self)

    def start_items(self) -> Kernel:
        """Small normal factors, or those that were fitted."""
        return partial(start, model=self)

    def users(self, shared: Shared) -> Kernel:
        """Users given the items."""
        return partial(user_step, model=self, shared=shared)

    def items(self, shared: Shared) -> Kernel:
        """Items given the users."""
        return partial(item_step, model=self, shared=shared)

    def settle(self, shared: Shared, is_user: bool = True) -> Kernel:
        """One solve: given the other side, the minimiser is where it is."""
        return self.users(shared) if is_user else self.items(shared)

    def conclude(self, users: Arrays, items: Arrays, shared: Shared) -> tuple[float, Shared]:
        """The shared terms that minimise J, and J there."""
        best, objective = ridge.shared_and_objective(
            users, items, self.n_pairs, self.design, self.reg, self.fit_intercept
        )
        return objective, best

    def held_out_loss(self, items: Arrays, shared: Shared) -> float | None:
        """The held-out pairs' mean squared error."""
        return ridge.held_out_error(items, shared) if "held_square" in items else None


def start(turn: Turn, *, model: Gaussian) -> Update:
    """Small normal factors, by noise that depends on (seed, id) alone; with a memory, known rows start there."""
    uniform = np.clip(noise(model.seed, turn.block["row_key"], model.rank), 2.0**-53, 1 - 2.0**-53)
    rows = (_START_SCALE * ndtri(uniform)).astype(model.precision)
    if turn.memory:
        known = np.isfinite(turn.memory["rows"]).all(axis=1)
        rows[known] = turn.memory["rows"][known]
    return Update(rows, ridge.item_sums(rows, _exposure(turn.block, model.precision)), {})


def resume_users(turn: Turn, *, model: Gaussian) -> Update:
    """Users as the memory has them, with their sums."""
    rows = turn.memory["rows"].astype(model.precision)
    return Update(rows, ridge.user_sums(rows, _exposure(turn.block, model.precision), model.design), {})


def user_step(turn: Turn, *, model: Gaussian, shared: Shared) -> Update:
    """Users given the items."""
    ratings = rating_block(turn.block, model)
    rows = ridge.update_users(ratings, turn.inbox, turn.source_sums, shared, model.design, model.reg)
    return Update(rows, ridge.user_sums(rows, ratings.exposure, model.design), {})


def item_step(turn: Turn, *, model: Gaussian, shared: Shared) -> Update:
    """Items given the users, and what the observed pairs then add to the objective."""
    ratings = rating_block(turn.block, model)
    rows = ridge.update_items(ratings, turn.inbox, turn.source_sums, shared, model.design, model.reg)
    sums = ridge.item_sums(rows, ratings.exposure) | ridge.observed_sums(ratings, rows, turn.inbox, model.design)
    if model.validates:
        sums |= ridge.held_out_sums(rating_block(turn.block, model, "held_"), rows, turn.inbox, model.design)
    return Update(rows, sums, {})


def rating_block(block: Arrays, model: Gaussian, prefix: str = "") -> RatingBlock:
    """The kernel's view of a block; ``prefix`` "held_" for its held-out pairs."""
    rating = block[f"{prefix}rating"].astype(model.precision)
    weight = 1 + rating.dtype.type(model.alpha) * rating
    if not prefix and "weight" in block:
        weight *= block["weight"].astype(model.precision)
    a_hat = block.get(f"{prefix}a_hat", np.empty(0)).astype(model.precision, copy=False)
    exposure = _exposure(block, model.precision)
    return RatingBlock(block[f"{prefix}row_ptr"], block[f"{prefix}col"], rating, weight, a_hat, exposure)


def _exposure(block: Arrays, dtype: str) -> Floats:
    none = np.empty((len(block["row_ptr"]) - 1, 0))
    return block.get("exposure", none).astype(dtype, copy=False)
