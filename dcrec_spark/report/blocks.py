"""Blocks that a page is put together from; ``report.html.j2`` says what each looks like."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup
from matplotlib.figure import Figure

from dcrec_spark.report.svg import inline_svg
from dcrec_spark.report.words import BETTER, WORSE


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Note:
    """A paragraph that must not be missed."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Heading:
    """Heading of a part of a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    kind: ClassVar[str] = "points"
    points: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """A figure as markup, with a title, and a sentence on how to read it."""

    svg: Markup
    title: str
    reading: str


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side where there is room, one below the other where there is not."""

    kind: ClassVar[str] = "pictures"
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Cell:
    """Cell of a table; ``small`` stands below the text, ``tone`` is good, bad or nothing."""

    text: str
    small: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first column heads the rows.

    left : columns that hold text, the others hold numbers. notes : a line below each row, over its whole width; none
    where it is empty.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int = 1
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Folded:
    """Preformatted text that is shown on request."""

    kind: ClassVar[str] = "folded"
    summary: str
    text: str


Block = Text | Note | Heading | Points | Pictures | Table | Folded


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; ``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Block]


def picture(figure: Figure, name: str, title: str, reading: str) -> Picture:
    """Figure for the page; no two on it have the same ``name``."""
    return Picture(Markup(inline_svg(figure, name, f"{title}. {reading}")), title, reading)


def cells(*texts: str) -> list[Cell]:
    """Cells that hold nothing but text."""
    return [Cell(text) for text in texts]


def tone_of(verdict: str) -> str:
    """Colour of a verdict."""
    return {BETTER: "good", WORSE: "bad"}.get(verdict, "")
