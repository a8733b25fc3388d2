"""Panels of one picture each, as matplotlib Figures and as SVG for a page.

Backgrounds are transparent and the ink is a grey that is legible on white and on black. No pyplot, whose figures are
shared by the whole process. In a page the colours are the page's own, so that one picture serves light and dark.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dcrec_spark.evaluation.distributions import Histogram
from dcrec_spark.evaluation.result import Estimate
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck

INK, FILL, ACCENT = "#757575", "#4c8dd6", "#bd5814"
SIZE = (4.1, 2.8)
_VARIABLES = {INK: "var(--ink)", FILL: "var(--fill)", ACCENT: "var(--accent)"}


def inline_svg(figure: Figure, name: str, description: str) -> Markup:
    """Figure, drawn in INK, FILL and ACCENT, as an ``<svg>`` element.

    name : Unique on the page: ids inside the figure are hashed with it. description : Text for screen readers.
    """
    text = StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata=metadata)
    svg = text.getvalue().partition("<svg")[2].partition(">")[2]
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)  # nothing refers to these; ids that are referred to are hashes
    svg = re.sub(r"(font: [^;\"]*?px) [^;\"]*", r"\1 var(--font)", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, variable)
    width, height = (72 * inches for inches in figure.get_size_inches())
    return Markup(f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(description)}">{svg}')


def histogram(values: Histogram, x: str, y: str) -> Figure:
    """Bars of a histogram. A line marks 0 where values lie on both sides of it."""
    with panel() as (figure, axes):
        bars = values.bars
        if (bars.low == bars.high).all():
            width = 0.8 * (float(bars.low.diff().min()) if len(bars) > 1 else 1.0)
            axes.bar(bars.low, bars.n, width=width, color=FILL)
        else:
            axes.bar(bars.low, bars.n, width=bars.high - bars.low, align="edge", color=FILL)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        if values.lowest < 0 < values.highest:
            axes.axvline(0.0, color=ACCENT, linewidth=1.5)
        _label_counts(axes, x, y)
    return figure


def powers(counts: pd.DataFrame, x: str, y: str) -> Figure:
    """Bars for 1, 2 to 3, 4 to 7, ..., labelled by their lower ends. counts : low, high, n."""
    with panel() as (figure, axes):
        places = np.arange(len(counts))
        axes.bar(places, counts.n, width=0.85, color=FILL)
        axes.set_xticks(places, [f"{low:,}" if low < 10_000 else f"{low // 1000:,}k" for low in counts.low])
        if len(counts) > 9:
            axes.tick_params(axis="x", rotation=45)
        _label_counts(axes, x, y)
    return figure


def convergence(changes: Sequence[float], tol: float, objective: str) -> Figure:
    """Relative change of the objective by each iteration but the first, and the tolerance."""
    with panel() as (figure, axes):
        axes.plot(np.arange(2, 2 + len(changes)), changes, color=FILL, linewidth=2, marker="o", markersize=3)
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if tol > 0:
            axes.axhline(tol, color=ACCENT, linewidth=1.5, label=f"tol {tol:g}")
            axes.legend(frameon=False, fontsize=9, labelcolor=INK)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("iteration")
        axes.set_ylabel(f"relative change of {objective}")
    return figure


def drawn(draw: Callable[..., None], *given: object) -> Figure:
    """Draw one panel. draw : takes the axes and what is given."""
    with panel() as (figure, axes):
        draw(axes, *given)
    return figure


def plot_forest(rows: Mapping[str, Estimate], title: str, zero: bool = False) -> Figure:
    """Draw a dot and an interval for each row.

    rows : name -> an estimate, such as ``{name: metrics.estimates(name)["mse"] for name in metrics.scores}``.
    zero : the rows are differences, and a line marks 0.
    """
    with panel((SIZE[0], 1.0 + 0.3 * len(rows))) as (figure, axes):
        places = -np.arange(len(rows))
        for place, estimate in zip(places, rows.values(), strict=True):
            colour = ACCENT if place == 0 and not zero else FILL
            if estimate.ci_low is not None and estimate.ci_high is not None:
                axes.plot([estimate.ci_low, estimate.ci_high], [place, place], color=colour, linewidth=2.5)
            axes.plot([estimate.value], [place], "o", color=colour, markersize=6)
        if zero:
            axes.axvline(0.0, color=ACCENT, linewidth=1.5)
        axes.set_yticks(places, list(rows))
        axes.set_ylim(-len(rows) + 0.4, 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6)
        axes.set_xlabel(title)
    return figure


class Picture(Figure):
    """A figure that a notebook shows, without pyplot."""

    def _repr_svg_(self) -> str:
        text = StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "notebook"}):
            self.savefig(text, format="svg", metadata={"Date": None})
        return text.getvalue()


@contextmanager
def panel(size: tuple[float, float] = SIZE, panels: int = 1) -> Iterator[tuple[Picture, Any]]:
    """Make a figure of one panel, or of some side by side, to draw on, and style it at the end."""
    figure = Picture(figsize=size, layout="constrained")
    figure.patch.set_alpha(0.0)
    yield figure, figure.subplots(1, panels)
    for axes in figure.axes:
        style(axes)


def style(axes: Axes) -> None:
    """Remove the background and two spines, and draw the rest in one ink."""
    axes.patch.set_alpha(0.0)
    axes.tick_params(colors=INK, labelsize=9)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set(color=INK, fontsize=10)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(INK)


def _label_counts(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:g}M")


def draw_p_values(axes: Axes, check: PredictiveCheck, counts: Sequence[int]) -> None:
    """Draw the histogram of the users' p-values, and its level if they are uniform."""
    bins = len(counts)
    axes.bar(np.arange(bins) / bins, counts, width=1.0 / bins, align="edge", color=FILL, edgecolor="none")
    level = check.numUsers / bins
    axes.axhline(level, color=ACCENT, linewidth=1.5)
    axes.annotate("uniform", (1.0, level), (2, 0), textcoords="offset points", color=ACCENT, fontsize=9, va="center")
    axes.set_xlim(0.0, 1.0)
    axes.set(xlabel="p-value", ylabel="users", title=f"{check.numUsers:,} users, mean {check.meanUserPValue:.2f}")


def draw_log_likelihoods(axes: Axes, check: PredictiveCheck) -> None:
    """Draw the observed log-likelihood among the replicated ones."""
    axes.hist(check.replicated / check.n, bins=20, color=FILL, edgecolor="none", label="replicated")
    axes.axvline(check.logLikelihood / check.n, ymax=0.8, color=ACCENT, linewidth=2.0, label="observed")
    axes.margins(x=0.08)
    axes.set_ylim(0.0, axes.get_ylim()[1] * 1.25)  # room for the legend
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    title = f"{check.n:,} held-out exposures, p {check.pValue:.3f}, spread {check.spreadPValue:.3f}"
    axes.set(xlabel="log-likelihood per held-out exposure", ylabel="replications", title=title)
    axes.legend(frameon=False, fontsize=9, labelcolor=INK, ncols=2, loc="upper center")
