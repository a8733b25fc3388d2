"""Navigation entries that end with a slash stand for the pages of a folder that have no entry of their own.

The decisions get an index, and are left out of the search: readers look for what holds, not for what was tried.
"""

import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

DECISIONS = "decisions"
INDEX = "<!-- made: decisions -->"
NOTEBOOKS = Path("examples/notebooks")
SHORTEST = 30  # a sentence of fewer characters needs the next one
SECTION = r"^## {}\n+(.+?)(?=^## |\Z)"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out the folders of the navigation."""
    config.nav = _written_out(config.nav, Path(config.docs_dir), set(_entries(config.nav)))
    return config


def _entries(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for one in entry.values() if isinstance(entry, dict) else entry:
            yield from _entries(one)


def _written_out(entry: Any, docs: Path, named: Set[str]) -> Any:
    if isinstance(entry, list):
        inner = [_written_out(one, docs, named) for one in entry]
        return [page for one in inner for page in (one if isinstance(one, list) else [one])]
    if isinstance(entry, dict):
        return {title: _written_out(one, docs, named) for title, one in entry.items()}
    return _pages(docs, entry.rstrip("/"), named) if entry.endswith("/") else entry


def _pages(docs: Path, folder: str, named: Set[str]) -> list[str]:
    if folder == "notebooks":  # they are made at build time
        return [f"{folder}/{path.stem}.md" for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    pages = sorted((docs / folder).glob("*.md"), key=lambda path: title_of(path).lower())
    return [name for path in pages if (name := f"{folder}/{path.name}") not in named]


def title_of(page: Path) -> str:
    """Read the first heading of a page."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return heading[1].strip() if heading else page.stem


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill the index of the decisions, and keep their pages out of the search."""
    if page.file.src_uri.startswith(f"{DECISIONS}/"):
        page.meta["search"] = {"exclude": True}
    return markdown.replace(INDEX, _index(Path(config.docs_dir))) if INDEX in markdown else markdown


def _index(docs: Path) -> str:
    pages = sorted((docs / DECISIONS).glob("*.md"), key=lambda path: title_of(path).lower())
    rows = [f"| [{title_of(page)}](../{DECISIONS}/{page.name}) | {_gist(page)} |" for page in pages]
    return "\n".join(["| question | decision |", "| --- | --- |", *rows])


def _gist(page: Path) -> str:
    decision = re.search(SECTION.format("Decision"), page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if decision is None:
        raise ValueError(f"{page}: a decision page needs a section '## Decision'")
    paragraph = " ".join(decision[1].split("\n\n")[0].split()).replace("|", "\\|")
    sentences = re.split(r"(?<=\.)\s(?=[A-Z`])", paragraph)
    return " ".join(sentences[: 1 if len(sentences[0]) >= SHORTEST else 2])
