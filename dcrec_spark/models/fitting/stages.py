"""The stages of a fit and of a fold-in, over any layout: on the cluster and in one process alike.

    fit:      lay out -> fit_factors (exposures) -> attach_confounder -> fit_factors (ratings)
    fold in:  lay out -> fold_in (exposures)     -> attach_confounder -> fold_in (ratings)

A fit ends with the very step by which a fold-in finds new rows, so that a training user who is folded in with the
training ratings gets the fitted factors back. An estimator with the attribute ``checkpoints`` goes on where a fit with
the same settings and data was interrupted: its result is that of a fit that never was, beyond rounding.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pyspark.ml.param import Params
from pyspark.sql import DataFrame

from dcrec_spark.engine.ascent import Fit, Moment, Past, Stopping, alternate
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.engine.sides import State
from dcrec_spark.models.families.base import Family, OnItsWay
from dcrec_spark.models.fitting.checks import require_same_ids, start_from_strangers
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptSweep:
    """A stage after one of its sweeps.

    past : of the fit, up to that sweep. shared : what all pairs share, as JSON holds it.
    tables : of both sides, "users" and "items": ``id``, the family's columns, and what momentum starts from.
    """

    past: Past
    shared: Mapping[str, Any]
    tables: Mapping[str, DataFrame]


class FitCheckpoints(Protocol):
    """Where sweeps are kept, for one fit of both stages."""

    def is_due(self, stage: str, is_last: bool) -> bool:
        """Whether the sweep that a stage has just made is to be kept."""

    def keep(self, stage: str, sweep: KeptSweep) -> None:
        """Keep a sweep in place of the stage's earlier ones."""

    def kept(self, stage: str) -> KeptSweep | None:
        """Return the sweep that an interrupted fit has left of a stage."""


def _resume(checkpoints: FitCheckpoints, family: Family, layout: Layout, resources: FitResources) -> Moment | None:
    """Return where an interrupted fit of this stage has been, on these blocks. None where there was none."""
    kept = checkpoints.kept(family.stage)
    if kept is None:
        return None
    states = layout.place_both((kept.tables["users"], kept.tables["items"]), OnItsWay(family), resources)
    return Moment(*states, family.shared_from_json(kept.shared), kept.past)


def _keep_if_due(checkpoints: FitCheckpoints, family: Family, layout: Layout, most: int, moment: Moment) -> None:
    past, rows = moment.past, OnItsWay(family)
    if checkpoints.is_due(family.stage, past.converged or len(past.objective) >= most):
        users, items = (
            layout.table(is_user, state, rows, moment.shared).drop("idx")
            for is_user, state in ((True, moment.users), (False, moment.items))
        )
        kept = KeptSweep(past, family.shared_as_json(moment.shared), {"users": users, "items": items})
        checkpoints.keep(family.stage, kept)


def fit_factors(
    estimator: Params, family: Family, layout: Layout, listener: Listener, start: Moment | None = None
) -> Fit:
    """Fit one stage to the blocks: from where an interrupted fit has been, else ``start``, else the family's seed.

    Raises FitError: the objective moved the wrong way, or a factor is NaN or infinite.
    """
    get, after_sweep = estimator.getOrDefault, None
    stopping = Stopping(get("maxIter"), get("tol"), get("patience"), get("checkpointInterval"), get("precision"))
    checkpoints: FitCheckpoints | None = getattr(estimator, "checkpoints", None)
    with FitResources() as resources, layout.environment():
        # A fit with held-out rows keeps its best sweep, not its last, and begins anew.
        if checkpoints is not None and not layout.held_out:
            start = _resume(checkpoints, family, layout, resources) or start
            after_sweep = partial(_keep_if_due, checkpoints, family, layout, stopping.max_iter)
        return alternate(layout.users, layout.items, family.steps(layout), stopping, listener, start, after_sweep)


def warm_start(
    family: Family, layout: Layout, tables: tuple[DataFrame, DataFrame], shared: Any, resources: FitResources
) -> Moment:
    """Return the states of a fitted model on these blocks: known ids at its factors, new ones at the seed's.

    Raises ConfigError: their ids are of another kind.
    """
    ids = layout.user_ids, layout.item_ids
    for side, given, table in zip(("user", "item"), ids, tables, strict=True):
        require_same_ids(side, given, table)
    if (strangers := start_from_strangers(ids, tables)) is not None:
        _log.warning("%s: %s", family.stage, strangers)
    return Moment(*layout.place_both(tables, family, resources), shared)


def fold_in(
    layout: Layout, new_is_user: bool, fitted_table: Any, family: Family, shared: Any, resources: FitResources
) -> Mapping[bool, State]:
    """States of the users (True) and of the items (False): one side as it was fitted, the new one from its pairs.

    fitted_table : the other side's, of the layout's kind.
    """
    steps = family.steps(layout)
    sides = {True: layout.users, False: layout.items}
    with layout.environment():
        memory = resources.add(layout.place(not new_is_user, fitted_table, family))
        fitted = resources.add(sides[not new_is_user].half_step(steps.start(not new_is_user), previous=memory))
        new = resources.add(sides[new_is_user].half_step(steps.converge(shared, new_is_user), fitted))
    return {new_is_user: new, not new_is_user: fitted}
