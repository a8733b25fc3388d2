"""A matplotlib figure as markup inside a page: the page's colours and fonts, no background, nothing from outside."""

import re
from io import StringIO

import matplotlib
from matplotlib.figure import Figure

from dcrec_spark.evaluation.plots import ACCENT, FILL, INK

_COLOURS = {INK: "var(--ink)", FILL: "var(--fill)", ACCENT: "var(--accent)"}
# Ids of parts of the picture that nothing refers to; those that are referred to are hashes, and stay.
_NAMES = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_ROOT = re.compile(r"<svg[^>]*>")
_FAMILY = re.compile(r"(font: [^;\"']*?px) [^;\"]*")


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """Figure as an ``<svg>`` element.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn with the colours of :mod:`dcrec_spark.evaluation.plots`.
    name : str
        Of the figure on its page. No other may have it, for what is defined in it goes by its hash.
    description : str
        What is read out where the picture can't be seen; it is escaped here.

    Returns
    -------
    str
        Markup.
    """
    written = StringIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(written, format="svg", metadata=metadata)
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    width, height = (value * 72 for value in figure.get_size_inches())
    label = description.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    root = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">'
    svg = _NAMES.sub("", _ROOT.sub(lambda _: root, svg, count=1))
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    return _FAMILY.sub(r"\1 var(--font)", svg)
