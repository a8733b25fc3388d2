"""Plain style of the pages and docstrings: short sentences, few semicolons and decimals, no retired words."""

import ast
import re
from pathlib import Path

import pytest

from tests.spark.standalone import ROOT

# The study is written by a program, and the promises are a table of tests.
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + [
    page for page in sorted((ROOT / "docs").rglob("*.md")) if "studies" not in page.parts
]
# Words that the trade has others for: next to, converge, correct, release, run, simulated data set.
RETIRED = (
    r"\b(besides?|whoever|settle[sd]?|settling|put right|lets? go|twice told|comes? across|in turn|said so|says so"
    r"|say so|is told|are told|at rest|own vote|has voted|whole or not at all)\b"
)
LONGEST = 35  # words of a sentence
# Most of each in a thousand words.
SEMICOLONS, DECIMALS, RETIRED_WORDS = 2.5, 6.0, 0.5


def prose_of_page(text: str) -> str:
    """Take out code, formulas, tables, markup and the targets of links."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$|\\\[.*?\\\]|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`|\\\(.*?\\\)", "x", text)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"<[^>]+>", "", text))


def prose_of_module(path: Path) -> str:
    """Take out examples, headings, tables and columns, which have two spaces in a line."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    text = "\n\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds))
    text = re.sub(r"^.*\n *-{3,}$", "", re.sub(r"``[^`]*``|:\w+:`[^`]*`", "x", text), flags=re.MULTILINE)
    return "\n\n".join(
        part for part in text.split("\n\n") if not re.search(r">>>|^ *[|+]|\S {2,}\S", part, re.MULTILINE)
    )


PROSE = {
    "pages": "\n\n".join(prose_of_page(page.read_text(encoding="utf-8")) for page in PAGES),
    "docstrings": "\n\n".join(map(prose_of_module, sorted((ROOT / "dcrec_spark").rglob("*.py")))),
}


def sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n\s*[*-] |\n\s*\d+\. ", text)
    return [" ".join(part.split()) for part in parts]


@pytest.mark.parametrize("kind", PROSE)
def test_sentences_are_short(kind: str) -> None:
    assert [sentence for sentence in sentences(PROSE[kind]) if len(sentence.split()) > LONGEST] == []


@pytest.mark.parametrize("kind", PROSE)
@pytest.mark.parametrize(
    ("pattern", "most"),
    [(";", SEMICOLONS), (r"\d\.\d", DECIMALS), (RETIRED, RETIRED_WORDS)],
    ids=["semicolons", "decimals", "retired words"],
)
def test_a_thousand_words_have_few_of(kind: str, pattern: str, most: float) -> None:
    text, spans = PROSE[kind], [one.span() for one in re.finditer(pattern, PROSE[kind], re.IGNORECASE)]
    found = [" ".join(text[max(0, start - 30) : end + 30].split()) for start, end in spans]
    rate = 1000 * len(found) / len(re.findall(r"[A-Za-z']+", text))
    assert rate <= most, "\n".join([f"{rate:.1f} in a thousand words, at most {most} are allowed:", *found])
