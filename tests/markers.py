"""Which files a run of one marker has to look into: importing all of them takes a process of pytest eight seconds."""

import re
from pathlib import Path

_OF_ONE_MARKER = re.compile(r"(?!not\b)(\w+)(?: and not \w+)*")


def may_hold(file: Path, expression: str) -> bool:
    """Whether a file can hold tests of a marker expression such as ``process and not long``.

    It can where it names the marker. Of expressions of another form nothing is known.
    """
    asked = _OF_ONE_MARKER.fullmatch(expression.strip())
    return asked is None or f"mark.{asked[1]}" in file.read_text(encoding="utf-8")
