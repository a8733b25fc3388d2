"""New users or items from a few ratings: the fit's own half-step, with the other side frozen.

    exposures: coordinate steps of the new rows until they rest (math: pi_u' with lambda fixed)
    outcome:   one ridge solve, or for Poisson the same coordinate steps, with a_hat beside each rating

A fit ends with this very step, so a training user folded in with his own ratings gets his factors back.
"""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from dcrec_spark.engine.blocks import Side
from dcrec_spark.engine.half_step import State, half_step
from dcrec_spark.models.families.gamma_poisson import SharedGammas
from dcrec_spark.models.families.select import OutcomeSteps
from dcrec_spark.models.fitting.factors import factor_frame, place_factors
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.outcome.confounder import attach_confounder
from dcrec_spark.spark.lineage import fixed_placement

EXPOSURE = ["shape", "rate"]
OTHER = {"user": "item", "item": "user"}


def fold_in_exposure(
    layout: Layout, new: str, known: DataFrame, steps: OutcomeSteps, kept: ExitStack
) -> tuple[Layout, DataFrame]:
    """The layout with a_hat beside each pair, and ``id, shape, rate`` of the side that is folded in.

    new : "user" or "item". known : ``id, shape, rate`` of the other side. kept : gets a callback for what is cached.
    """
    states = fold_in(layout, new, (known, dict.fromkeys(EXPOSURE, steps.rank)), steps, SharedGammas(), kept)
    side, ids = side_of(layout, new)
    table = factor_frame(side, states[new], ids, EXPOSURE).drop("idx").persist()
    kept.callback(table.unpersist)
    with fixed_placement(side.frame.sparkSession):
        users, items = attach_confounder(layout.users, layout.items, states["user"], states["item"], kept)
    return replace(layout, users=users, items=items), table


def fold_in(
    layout: Layout, new: str, known: tuple[DataFrame, dict[str, int]], steps: OutcomeSteps, shared: Any, kept: ExitStack
) -> dict[str, State]:
    """States of "user" and "item", the known side as it was fitted, the new one from its pairs.

    known : the other side's memory, ``id`` and arrays, with their widths. shared : what all pairs share.
    """
    (new_side, _), (old_side, old_ids) = side_of(layout, new), side_of(layout, OTHER[new])
    with fixed_placement(old_side.frame.sparkSession):
        placed = place_factors(old_side, old_ids, *known)
        kept.callback(placed.release)
        start = steps.start_items() if new == "user" else steps.start_users()
        frozen = half_step(old_side, start, previous=placed)
        kept.callback(frozen.release)
        folded = half_step(new_side, steps.settle(shared, new == "user"), frozen)
        kept.callback(folded.release)
    return {new: folded, OTHER[new]: frozen}


def side_of(layout: Layout, name: str) -> tuple[Side, DataFrame]:
    """Blocks and ids of "user" or "item"."""
    return (layout.users, layout.user_ids) if name == "user" else (layout.items, layout.item_ids)
