"""Turn what a terminal showed into an SVG that loads nothing. Needs rich.

docs/img/demo.svg was made so, in a terminal of 100 columns:

    script -qec 'make demo' shown.txt
    python docs/hooks/terminal.py shown.txt docs/img/demo.svg \\
        'Who predicts' '╰───' 'Against the truth' ').'
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 100
# Moves of the cursor: up a line, to the start of the line and erase it.
_REPAINT = re.compile(r"(?:\r?\x1b\[(?:2K|1A))+")
_CONTROL = re.compile(r"\x1b\[\??\d*[hlGK]|\r")
_FONT_FACE = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)


def last_state(shown: str) -> list[str]:
    """Keep the lines that are left on the screen: a repaint removes as many lines as it goes up."""
    lines = [""]
    position = 0
    for match in _REPAINT.finditer(shown):
        _write(lines, shown[position : match.start()])
        for _ in range(match[0].count("\x1b[1A")):
            lines.pop()
        lines[-1:] = [""]
        position = match.end()
    _write(lines, shown[position:])
    return lines


def _write(lines: list[str], text: str) -> None:
    first, *others = text.split("\n")
    lines[-1] += first
    lines += others


def draw(lines: list[str], title: str) -> str:
    """SVG of the lines, in a font that the reader has."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    for line in lines:
        console.print(Text.from_ansi(_CONTROL.sub("", line)), no_wrap=True, crop=True)
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id="terminal")
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    return _FONT_FACE.sub("", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def between(lines: list[str], first: str, last: str) -> list[str]:
    """Cut out the lines from the one that holds ``first`` to the next that holds ``last``."""
    start = next(number for number, line in enumerate(lines) if first in line)
    end = next(number for number, line in enumerate(lines) if number > start and last in line)
    return lines[start : end + 1]


def main(source: str, target: str, *parts: str) -> None:
    """Draw the parts of the screen that lie between two texts each."""
    lines = last_state(Path(source).read_bytes().decode())  # newlines as they were
    chosen = [between(lines, *pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    shown = [line for part in chosen for line in ("", *part)]
    Path(target).write_text(draw(shown[1:], "make demo") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
