"""Whether a fit has settled, and what to do where it has not."""

from collections.abc import Sequence


def has_settled(objective: Sequence[float], tol: float) -> bool:
    """Whether the objective moved by less than ``tol``, relatively, in the last iteration."""
    return len(objective) > 1 and abs(_last_change(objective)) < tol


def unsettled(stage: str, objective: Sequence[float], tol: float) -> str | None:
    """One sentence on a fit that stopped before its objective settled; None where there is nothing to say.

    Parameters
    ----------
    stage : exposure or outcome, the section of the settings.
    objective : its value after each iteration.
    tol : the relative change below which it counts as settled; 0 asks for a fixed number of iterations.
    """
    if tol == 0 or not objective or has_settled(objective, tol):
        return None
    iterations = f"{len(objective)} iteration{'s' if len(objective) > 1 else ''}"
    advice = f"raise {stage}.max_iter, or {stage}.tol if this is near enough"
    if len(objective) == 1:
        return f"{stage} stopped after {iterations}, too few to see whether its objective has settled: {advice}"
    change = _last_change(objective)
    way = "rising" if change > 0 else "falling"
    share = f"{100 * abs(change):.2g} % an iteration"
    return f"{stage} stopped after {iterations}, its objective still {way} by {share}: {advice}"


def _last_change(objective: Sequence[float]) -> float:
    before, last = objective[-2:]
    return (last - before) / abs(before) if before else 0.0
