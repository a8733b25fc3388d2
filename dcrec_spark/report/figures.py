"""Pictures of the report, one panel each, so that a phone shows them one below the other and large enough to read.

One bar alone would fill its panel and say nothing: where :func:`has_one_bar` is true, the report says it in words.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dcrec_spark.evaluation.distributions import Histogram, Reliability
from dcrec_spark.evaluation.plots import ACCENT, FILL, INK, draw_log_likelihoods, draw_p_values, dress
from dcrec_spark.evaluation.ranking_change import RankingChange
from dcrec_spark.report.facts import CheckFacts, Stage, rows_of

SIZE = (4.1, 2.8)
_MOVE_BARS = 24
# The axis reaches so many places to either side at least: with fewer a single bar would fill the panel.
_LEAST_MOVE = 5


def panel(draw: Callable[[Axes], None], size: tuple[float, float] = SIZE) -> Figure:
    """Figure of one panel, drawn and dressed."""
    figure = Figure(figsize=size, layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots()
    draw(axes)
    dress(axes)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_fontsize(10)
    return figure


def has_one_bar(counts: pd.DataFrame) -> bool:
    """Whether all that is counted falls into one bar.

    Examples
    --------
    >>> has_one_bar(pd.DataFrame({"low": [1, 2], "n": [0, 9]})), has_one_bar(pd.DataFrame({"low": [1, 2], "n": [3, 9]}))
    (True, False)
    """
    return int((counts.n > 0).sum()) < 2


def distribution(values: Histogram, x: str, y: str, zero: bool = False) -> Figure:
    """Bars of a histogram; ``zero`` marks where 0 is."""

    def draw(axes: Axes) -> None:
        bars = values.bars
        if (bars.low == bars.high).all():
            gap = float(bars.low.diff().min()) if len(bars) > 1 else 1.0
            axes.bar(bars.low, bars.n, width=0.8 * gap, color=FILL)
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=bool((bars.low % 1 == 0).all())))
        else:
            axes.bar(bars.low, bars.n, width=bars.high - bars.low, align="edge", color=FILL)
            axes.xaxis.set_major_locator(MaxNLocator(6))
        if zero and values.lowest < 0 < values.highest:
            axes.axvline(0.0, color=ACCENT, linewidth=1.5)
        _label(axes, x, y)

    return panel(draw)


def powers(counts: pd.DataFrame, x: str, y: str) -> Figure:
    """Bars for 1, 2 to 3, 4 to 7, ..., each called by its lower end."""

    def draw(axes: Axes) -> None:
        places = np.arange(len(counts))
        axes.bar(places, counts.n, width=0.85, color=FILL)
        axes.set_xticks(places, [f"{low:,}" if low < 10_000 else f"{low // 1000:,}k" for low in counts.low])
        if len(counts) > 9:
            axes.tick_params(axis="x", rotation=45)
        _label(axes, x, y)

    return panel(draw)


def objective(stage: Stage) -> Figure:
    """Objective after each iteration."""

    def draw(axes: Axes) -> None:
        iterations = np.arange(1, len(stage.values) + 1)
        axes.plot(iterations, stage.values, color=FILL, linewidth=2, marker="o", markersize=3)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.ticklabel_format(axis="y", useOffset=False, style="plain")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        _label(axes, "iteration", stage.objective, counts=False)

    return panel(draw)


def settling(stage: Stage) -> Figure:
    """Relative change of the objective by each iteration, and where a fit counts as settled."""

    def draw(axes: Axes) -> None:
        changes = relative_changes(stage)
        axes.plot(np.arange(2, 2 + len(changes)), changes, color=FILL, linewidth=2, marker="o", markersize=3)
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if stage.tol > 0:
            axes.axhline(stage.tol, color=ACCENT, linewidth=1.5)
            axes.annotate(
                f"tol {stage.tol:g}",
                (0.02, stage.tol),
                (0, 3),
                textcoords="offset points",
                color=ACCENT,
                fontsize=9,
                xycoords=axes.get_yaxis_transform(),
            )
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _label(axes, "iteration", "relative change", counts=False)

    return panel(draw)


def relative_changes(stage: Stage) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Relative change of the objective by each iteration but the first, (iterations - 1,).

    No change at all becomes 1e-16, as a logarithmic axis has no 0.
    """
    values = np.asarray(stage.values, dtype=np.float64)
    changes: np.ndarray[tuple[int], np.dtype[np.float64]] = np.abs(np.diff(values)) / np.abs(values[:-1])
    return np.maximum(changes, 1e-16)


def p_values(check: CheckFacts) -> Figure:
    """Histogram of the users' p-values."""
    return panel(lambda axes: draw_p_values(axes, check.result, check.p_values))


def log_likelihoods(check: CheckFacts) -> Figure:
    """Real log-likelihood among the replicated ones."""
    return panel(lambda axes: draw_log_likelihoods(axes, check.result))


def forest(rows: pd.DataFrame, x: str, zero: bool = False) -> Figure:
    """Draw a dot and its interval for each model, the first on top and in another colour.

    rows : model, value, low, high. zero : whether a line marks 0, for differences, of which none is the first.
    """

    def draw(axes: Axes) -> None:
        places = -np.arange(len(rows))
        for place, row in zip(places, rows_of(rows), strict=True):
            colour = ACCENT if place == 0 and not zero else FILL
            if np.isfinite(row.low) and np.isfinite(row.high):
                axes.plot([row.low, row.high], [place, place], color=colour, linewidth=2.5)
            axes.plot([row.value], [place], "o", color=colour, markersize=6)
        if zero:
            axes.axvline(0.0, color=ACCENT, linewidth=1.5)
        axes.set_yticks(places, rows.model)
        axes.set_ylim(-len(rows) + 0.4, 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="x", color=INK, alpha=0.25, linewidth=0.6)
        axes.set_xlabel(x)

    return panel(draw, (SIZE[0], 1.0 + 0.3 * len(rows)))


def reliability(binned: Reliability) -> Figure:
    """Mean rating over mean prediction; the area of a dot goes with the number of ratings."""

    def draw(axes: Axes) -> None:
        bins = binned.bins
        both = pd.concat([bins.prediction, bins.rating])
        ends = [float(both.min()), float(both.max())]
        axes.plot(ends, ends, color=ACCENT, linewidth=1.5, linestyle="--")
        axes.plot(bins.prediction, bins.rating, color=FILL, linewidth=1)
        axes.scatter(bins.prediction, bins.rating, s=8 + 90 * bins.n / bins.n.max(), color=FILL, zorder=3)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_locator(MaxNLocator(6))
        _label(axes, "mean prediction", "mean rating", counts=False)

    return panel(draw)


def replaced(change: RankingChange) -> Figure:
    """Users by how many new items they have."""

    def draw(axes: Axes) -> None:
        axes.bar(change.replaced.replaced, change.replaced.users, width=0.85, color=FILL)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        _label(axes, f"items of the first {change.k} that are new", "users")

    return panel(draw)


def moves(change: RankingChange) -> Figure:
    """By how many places the items of the new lists rose or fell; those from beyond the old lists on the right."""

    def draw(axes: Axes) -> None:
        reached = [-_LEAST_MOVE, _LEAST_MOVE, *change.moves.move]
        lowest, highest = min(reached), max(reached)
        width = 2 * ((highest - lowest) // (2 * _MOVE_BARS)) + 1  # odd, so that the bar around 0 is centred
        first, last = ((end + (width // 2)) // width for end in (lowest, highest))
        edges = (np.arange(first, last + 2) - 0.5) * width
        counts = np.histogram(change.moves.move, edges, weights=change.moves.n)[0]
        axes.bar(edges[:-1], counts, width=width, align="edge", color=FILL)
        if change.entered:
            at = float(edges[-1]) + 1.5 * width
            axes.bar([at], [change.entered], width=1.5 * width, color=ACCENT)
            axes.annotate(
                "beyond",
                (at, change.entered),
                (0, 3),
                textcoords="offset points",
                color=ACCENT,
                fontsize=9,
                ha="center",
            )
            axes.margins(y=0.1)
        ticks = MaxNLocator(7, integer=True).tick_values(lowest, highest)
        axes.set_xticks([tick for tick in ticks if edges[0] <= tick <= edges[-1]])
        _label(axes, "places gained (right) or lost (left)", "listed items")

    return panel(draw)


def _label(axes: Axes, x: str, y: str, counts: bool = True) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if counts:
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value < 1e6 else f"{value / 1e6:g}M")


def headline(estimates: pd.DataFrame, measure: str, models: Sequence[str]) -> pd.DataFrame:
    """Select the rows of :func:`forest` for one measure, in the order of ``models``, without those that lack it."""
    rows = estimates[estimates.measure == measure].set_index("model")
    return rows.reindex([name for name in models if name in rows.index]).reset_index()
