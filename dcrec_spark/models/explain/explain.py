"""Why this item for this user: the preference as a sum over what the user has rated, and the confounder beside it.

    pairs ─ known? ─┐
    ratings of the  ├─ user blocks, the pairs as held-out ones ─ a_hat ─ one half-step ─ ids for indices
    pairs' users   ─┘

The half-step is that of the fit, and so are the factors: nothing is fitted anew, and no exposure is folded in.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.blocks import Side
from dcrec_spark.engine.cells import Array, unpack
from dcrec_spark.engine.half_step import State, half_step, memories
from dcrec_spark.errors import DataError
from dcrec_spark.models.explain.half_step import AGREEMENT, Asked, explaining
from dcrec_spark.models.explain.inputs import PAIR, laid_out, named, ratings_of, require_known
from dcrec_spark.models.explain.text import look_up
from dcrec_spark.models.families.select import steps_for
from dcrec_spark.models.fitting.factors import place_factors
from dcrec_spark.models.fitting.fold_in import EXPOSURE
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.outcome.confounder import attach_confounder
from dcrec_spark.models.outcome.tables import has_own_weights, memory_of
from dcrec_spark.spark.lineage import fixed_placement, keep
from dcrec_spark.spark.planning import few_partitions

if TYPE_CHECKING:
    from dcrec_spark.models.outcome.model import DeconfoundedMFModel

NUMBERS = ["preference", "confounder", "baseline", "others", "implied", "fitted"]
REASON = {"item_idx": "long", "rating": "double", "contribution": "double"}


def explain_pairs(model: "DeconfoundedMFModel", pairs: DataFrame, ratings: DataFrame, n: int) -> DataFrame:
    """What :meth:`DeconfoundedMFModel.explain` returns, cached."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"n: found {n!r}, expected a whole number of reasons >= 1")
    with ExitStack() as kept:
        kept.enter_context(few_partitions(pairs.sparkSession))
        # Both are read often below: uncut, a long plan of the caller's would be repeated each time, and then again.
        wanted = _kept(named(model, pairs).distinct(), kept)
        own = _kept(ratings_of(model, wanted, ratings), kept)
        require_known(model, wanted, named(model, own))
        layout = laid_out(model, wanted, own, kept)
        found = _explained(model, layout, n, kept)
        explained = _with_ids(model, layout, found).persist()
        explained.count()
    return explained


def _kept(frame: DataFrame, until: ExitStack) -> DataFrame:
    cut = keep(frame)
    until.callback(cut.release)
    return cut.frame


def _explained(model: "DeconfoundedMFModel", layout: Layout, n: int, kept: ExitStack) -> DataFrame:
    """``user_idx, item_idx``, NUMBERS and ``reasons`` of each wanted pair, in double precision whatever the fit's."""
    users, items = model.tables()
    rank, is_poisson = model.getOrDefault("rank"), model.getOrDefault("outcome") == "poisson"
    steps = replace(steps_for(model, layout.n_pairs, validates=True), precision="float64")
    with fixed_placement(users.sparkSession):
        if model.exposureModel is not None:
            layout = _with_confounder(model, layout, kept)
        fitted_items = place_factors(layout.items, layout.item_ids, *memory_of(items, rank, is_poisson, False))
        kept.callback(fitted_items.release)
        memory = memory_of(users, rank, is_poisson, has_own_weights(model))
        fitted_users = place_factors(layout.users, layout.user_ids, *memory)
        kept.callback(fitted_users.release)
        source = half_step(layout.items, steps.start_items(), own=fitted_items)
        kept.callback(source.release)
        tolerance = AGREEMENT[model.getOrDefault("precision")]
        asked = Asked(n, layout.items.n_rows, layout.items.n_blocks, tolerance)
        # Explanations stay on the cluster, however few the users are.
        side = replace(layout.users, held=False)
        state = half_step(side, explaining(steps, model.facts.shared, asked), source, fitted_users)
        kept.callback(state.release)
    found = _frame(side, state)
    _require_agreement(model, layout, state, found)
    return found


def _with_confounder(model: "DeconfoundedMFModel", layout: Layout, kept: ExitStack) -> Layout:
    """a_hat beside each pair, from the exposure factors that the model has."""
    widths = dict.fromkeys(EXPOSURE, model.exposureModel.getOrDefault("rank") if model.exposureModel else 0)
    states = []
    for side, ids, table in zip(
        (layout.users, layout.items), (layout.user_ids, layout.item_ids), model.tables(), strict=True
    ):
        factors = table.select("id", *[F.col(f"exposure_{name}").alias(name) for name in EXPOSURE])
        states.append(place_factors(side, ids, factors, widths))
        kept.callback(states[-1].release)
    users, items = attach_confounder(layout.users, layout.items, states[0], states[1], kept)
    return replace(layout, users=users, items=items)


def _frame(side: Side, state: State) -> DataFrame:
    n_blocks = side.n_blocks

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block, data in zip(batch["block"].to_pylist(), batch["data"], strict=True):
                yield _block_rows(block, n_blocks, unpack(data.as_buffer()))

    reason = ", ".join(f"{name}: {kind}" for name, kind in REASON.items())
    numbers = ", ".join(f"{name} double" for name in NUMBERS)
    schema = f"user_idx long, item_idx long, agrees boolean, {numbers}, reasons array<struct<{reason}>>"
    return memories(side, state).mapInArrow(rows, schema)


def _block_rows(block: int, n_blocks: int, left: dict[str, Array]) -> pa.RecordBatch:
    reasons = [pa.array(left[name]) for name in ("reason_idx", "rating", "contribution")]
    offsets = np.concatenate([[0], np.cumsum(left["n_reasons"])])
    columns = {
        "user_idx": pa.array(left["row"] * n_blocks + block),
        "item_idx": pa.array(left["item_idx"]),
        "agrees": pa.array(left["agrees"]),
        **{name: pa.array(left[name]) for name in NUMBERS},
        "reasons": pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(reasons, list(REASON))
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


def _require_agreement(model: "DeconfoundedMFModel", layout: Layout, state: State, found: DataFrame) -> None:
    """An explanation by other ratings than the user's would be one of another preference.

    Raises
    ------
    DataError : names a pair, what its ratings imply, what the model has.
    """
    disagreeing = int(state.sums["disagreeing"])
    if disagreeing:
        example = _with_ids(model, layout, found.where("not agrees").limit(1), ["implied", "fitted"]).collect()[0]
        raise DataError(
            f"the ratings are not those that the model was fitted with: they make the preference of user "
            f"{example['user_id']!r} for item {example['item_id']!r} {example['implied']:.4g}, and the model has "
            f"{example['fitted']:.4g} ({disagreeing} such pairs); give all ratings of these users, as in the fit or in "
            "their fold-in, and no others"
        )


def _with_ids(
    model: "DeconfoundedMFModel", layout: Layout, found: DataFrame, further: list[str] | None = None
) -> DataFrame:
    users, items = model.tables()
    user_id = F.col("id").cast(users.schema["id"].dataType).alias("user_id")
    item_ids = items.select(F.col("idx").alias("item_idx"), F.col("id").alias("item_id"))
    told = look_up(found, ["user_idx", "item_idx"], "item_idx", item_ids)
    told = told.join(layout.user_ids.select(F.col("idx").alias("user_idx"), user_id), "user_idx")
    return told.join(item_ids, "item_idx").select(
        *PAIR,
        (F.col("preference") + F.col("confounder") + F.lit(model.intercept)).alias("score"),
        "preference",
        "confounder",
        F.lit(model.intercept).alias("intercept"),
        "baseline",
        F.transform("reasons", _reason).alias("reasons"),
        "others",
        *(further or []),
    )


def _reason(entry: Column) -> Column:
    return F.struct(*[entry[name].alias(name) for name in ("item_id", "rating", "contribution")])
