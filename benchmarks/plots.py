"""Pictures of what was measured against peers, from benchmarks/results, for the documentation.

python -m benchmarks.plots      writes docs/img/benchmarks.svg; make bench does so, too
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dcrec_spark.plots.panels import ACCENT, INK, style
from studies.drawing import save_drawing

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parent.parent / "docs" / "img" / "benchmarks.svg"


class Row(NamedTuple):
    """What was compared: a result, and the ratios of its seconds."""

    name: str
    result: str
    ratio: str


ROWS = (
    Row("fit without the confounder, 100K: MLlib", "whole-fits-100k:rank 50", "float32 / MLlib"),
    Row("fit without the confounder, 1M: MLlib", "whole-fits-1m", "float32 / MLlib"),
    Row("fit without the confounder, 10M: MLlib", "whole-fits-10m", "float32 / MLlib"),
    Row("fit without the confounder, 1M: implicit", "whole-fits-1m", "float32 / implicit"),
    Row("fit without the confounder, 10M: implicit", "whole-fits-10m", "float32 / implicit"),
    Row("both stages, converged, 1M: MLlib", "both-stages-1m", "float32 / MLlib"),
    Row("stage 1, 1M: hpfrec", "exposure-whole-1m", "ours / hpfrec"),
    Row("lists of ten, 1M: MLlib", "top-n-1m", "seen left out / MLlib"),
    Row("lists of ten, 10M: MLlib", "top-n-10m", "seen left out / MLlib"),
    Row("nightly run, both stages, 1M: script", "night-1m", "deconfounded / script"),
)
SIZES = {"whole-fits-100k:rank 50": 1e5, "whole-fits-1m": 1e6, "whole-fits-10m": 1e7}
LINES = {"float32": "ours", "float64": "ours, float64", "MLlib": "MLlib's ALS", "implicit": "implicit"}


def found(result: str) -> dict[str, dict[str, list[float]]] | None:
    """Read a result, or a part of one behind a colon; None where it was not measured."""
    name, _, part = result.partition(":")
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    read = json.loads(path.read_text())
    return read[part] if part else read


def draw(path: Path = PICTURE) -> Path:
    """Save how many times faster, with the spread, above how seconds grow with the ratings."""
    figure = Figure(figsize=(7.0, 6.4), layout="constrained")
    figure.patch.set_alpha(0.0)
    ratios, growth = figure.subplots(2, 1, height_ratios=(5, 4))
    _draw_ratios(ratios, [row for row in ROWS if found(row.result)])
    _draw_growth(growth)
    for axes in (ratios, growth):
        style(axes)
    save_drawing(figure, path)
    return path


def _draw_ratios(axes: Axes, rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        result = found(row.result)
        assert result is not None
        ratios = sorted(1 / ratio for ratio in result["ratios"][row.ratio])
        axes.plot([ratios[0], ratios[-1]], [place, place], color=ACCENT, linewidth=2)
        axes.plot(median(ratios), place, "o", color=ACCENT, markersize=6)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color=INK, linewidth=1, zorder=0)
    axes.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    axes.minorticks_off()
    axes.set_xlabel("times faster than the peer (left of 1: slower)")


def _draw_growth(axes: Axes) -> None:
    for key, name in LINES.items():
        points = [(n, result["seconds"][key]) for name_, n in SIZES.items() if (result := found(name_))]
        style = {"color": ACCENT if name.startswith("ours") else INK, "linestyle": "-" if key == "float32" else "--"}
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, **style)
        axes.annotate(
            name,
            points[-1],
            (4, 4 if key in ("MLlib", "float64") else -5),
            textcoords="offset points",
            fontsize=8,
            va="center",
            color=INK,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.25)
    axes.set_xticks([*SIZES.values()], ["100K", "1M", "10M"])
    axes.set_yticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.set(xlabel="ratings", ylabel="seconds of a fit\nwithout the confounder")


if __name__ == "__main__":
    print(draw())
