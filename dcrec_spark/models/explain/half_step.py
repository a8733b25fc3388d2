"""The half-step that explains: each block of users leaves, in place of rows, what its wanted pairs are made of.

The blocks hold the wanted pairs as held-out ones, so that the factors of their items are in the inbox.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from dcrec_spark.engine.blocks import Block, index_at
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.kernels.explain import Wanted
from dcrec_spark.models.families.base import BlockExplanation, Explainer

# How far what the given ratings imply may be from what the model has, relative to |theta| |beta|: the precision of the
# fit, not of the explanation.
AGREEMENT = {"float64": 1e-4, "float32": 1e-2}


@dataclass(frozen=True)
class Request:
    """How the wanted pairs are explained.

    reasons : of each pair at most. n_items, item_blocks : the other side. tolerance : see AGREEMENT.
    """

    reasons: int
    n_items: int
    item_blocks: int
    tolerance: float


def explaining(explainer: Explainer, request: Request) -> Kernel:
    """Make the kernel of a users' half-step whose memories are explanations: see :func:`_memory_of`.

    The users' memory is what the model has of them. The source is its items, with their means.
    """
    return partial(explain_block, explainer=explainer, request=request)


def explain_block(inputs: KernelInput, *, explainer: Explainer, request: Request) -> Update:
    """Explain the wanted pairs of one block, by the family's explainer."""
    block, pairs = inputs.block, inputs.block.held_out
    item = index_at(request.n_items, request.item_blocks, block.need_at)
    wanted = Wanted(pairs.row_ptr, pairs.col, request.reasons, item[block.fitted.col])
    explanation = explainer(inputs, wanted)
    row = np.repeat(np.arange(len(explanation.gamma)), np.diff(pairs.row_ptr))
    memory = _memory_of(block, explanation, row, item)
    memory["agrees"] = _agrees(explanation, row, pairs.col, request.tolerance)
    disagreeing = np.array(float((~memory["agrees"]).sum()))
    return Update(np.empty((len(explanation.gamma), 0)), {"disagreeing": disagreeing}, memory)


def _agrees(explanation: BlockExplanation, row: Array, col: Array, tolerance: float) -> Array:
    """Whether the ratings imply the preference that the model has, of each pair."""
    sizes = [np.linalg.norm(factors, axis=1) for factors in (explanation.preference, explanation.attribute)]
    difference = np.abs(explanation.implied - explanation.fitted)
    return np.asarray(difference <= tolerance * sizes[0][row] * sizes[1][col])


def _memory_of(block: Block, explanation: BlockExplanation, row: Array, item: Array) -> dict[str, Array]:
    """Of each wanted pair its row, item (idx), the parts of its score, of each reason item (idx), rating, contribution.

    row : (P,) of each pair. item : (m,) idx of the rows of the inbox.
    """
    parts, pairs, rated = explanation.parts, block.held_out, block.fitted
    none = np.zeros(len(row))
    composition = none if explanation.composition is None else explanation.composition
    features = none if explanation.features is None else explanation.features
    drawn = explanation.gamma[row] * pairs.value("a_hat") if pairs.has("a_hat") else none
    user_bias = none if explanation.user_bias is None else explanation.user_bias[row]
    item_bias = none if explanation.item_bias is None else explanation.item_bias[pairs.col]
    return {
        "row": row,
        "item_idx": item[pairs.col],
        "preference": parts.preference + user_bias + item_bias + features,
        "user_bias": user_bias,
        "item_bias": item_bias,
        "confounder": drawn + composition,
        "composition": composition,
        "features": features,
        "baseline": parts.baseline,
        "others": parts.others,
        "implied": explanation.implied,
        "fitted": explanation.fitted,
        "n_reasons": parts.n_reasons,
        "reason_idx": item[rated.col[parts.reason_at]],
        "rating": rated.value("rating")[parts.reason_at].astype(np.float64),
        "contribution": parts.contribution,
    }
