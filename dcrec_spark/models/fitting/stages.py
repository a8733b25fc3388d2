"""The stages of a fit and of a fold-in, over any layout: on the cluster and in one process alike.

    fit:      lay out -> fit_factors (exposures) -> attach_confounder -> fit_factors (ratings)
    fold in:  lay out -> fold_in (exposures)     -> attach_confounder -> fold_in (ratings)

A fit ends with the very step by which a fold-in finds new rows, so that a training user who is folded in with the
training ratings gets the fitted factors back.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.ml.param import Params

from dcrec_spark.engine.ascent import Fit, Start, Stopping, alternate
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.engine.sides import State
from dcrec_spark.models.families.base import Family
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.resumption import resumption_of


def stopping(estimator: Params) -> Stopping:
    """When a fit ends, by an estimator's parameters."""
    get = estimator.getOrDefault
    return Stopping(get("maxIter"), get("tol"), get("patience"), get("checkpointInterval"), get("precision"))


def fit_factors(
    estimator: Params, family: Family, layout: Layout, listener: Listener, start: Start | None = None
) -> Fit:
    """Fit one stage to the blocks.

    start : where the fit begins, without it, at the family's seed. An interrupted fit whose estimator has
        ``checkpoints`` continues instead.

    Raises FitError: the objective moved the wrong way, or a factor is NaN or infinite.
    """
    resumption, steps = resumption_of(estimator, family, layout), family.steps(layout)
    with FitResources() as resources, layout.environment():
        resumed = None if resumption is None else resumption.start(resources)
        after_sweep = None if resumption is None else resumption.after_sweep
        begin = resumed or start
        return alternate(layout.users, layout.items, steps, stopping(estimator), listener, begin, after_sweep)


def warm_start(family: Family, layout: Layout, users: Any, items: Any, shared: Any, resources: FitResources) -> Start:
    """Return the states of a fitted model on these blocks: known ids at its factors, new ones at the seed's.

    users, items : the fitted model's tables, of the layout's kind. shared : the terms that its pairs share.
    """
    # Where a side's rows say all, a fit begins with the users: it needs the items alone.
    remembers = family.steps(layout).remembers
    user_state = resources.add(layout.place(True, users, family)) if remembers else None
    return Start(user_state, resources.add(layout.place(False, items, family)), shared)


def fold_in(
    layout: Layout, new_is_user: bool, fitted_table: Any, family: Family, shared: Any, resources: FitResources
) -> Mapping[bool, State]:
    """States of the users (True) and of the items (False): one side as it was fitted, the new one from its pairs.

    new_is_user : whether users are folded in, by pairs with known items, or items.
    fitted_table : the other side's table, of the layout's kind. shared : the terms that all pairs share.
    """
    steps = family.steps(layout)
    sides = {True: layout.users, False: layout.items}
    with layout.environment():
        memory = resources.add(layout.place(not new_is_user, fitted_table, family))
        start = steps.start_items() if new_is_user else steps.start_users()
        fitted = resources.add(sides[not new_is_user].half_step(start, previous=memory))
        new = resources.add(sides[new_is_user].half_step(steps.converge(shared, new_is_user), fitted))
    return {new_is_user: new, not new_is_user: fitted}
