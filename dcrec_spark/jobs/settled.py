"""How the fit of a stage ended, and what to say of one that stopped before it settled."""

from collections.abc import Sequence
from typing import NamedTuple


class StageFit(NamedTuple):
    """The objective's name, its value after each iteration, and whether it settled."""

    objective: str
    values: Sequence[float]
    converged: bool


def unsettled(stage: str, fit: StageFit, tol: float) -> str | None:
    """Warn of a fit that did not converge, in one sentence with its remedy; None where there is nothing to say.

    Parameters
    ----------
    stage : exposure or outcome, the section of the settings.
    fit : how it ended.
    tol : the relative change below which the objective counts as settled; 0 asks for a fixed number of iterations.
    """
    values = fit.values
    if fit.converged or tol == 0 or not values:
        return None
    advice = f"raise {stage}.max_iter, or {stage}.tol if this is near enough"
    if len(values) == 1:
        return f"{stage} stopped after 1 iteration, too few to see whether {fit.objective} has settled: {advice}"
    before, last = values[-2:]
    way = "rising" if last > before else "falling"
    share = f"{100 * abs(last - before) / abs(before):.2g} % an iteration"
    return f"{stage} stopped after {len(values)} iterations, {fit.objective} still {way} by {share}: {advice}"
