"""Draws what was measured beside peers, from benchmarks/results, for the documentation.

python -m benchmarks.plots      writes docs/img/benchmarks.svg; make bench does so, too
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dcrec_spark.plots.panels import ACCENT, FILL, INK, style

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parent.parent / "docs" / "img" / "benchmarks.svg"


class Row(NamedTuple):
    """What was compared: a result, one of its ratios, and what was wanted."""

    name: str
    result: str
    ratio: str
    wanted: float


ROWS = (
    Row("classical fit, 100K / MLlib", "whole-fits-100k:rank 50", "float64 / MLlib", 0.3),
    Row("classical fit, 1M / MLlib", "whole-fits-1m", "float64 / MLlib", 0.4),
    Row("classical fit, 10M / MLlib", "whole-fits-10m", "float64 / MLlib", 0.3),
    Row("classical fit, 1M / implicit", "whole-fits-1m", "float64 / implicit", 1.2),
    Row("classical fit, 10M / implicit", "whole-fits-10m", "float64 / implicit", 1.0),
    Row("stage 1, 1M / hpfrec", "exposure-whole-1m", "ours / hpfrec", 0.3),
    Row("top 10, seen left out, 1M / MLlib", "top-n-1m", "seen left out / MLlib", 0.4),
    Row("top 10, seen left out, 10M / MLlib", "top-n-10m", "seen left out / MLlib", 0.4),
    Row("fold-in, 1M / a sweep", "fold-in-1m", "fold-in / sweep", 2.0),
    Row("a night, 1M / a script with MLlib", "night-1m", "deconfounded / script", 2.0),
)
SIZES = {"whole-fits-100k:rank 50": 1e5, "whole-fits-1m": 1e6, "whole-fits-10m": 1e7}
LINES = {"float64": "ours", "float32": "ours, float32", "MLlib": "MLlib's ALS", "implicit": "implicit"}


def found(result: str) -> dict[str, dict[str, list[float]]] | None:
    """Read a result, or a part of one behind a colon; None where it was not measured."""
    name, _, part = result.partition(":")
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    read = json.loads(path.read_text())
    return read[part] if part else read


def draw(path: Path = PICTURE) -> Path:
    """Save ratios with their spread and what was wanted, and how seconds grow with the ratings."""
    figure = Figure(figsize=(10.0, 3.8), layout="constrained")
    figure.patch.set_alpha(0.0)
    ratios, growth = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_ratios(ratios, [row for row in ROWS if found(row.result)])
    _draw_growth(growth)
    for axes in (ratios, growth):
        style(axes)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    return path


def _draw_ratios(axes: Axes, rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        result = found(row.result)
        assert result is not None
        ratios = sorted(result["ratios"][row.ratio])
        axes.plot([ratios[0], ratios[-1]], [place, place], color=ACCENT, linewidth=2)
        axes.plot(ratios[len(ratios) // 2], place, "o", color=ACCENT, markersize=6)
        axes.plot(row.wanted, place, "|", color=INK, markersize=12)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color=FILL, linewidth=1, zorder=0)
    axes.set_xticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    axes.minorticks_off()
    axes.set_title("seconds of ours / seconds of the peer; | what was wanted", fontsize=10)


def _draw_growth(axes: Axes) -> None:
    for key, name in LINES.items():
        points = [(n, result["seconds"][key]) for name_, n in SIZES.items() if (result := found(name_))]
        style = {"color": ACCENT if name.startswith("ours") else INK, "linestyle": "-" if key == "float64" else "--"}
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, **style)
        axes.annotate(
            name,
            points[-1],
            (4, 5 * (key == "MLlib") - 4 * (key == "implicit")),
            textcoords="offset points",
            fontsize=8,
            va="center",
            color=INK,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.25)
    axes.set_title("seconds of a classical fit by ratings", fontsize=10)


if __name__ == "__main__":
    print(draw())
