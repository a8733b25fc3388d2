"""Why this item for this user: the preference as a sum over what the user has rated, and the confounder's part.

    pairs ─ known? ─┐
    ratings of the  ├─ user blocks, the pairs as held-out ones ─ a_hat ─ one half-step ─ ids for indices
    pairs' users   ─┘

The half-step is that of the fit, and so are the factors: nothing is fitted anew, and no exposure is folded in.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.errors import ConfigError, DataError, cut
from dcrec_spark.kernels.csr import rows_of
from dcrec_spark.kernels.explain import Wanted
from dcrec_spark.models.explain.text import look_up
from dcrec_spark.models.families.base import Explainer
from dcrec_spark.models.fitting.checks import require_number
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.fitted import AGREEMENT, PAIR, FittedOutcome, inbox_idx
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.spark.lineage import keep
from dcrec_spark.spark.planning import few_partitions

LINEAR = ["composition", "features", "user_bias", "item_bias"]
PARTS = ["preference", "confounder", *LINEAR, "baseline"]
NUMBERS = [*PARTS, "others", "implied", "fitted"]
REASON = {"item_idx": "long", "rating": "double", "contribution": "double"}


def explain_pairs(
    fitted: FittedOutcome, pairs: DataFrame, ratings: DataFrame, n: int, complete: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """Return what :meth:`DeconfoundedMFModel.explain` returns, cached. complete : adds columns to the explanations."""
    require_number("n", n, "reasons")
    with few_partitions(pairs.sparkSession), FitResources() as resources:
        # Both are read often below: uncut, a long plan of the caller's would be repeated each time, and then again.
        wanted = resources.add(keep(fitted.pairs_of(pairs).distinct())).frame
        fitted.require_pairs(ratings)
        users = wanted.select(F.col("user_id").alias(fitted.id_columns[0])).distinct()
        rated = fitted.observed(ratings).join(users, fitted.id_columns[0], "left_semi")
        rated = resources.add(keep(rated)).frame
        fitted.require_known(wanted, fitted.pairs_of(rated), "explain")
        layout = fitted.lay_out_pairs(wanted, rated, resources)
        explained = complete(_with_ids(fitted, layout, _explained(fitted, layout, n, resources))).persist()
        explained.count()
    return explained


def _explained(fitted: FittedOutcome, layout: Layout, n: int, resources: FitResources) -> DataFrame:
    """``user_idx, item_idx``, NUMBERS and ``reasons`` of each wanted pair, in double precision whatever the fit's."""
    family = fitted.family
    layout = fitted.with_exposure_term(layout, resources)
    steps = family.steps(layout, precision="float64")
    explainer = family.explainer(steps, fitted.facts.shared)
    if explainer is None:
        outcome = fitted.params.getOrDefault("outcome")
        raise ConfigError(f"outcome={outcome} can't be explained: its family does not take preferences apart")
    with layout.environment():
        user_memory, item_memory = layout.place_both((fitted.users, fitted.items), family, resources)
        source = resources.add(layout.items.half_step(steps.start(False), previous=item_memory))
        size = layout.items.n_rows, layout.items.n_blocks
        tolerance = AGREEMENT[fitted.params.getOrDefault("precision")]
        kernel = partial(explain_block, explainer=explainer, reasons=n, size=size, tolerance=tolerance)
        state = resources.add(layout.users.remember(kernel, source, user_memory))
    reason = ", ".join(f"{name}: {kind}" for name, kind in REASON.items())
    numbers = ", ".join(f"{name} double" for name in NUMBERS)
    schema = f"user_idx long, item_idx long, agrees boolean, {numbers}, reasons array<struct<{reason}>>"
    explained = layout.memory_table(True, state, partial(_block_rows, n_blocks=layout.users.n_blocks), schema)
    disagreeing = int(state.sums["disagreeing"])
    if disagreeing:  # other ratings would explain another preference
        example = _with_ids(fitted, layout, explained.where("not agrees").limit(1), ["implied", "fitted"]).collect()[0]
        raise DataError(
            f"the ratings are not those that the model was fitted with: they make the preference of user "
            f"{cut(example['user_id'])} for item {cut(example['item_id'])} {example['implied']:.4g}, and the model has "
            f"{example['fitted']:.4g} ({disagreeing} such pairs); give all ratings of these users, as in the fit or in "
            "their fold-in, and no others"
        )
    return explained


def _block_rows(block: int, memory: Arrays, *, n_blocks: int) -> pa.RecordBatch:
    reasons = [pa.array(memory[name]) for name in ("reason_idx", "rating", "contribution")]
    offsets = np.concatenate([[0], np.cumsum(memory["n_reasons"])])
    columns = {
        "user_idx": pa.array(memory["row"] * n_blocks + block),
        "item_idx": pa.array(memory["item_idx"]),
        "agrees": pa.array(memory["agrees"]),
        **{name: pa.array(memory[name]) for name in NUMBERS},
        "reasons": pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(reasons, list(REASON))
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


def _with_ids(
    fitted: FittedOutcome, layout: Layout, explained: DataFrame, further: list[str] | None = None
) -> DataFrame:
    intercept = fitted.family.shared_numbers(fitted.facts.shared).intercept
    user_id = F.col("id").cast(fitted.users.schema["id"].dataType).alias("user_id")
    item_ids = fitted.items.select(F.col("idx").alias("item_idx"), F.col("id").alias("item_id"))
    named = look_up(explained, ["user_idx", "item_idx"], "item_idx", item_ids)
    named = named.join(layout.user_ids.select(F.col("idx").alias("user_idx"), user_id), "user_idx")
    return named.join(item_ids, "item_idx").select(
        *PAIR,
        (F.col("preference") + F.col("confounder") + F.lit(intercept)).alias("score"),
        "preference",
        "confounder",
        F.lit(intercept).alias("intercept"),
        *PARTS[2:],
        F.transform("reasons", plain_reason).alias("reasons"),
        "others",
        *(further or []),
    )


def plain_reason(entry: Column) -> Column:
    """Return the item, the rating and the contribution of a reason."""
    return F.struct(*[entry[name].alias(name) for name in ("item_id", "rating", "contribution")])


def explain_block(
    inputs: KernelInput, *, explainer: Explainer, reasons: int, size: tuple[int, int], tolerance: float
) -> Update:
    """Explain the wanted pairs of one block of users, which holds them as held-out ones: their items are in the inbox.

    Memory: of each pair its row, item (idx) and the parts of its score, of each reason item, rating and contribution.
    reasons : of each pair at most. size : rows and blocks of the items. tolerance : see AGREEMENT.
    """
    block, pairs = inputs.block, inputs.block.held_out
    item = inbox_idx(inputs, size)
    wanted = Wanted(pairs.row_ptr, pairs.col, reasons, item[block.fitted.col])
    explanation = explainer(inputs, wanted)
    parts, row, rated = explanation.parts, rows_of(pairs.row_ptr), block.fitted
    # Whether the ratings imply the preference that the model has.
    sizes = [np.linalg.norm(factors, axis=1) for factors in (explanation.preference, explanation.attribute)]
    difference = np.abs(explanation.implied - explanation.fitted)
    agrees = np.asarray(difference <= tolerance * sizes[0][row] * sizes[1][pairs.col])
    linear = {name: explanation.linear.get(name, np.zeros(len(row))) for name in LINEAR}
    drawn = explanation.gamma[row] * pairs.value("a_hat") if pairs.has("a_hat") else 0.0
    memory = {
        **linear,
        "agrees": agrees,
        "row": row,
        "item_idx": item[pairs.col],
        "preference": parts.preference + linear["user_bias"] + linear["item_bias"] + linear["features"],
        "confounder": drawn + linear["composition"],
        "baseline": parts.baseline,
        "others": parts.others,
        "implied": explanation.implied,
        "fitted": explanation.fitted,
        "n_reasons": parts.n_reasons,
        "reason_idx": item[rated.col[parts.reason_at]],
        "rating": rated.value("rating")[parts.reason_at].astype(np.float64),
        "contribution": parts.contribution,
    }
    disagreeing = np.array(float((~agrees).sum()))
    return Update(np.empty((len(explanation.gamma), 0)), {"disagreeing": disagreeing}, memory)
