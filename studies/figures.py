"""The paper's figures: a sweep's MSE or NDCG, one panel for each outcome model, a line for each adjustment.

Each as matplotlib draws it for light and dark pages alike; the band is a standard deviation over the runs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from dcrec_spark.report.figures import ACCENT, FILL, INK
from studies.compare import Cell
from studies.paper import ADJUSTMENTS, OUTCOMES

_COLOURS = dict(zip(ADJUSTMENTS, (INK, FILL, ACCENT), strict=True))
_MARKERS = dict(zip(ADJUSTMENTS, ("o", "s", "^"), strict=True))
_NAMES = dict(zip(ADJUSTMENTS, ("classical", "IPW", "deconfounded"), strict=True))
_AXES = {
    "preference": r"confounding of the preference, $g_\theta$",
    "outcome": r"confounding of the rating, $g_y$",
    "spread": "rate of the Gamma draws",
}
_METRICS = {"mse": "MSE", "ndcg": "NDCG"}


def sweep_figure(cells: Mapping[float, Sequence[Cell]], sweep: str, metric: str, choice: str, title: str) -> Figure:
    """cells : where the sweep stands -> the runs there."""
    figure = Figure(figsize=(10.0, 3.4), layout="constrained")
    figure.patch.set_alpha(0.0)
    for axes, outcome in zip(figure.subplots(1, len(OUTCOMES)), OUTCOMES, strict=True):
        axes.patch.set_alpha(0.0)
        for adjustment in ADJUSTMENTS:
            row = f"{outcome}-{adjustment}"
            runs = {
                at: [cell[choice]["metrics"][row][metric][0] for cell in of_point] for at, of_point in cells.items()
            }
            at = sorted(runs)
            mean = np.array([np.mean(runs[x]) for x in at])
            spread = np.array([np.std(runs[x], ddof=min(1, len(runs[x]) - 1)) for x in at])
            colour = _COLOURS[adjustment]
            axes.plot(at, mean, color=colour, marker=_MARKERS[adjustment], markersize=4, label=_NAMES[adjustment])
            axes.fill_between(at, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        axes.set_title(outcome, color=INK, fontsize=10)
        axes.set_xlabel(_AXES[sweep], color=INK, fontsize=9)
        axes.set_ylabel(_METRICS[metric], color=INK, fontsize=9)
        axes.tick_params(colors=INK, labelsize=8)
        for spine in axes.spines.values():
            spine.set_color(INK)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, labelcolor=INK, frameon=False)
    figure.suptitle(title, color=INK, fontsize=11)
    return figure
