"""The scoring vectors of rows in this process: those of :mod:`dcrec_spark.models.outcome.vectors`, by NumPy."""

import numpy as np
import pyarrow as pa

from dcrec_spark.engine.cells import Array
from dcrec_spark.kernels.exposure import PLAIN, Form
from dcrec_spark.models.fitting.factors import list_array, matrix_of


def vectors_here(factors: pa.Table, is_user: bool, has_biases: bool, form: Form) -> pa.Table:
    """Return ``idx, id, preference, confounder`` of the rows of a table of fitted users or items, to the last bit."""
    n_rows = factors.num_rows
    preference = _matrix(factors, "features")
    if has_biases:
        bias, one = _matrix(factors, "bias"), np.ones((n_rows, 1))
        preference = np.hstack([preference, *((bias, one) if is_user else (one, bias))])
    confounder = _matrix(factors, "exposure_shape") / _matrix(factors, "exposure_rate")
    if not form.is_low_rank:
        last = _matrix(factors, "gamma") if is_user else np.zeros((n_rows, 1))
        confounder = np.hstack([confounder, last])
    elif form != PLAIN:
        confounder = np.hstack([confounder, np.full((n_rows, 1), -form.mean if is_user else 1.0)])
    if form.is_low_rank and is_user:
        confounder = confounder * _matrix(factors, "gamma") / form.scale
    parts = {"preference": list_array(preference), "confounder": list_array(confounder)}
    return pa.table({"idx": factors["idx"], "id": factors["id"], **parts})


def _matrix(factors: pa.Table, name: str) -> Array:
    """Return a column as (n, F); of single numbers (n, 1)."""
    if pa.types.is_floating(factors[name].type):
        return np.asarray(factors[name].to_numpy())[:, None]
    return matrix_of(factors[name]) if factors.num_rows else np.empty((0, 0))
