"""a_hat and propensities of the pairs of a block, with or without the pair's own exposure."""

import numpy as np

from dcrec_spark.engine.blocks import Pairs
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.kernels.csr import inner_products
from dcrec_spark.kernels.exposure import Posterior, leave_one_out
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.families.base import ExposureTerm

LEAVE_ONE_OUT = ExposureTerm(leave_one_out=True)


def sent(inputs: KernelInput, *, term: ExposureTerm) -> Update:
    """Send the exposure factors of a side to the other: posterior means, and what else a term needs.

    The sums hold the total and the second moments of the means, (L,) and (L, L).
    """
    mean = means_of(inputs)
    sums = {"total": mean.sum(axis=0, dtype=np.float64), "second": (mean.T @ mean).astype(np.float64)}
    return Update(posterior_of(inputs).rows() if term.leave_one_out else mean, sums, {})


def means_of(inputs: KernelInput) -> Floats:
    """Return the posterior means of the block's rows, whose memory holds shape and rate. (n, L)."""
    return np.asarray(inputs.memory["shape"] / inputs.memory["rate"])


def posterior_of(inputs: KernelInput) -> Posterior:
    """Return the posterior of the block's rows."""
    return Posterior.of(inputs.memory["shape"], inputs.memory["rate"])


def a_hats(inputs: KernelInput, pairs: Pairs, term: ExposureTerm, is_fitted: bool) -> Floats:
    """Return a_hat of some pairs, (nnz,): those of a fit without their own exposure, if the term says so."""
    if not (is_fitted and term.leave_one_out):
        return products(inputs, pairs, term)
    count = pairs.value("exposure_count").astype(np.float64)
    return leave_one_out(pairs.row_ptr, pairs.col, count, posterior_of(inputs), Posterior.of_rows(inputs.inbox))


def products(inputs: KernelInput, pairs: Pairs, term: ExposureTerm) -> Floats:
    """Return E[pi_u] . E[lambda_i] of some pairs, (nnz,)."""
    cols = np.ascontiguousarray(Posterior.of_rows(inputs.inbox).mean) if term.leave_one_out else inputs.inbox
    return inner_products(pairs.row_ptr, pairs.col, means_of(inputs), cols)


def propensities(inputs: KernelInput, pairs: Pairs, is_fitted: bool) -> Floats:
    """Return p = 1 - exp(-a_hat) of some pairs, (nnz,). The inbox is what the other side sends for LEAVE_ONE_OUT.

    is_fitted : whether they are rated, and p is without their own exposure.
    """
    return np.asarray(-np.expm1(-a_hats(inputs, pairs, LEAVE_ONE_OUT, is_fitted)))
