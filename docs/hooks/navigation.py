"""Navigation entries that end with a slash stand for the pages of a folder, and the decisions get an index."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DECISIONS = "decisions"
NOTEBOOKS = Path("examples/notebooks")
SHORTEST = 30  # a sentence of fewer characters needs the next one
SECTION = r"^## {}\n+(.+?)(?=^## |\Z)"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out the folders of the navigation."""
    config.nav = _written_out(config.nav, Path(config.docs_dir))
    return config


def _written_out(entry: Any, docs: Path) -> Any:
    if isinstance(entry, list):
        return [_written_out(inner, docs) for inner in entry]
    if isinstance(entry, dict):
        return {title: _written_out(inner, docs) for title, inner in entry.items()}
    return _pages(docs, entry.rstrip("/")) if entry.endswith("/") else entry


def _pages(docs: Path, folder: str) -> list[Any]:
    if folder == "notebooks":  # they are made at build time
        return [f"{folder}/{path.stem}.md" for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    pages = sorted((docs / folder).glob("*.md"), key=lambda path: title_of(path).lower())
    first = [f"{folder}/index.md"] if folder == DECISIONS else []
    return first + [f"{folder}/{path.name}" for path in pages if path.name != "index.md"]


def title_of(page: Path) -> str:
    """Read the first heading of a page."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].strip() if heading else page.stem


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the index of the decisions."""
    pages = sorted((Path(config.docs_dir) / DECISIONS).glob("*.md"), key=lambda path: title_of(path).lower())
    rows = [f"| [{title_of(page)}]({page.name}) | {_gist(page)} |" for page in pages]
    text = (
        "# Decisions\n\nWhat a newcomer would otherwise undo: context, what was tried, decision.\n\n"
        "| question | decision |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    )
    files.append(File.generated(config, f"{DECISIONS}/index.md", content=text))
    return files


def _gist(page: Path) -> str:
    decision = re.search(SECTION.format("Decision"), page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if decision is None:
        raise ValueError(f"{page}: a decision page needs a section '## Decision'")
    paragraph = " ".join(decision[1].split("\n\n")[0].split()).replace("|", "\\|")
    sentences = re.split(r"(?<=\.)\s(?=[A-Z`])", paragraph)
    return " ".join(sentences[: 1 if len(sentences[0]) >= SHORTEST else 2])
