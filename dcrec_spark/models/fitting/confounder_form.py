"""The form of the confounder that a fit finds: its mean and its spread, so that the prior of gamma means the same."""

from functools import partial

import numpy as np

from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.kernel_input import KernelInput, Update
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import DataError
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.families.base import ExposureTerm
from dcrec_spark.models.fitting.exposure_term import a_hats
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout


def fit_form(
    layout: Layout, users: State, items: State, user_memory: State, term: ExposureTerm, resources: FitResources
) -> Form:
    """Find mean and standard deviation of the confounder: of a_hat over all pairs, exactly, of a link over the rated.

    Parameters
    ----------
    users, items : both sides' means as :func:`dcrec_spark.models.fitting.exposure_term.sent` sends them.
    user_memory : a state whose memories hold shape and rate of the users' exposure factors.

    Raises
    ------
    DataError : the confounder is the same for all pairs, so that it can't be brought to unit spread.
    """
    mean, square = _all_pairs(users.sums, items.sums, layout.n_pairs)
    form = Form(term.link, mean if term.link == "log" else 0.0)
    if not term.standardize:
        return form
    if not form.is_low_rank:
        moments = resources.add(
            layout.users.half_step(partial(linked_moments, term=term, form=form), items, user_memory)
        )
        count, total, squares = (float(moments.sums[name]) for name in ("count", "total", "squares"))
        mean, square = total / count, squares / count
    variance = square - mean**2
    if not variance > np.finfo(np.float64).eps * square:
        raise DataError(
            f"the confounder is {mean:.4g} for all pairs, so it can't be standardised: fit with adjustment=none, or "
            "with another exposure model"
        )
    return form._replace(mean=mean, scale=float(np.sqrt(variance)))


def _all_pairs(users: Arrays, items: Arrays, n_pairs: float) -> tuple[float, float]:
    """Return mean and second moment of a_hat over all pairs."""
    mean = float(users["total"] @ items["total"]) / n_pairs
    return mean, float(np.vdot(users["second"], items["second"])) / n_pairs


def linked_moments(inputs: KernelInput, *, term: ExposureTerm, form: Form) -> Update:
    """Add up f(a_hat) and its square over the pairs of the fit."""
    pairs = inputs.block.fitted
    linked = form.linked(a_hats(inputs, pairs, term, is_fitted=True))
    sums = {
        "count": np.array(float(len(linked))),
        "total": np.array(linked.sum()),
        "squares": np.array(linked @ linked),
    }
    return Update(np.empty((len(inputs.block.row_key), 0)), sums, {})
