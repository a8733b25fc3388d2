"""The demo's table as a picture: one panel for each kind of confounding."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dcrec_spark.plots.panels import ACCENT, FILL, INK, style
from examples.closeness import KINDS, Closeness
from studies.fair_simulation import Confounding


def draw_closeness(results: Mapping[str, Mapping[Confounding, Closeness]], path: Path) -> Path:
    """Save bars of the mean squared errors, a point for each draw, with the mean error of unseen pairs next to them."""
    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    figure.patch.set_alpha(0.0)
    panels = figure.subplots(1, len(KINDS), sharey=True)
    for axes, (kind, what) in zip(panels, KINDS.items(), strict=True):
        _draw_kind(axes, {name: of[kind] for name, of in results.items()})
        axes.set_title(what.replace("\n", " "), fontsize=10)
        style(axes)
    panels[0].invert_yaxis()
    figure.supxlabel("mean squared error on random pairs; next to it, mean error on unseen ones", color=INK, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _draw_kind(axes: Axes, rows: Mapping[str, Closeness]) -> None:
    for place, (name, close) in enumerate(rows.items()):
        colour = ACCENT if name == "deconfounded" else FILL
        axes.barh(place, close.squared_error.mean(), color=colour, height=0.6)
        axes.plot(close.squared_error, [place] * len(close.squared_error), "o", color=INK, markersize=3)
        right = float(close.squared_error.max())
        axes.annotate(
            f"{close.bias.mean():+.2f}",
            (right, place),
            (5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=INK,
        )
    axes.set_yticks(range(len(rows)), list(rows))
    axes.margins(x=0.15)
