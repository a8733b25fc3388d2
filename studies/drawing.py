"""Pictures of the documentation: drawn on white, with text as text and an ink dark enough to read."""

from io import StringIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from dcrec_spark.plots.panels import INK

DARK_INK = "#4a4a4a"


def save_drawing(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, the same bytes for the same figure."""
    text = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue().replace(INK, DARK_INK), encoding="utf-8")
