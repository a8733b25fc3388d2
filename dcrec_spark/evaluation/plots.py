"""Pictures of the predictive check, as matplotlib Figures: the caller saves them, ``figure.savefig("check.svg")``.

Backgrounds are transparent and the ink is a grey that stands out from white and from black, so that one picture serves
light and dark pages. No pyplot, whose figures are shared by the whole process.
"""

from collections.abc import Sequence

from dcrec_spark.errors import require_extra

require_extra("report")

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dcrec_spark.models.exposure.predictive_check import PredictiveCheck

INK = "#808080"
FILL = "#4c8dd6"
ACCENT = "#d0661f"


def plot_predictive_check(check: PredictiveCheck, bins: int = 20) -> Figure:
    """Draw a predictive check: users' p-values, flat where all is well, and the real log-likelihood among replicated.

    Parameters
    ----------
    check : PredictiveCheck
        As ``PoissonFactorizationModel.predictiveCheck`` gives it.
    bins : int
        Bars of the histogram of p-values.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels, 9 by 3.6 inches.
    """
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    figure.patch.set_alpha(0.0)
    users, overall = figure.subplots(1, 2)
    draw_p_values(users, check, check.histogram(bins))
    draw_log_likelihoods(overall, check)
    figure.suptitle(f"Exposure predictive check ({check.verdict})", color=INK, fontsize=11)
    return figure


def draw_p_values(axes: Axes, check: PredictiveCheck, counts: Sequence[int]) -> None:
    """Draw how many users' p-values lie in each of ``len(counts)`` equal parts of 0 to 1."""
    bins = len(counts)
    axes.bar(np.arange(bins) / bins, counts, width=1.0 / bins, align="edge", color=FILL, edgecolor="none")
    level = check.numUsers / bins
    axes.axhline(level, color=ACCENT, linewidth=1.5)
    axes.annotate("uniform", (1.0, level), (2, 0), textcoords="offset points", color=ACCENT, fontsize=9, va="center")
    axes.set_xlim(0.0, 1.0)
    axes.set_xlabel("p-value")
    axes.set_ylabel("users")
    axes.set_title(f"{check.numUsers:,} users, mean {check.meanUserPValue:.2f}", fontsize=10)
    dress(axes)


def draw_log_likelihoods(axes: Axes, check: PredictiveCheck) -> None:
    """Draw the real log-likelihood among the replicated ones, per held-out exposure."""
    each = 1.0 / check.n
    axes.hist(check.replicated * each, bins=20, color=FILL, edgecolor="none", label="replicated")
    axes.axvline(check.logLikelihood * each, ymax=0.8, color=ACCENT, linewidth=2.0, label="real")
    axes.margins(x=0.08)
    axes.set_ylim(0.0, axes.get_ylim()[1] * 1.25)  # room for the legend
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set_xlabel("log-likelihood per held-out exposure")
    axes.set_ylabel("replications")
    figures = f"p {check.pValue:.3f}, spread {check.spreadPValue:.3f}"
    axes.set_title(f"{check.n:,} held-out exposures, {figures}", fontsize=10)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, ncols=2, loc="upper center")
    dress(axes)


def dress(axes: Axes) -> None:
    """Take away the background and two spines, and set the rest in the one ink."""
    axes.patch.set_alpha(0.0)
    axes.tick_params(colors=INK, labelsize=9)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_color(INK)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(INK)
