"""The commands of a page of the documentation, to be run as they stand there."""

import os
import re
import subprocess
from pathlib import Path

from tests.spark.standalone import ROOT, environment, finished

HOW_TO = ROOT / "docs" / "how-to"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path, heading: str, language: str) -> list[str]:
    _, _, section = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    return [text for kind, text in _BLOCK.findall(section.partition("\n## ")[0]) if kind == language]


def with_values(command: str, values: dict[str, str]) -> str:
    """The command for this machine: what the page has as an example is replaced, each of them at least once."""
    for example, value in values.items():
        assert example in command, f"{example} is not in\n{command}"
        command = command.replace(example, value)
    return command


def run(command: str, place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder that looks like a copy of the repository, with spark-submit on the PATH."""
    known = {name: value for name, value in environment(place / "spark").items() if name != "PYSPARK_PYTHON"}
    known["PATH"] = f"{place}/spark/bin:{os.environ['PATH']}"
    return finished("bash", "-euc", command, cwd=place, env={**known, **variables})
