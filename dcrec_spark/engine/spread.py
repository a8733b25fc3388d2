"""Sweeps of a fit with heavy items: what the users' blocks add up for these, and score once they have moved.

    users' half-step    -> rows; and, for the heavy items, sums over their pairs
    items' half-step    -> rows; those of heavy items from the sums of all users' blocks
    one more turn       -> the users' blocks score their pairs with the heavy items, whose new rows the driver brings

Without heavy items there is no such turn, and a sweep is what it was. See :mod:`dcrec_spark.engine.heavy`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dcrec_spark.engine import heavy
from dcrec_spark.engine.blocks import AnySide, Side
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.half_step import State, half_step, remembering
from dcrec_spark.engine.turn import Kernel, Turn, Update

# Of a block of users and what it has just become: (H, ...) each, sums over its pairs with the heavy items.
PartsOf = Callable[[Turn, Update], Arrays]
# Of a block of users as it has become, and the heavy items as they have moved: sums over the pairs of both.
ScoresOf = Callable[[Turn, Array], Arrays]


@runtime_checkable
class Splitting(Protocol):
    """Steps of a model whose items may be heavy: their step is determined by sums over their pairs."""

    def heavy_parts(self, shared: Any) -> PartsOf:
        """Return what adds up, for the step of heavy items, the pairs of a block of users."""

    def heavy_scores(self, shared: Any) -> ScoresOf:
        """Return what adds up, of pairs with heavy items, what a step of items adds up of its pairs."""


def adding_parts(kernel: Kernel, steps: object, shared: Any) -> Kernel:
    """Return a kernel of users that also adds up their pairs with heavy items, in blocks that have such pairs."""
    if not isinstance(steps, Splitting):
        return kernel
    return partial(_with_parts, kernel=kernel, parts=steps.heavy_parts(shared))


def _with_parts(turn: Turn, *, kernel: Kernel, parts: PartsOf) -> Update:
    update = kernel(turn)
    return update._replace(parts=parts(turn, update)) if heavy.meets(turn.block) else update


def scored(users: AnySide, steps: object, shared: Any, user_state: State, item_state: State) -> State:
    """Return the items' result with the sums over all of their pairs, those of heavy items too."""
    rows = item_state.sums.get(heavy.ROWS)
    if rows is None or not isinstance(steps, Splitting) or not isinstance(users, Side):
        return item_state
    kernel = partial(_score, scores=steps.heavy_scores(shared), rows=rows)
    # What comes of it is a few numbers, wherever the users' results are.
    further = half_step(replace(users, held=True), kernel, previous=remembering(users, user_state)).sums
    sums = {name: item_state.sums[name] + number for name, number in further.items()}
    return replace(item_state, sums={**item_state.sums, **sums})


def _score(turn: Turn, *, scores: ScoresOf, rows: Array) -> Update:
    return Update(np.empty((len(turn.block.row_key), 0)), scores(turn, rows), {})
