"""What a page is put together from; ``report.html.j2`` says what each looks like."""

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
    """Of a part of a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    kind: ClassVar[str] = "points"
    points: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """title : what it shows. reading : how to read it."""

    svg: Markup
    title: str
    reading: str


@dataclass(frozen=True)
class Pictures:
    """Side by side where there is room."""

    kind: ClassVar[str] = "pictures"
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Cell:
    """A table's cell; ``small`` stands below the text, ``tone`` is good, bad or nothing."""

    text: str
    small: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """The first column heads its row. left : columns that hold text; the others hold numbers.

    notes : a line below each row, over its whole width; none where it is empty.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int = 1
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Folded:
    """Text as it is, shown on request."""

    kind: ClassVar[str] = "folded"
    summary: str
    text: str


Block = Text | Note | Heading | Points | Pictures | Table | Folded


@dataclass(frozen=True)
class Section:
    """``name`` is its anchor."""

    name: str
    title: str
    blocks: Sequence[Block]


def picture(figure: Figure, name: str, title: str, reading: str) -> Picture:
    """A figure for the page; ``name`` is its own there."""
    return Picture(Markup(inline_svg(figure, name, f"{title}. {reading}")), title, reading)


def cells(*texts: str) -> list[Cell]:
    """Plain cells."""
    return [Cell(text) for text in texts]


def tone_of(verdict: str) -> str:
    """How a verdict is coloured."""
    return {BETTER: "good", WORSE: "bad"}.get(verdict, "")
