"""What to say of a fit that stopped before it settled."""

from collections.abc import Sequence


def unsettled(stage: str, objective: Sequence[float], tol: float) -> str | None:
    """One sentence on a fit that did not converge, with its remedy; None where there is nothing to say.

    Parameters
    ----------
    stage : exposure or outcome, the section of the settings.
    objective : its value after each iteration.
    tol : the relative change below which it counts as settled; 0 asks for a fixed number of iterations.
    """
    if tol == 0 or not objective:
        return None
    iterations = f"{len(objective)} iteration{'s' if len(objective) > 1 else ''}"
    advice = f"raise {stage}.max_iter, or {stage}.tol if this is near enough"
    if len(objective) == 1:
        return f"{stage} stopped after {iterations}, too few to see whether its objective has settled: {advice}"
    before, last = objective[-2:]
    change = (last - before) / abs(before)
    way = "rising" if change > 0 else "falling"
    share = f"{100 * abs(change):.2g} % an iteration"
    return f"{stage} stopped after {iterations}, its objective still {way} by {share}: {advice}"
