"""The documentation site builds without a warning, loads nothing from elsewhere, and says what the code says."""

import ast
import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import dcrec_spark
from dcrec_spark import errors
from dcrec_spark.config.jobs import AllSettings, known_settings
from dcrec_spark.jobs.cli import JOBS, dcrec
from tests.spark.standalone import ROOT, finished

# What a browser fetches by itself; a link that a reader may follow is another thing.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="canonical"))[^>]*(?:src|href)=["']?(https?:)?//"""
)
CODE = re.compile(r"```.*?```", re.DOTALL)
MOST_WORDS = 900
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    done = finished(*command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def page(site: Path, name: str) -> str:
    return (site / name).read_text(encoding="utf-8")


@pytest.mark.documentation
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for kind, loading in {"html": FETCHED, "css": r"url\(.?https?:"}.items():
        pages = [path for path in site.rglob(f"*.{kind}") if re.search(loading, path.read_text(encoding="utf-8"))]
        assert pages == []


@pytest.mark.documentation
def test_the_reference_has_every_setting_error_and_command(site: Path) -> None:
    settings = page(site, "reference/settings.html")
    names = known_settings(AllSettings)
    assert [name for name in names if f"<code>{name.partition('.')[2]}</code>" not in settings] == []
    table = page(site, "reference/exit-codes.html")
    for error in errors.DcrecError.__subclasses__():
        assert re.search(rf"<td>{error.exit_code}</td>\s*<td><code>{error.__name__}</code></td>", table), error
    commands = page(site, "reference/command-line.html")
    assert [entry.command for entry in JOBS if f"dcrec {entry.command}" not in commands] == []


@pytest.mark.documentation
def test_formulas_need_no_script_and_names_no_roles(site: Path) -> None:
    model = page(site, "explanation/model.html")
    assert "<math" in model
    assert 'class="arithmatex"' not in model
    assert [path for path in site.rglob("*.html") if re.search(r":(meth|class|func|mod):", path.read_text())] == []


@pytest.mark.documentation
def test_notebooks_are_pages_with_their_outputs(site: Path) -> None:
    for book in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        assert re.search('</table>|class="output"', page(site, f"notebooks/{book.stem}.html")), book


def test_decisions_are_few_and_short_and_have_three_parts() -> None:
    assert len(DECISIONS) <= 15
    for decision in DECISIONS:
        text = decision.read_text(encoding="utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "What was tried", "Decision"], decision.name
        assert len(text.split()) <= 250, decision.name


def test_links_lead_to_files_of_the_repository() -> None:
    """Where a hosting site shows the pages as they are, there is nothing that is made at build time."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    prose = {page: CODE.sub("", page.read_text(encoding="utf-8")) for page in pages}
    links = [(page, link) for page in pages for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose[page])]
    assert len(links) > 100
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_the_readme_and_pages_of_answers_are_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    for name in ("explanation/faq", "explanation/limitations", "explanation/alternatives", "how-to/troubleshoot"):
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        assert sum(any(map(str.isalpha, word)) for word in text.split()) <= MOST_WORDS, name


# Of Java, Spark and the cluster's manager.
FOREIGN = {"java.lang.OutOfMemoryError", "Python worker exited unexpectedly", "Container killed by YARN", "OOMKilled"}
# What differs from one message to the next: quoted and dotted names, numbers.
VARIABLE = re.compile(r"\.\.\.|'[^']*'|\S*\w[._]\w\S*|\d+%?")


def test_the_messages_that_are_explained_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text(encoding="utf-8")
    rows = [row.split(" | ")[0] for row in page.splitlines() if row.startswith("| `")]
    messages = {message for row in rows for message in re.findall("`(.+?)`", row)} - FOREIGN
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "dcrec_spark").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    words = "\n".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))
    assert len(messages) > 20
    longest = {max(VARIABLE.split(message), key=len).strip(" :,;()"): message for message in messages}
    assert [message for part, message in longest.items() if part not in words] == []


def test_the_plan_that_is_shown_is_the_one_that_is_printed() -> None:
    page = (ROOT / "docs" / "how-to" / "size-a-cluster.md").read_text(encoding="utf-8")
    shown = re.search(r"dcrec (plan .+)\n```\n.+?```text\n(.+?)```", page, re.DOTALL)
    assert CliRunner().invoke(dcrec, shown[1].split()).output == shown[2]


@pytest.mark.documentation
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("causal assumptions", "explanation/limitations.html"),
        ("selection bias", "explanation/faq.html"),
        ("cold start", "explanation/faq.html"),
        ("limitations", "explanation/limitations.html"),
        ("licence", "explanation/faq.html"),
        ("java_home", "how-to/troubleshoot.html"),
        ("out of memory", "how-to/troubleshoot.html"),
        ("exit code 5", "how-to/troubleshoot.html"),
    ],
)
def test_the_search_finds_a_page_by_its_headings(site: Path, words: str, answer: str) -> None:
    entries = json.loads(page(site, "search/search_index.json"))["docs"]
    found = {entry["location"].partition("#")[0] for entry in entries if words in entry["title"].lower()}
    assert answer in found
    assert not [entry["location"] for entry in entries if entry["location"].startswith("decisions/")]


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == project["version"]
    assert "1808.06581" in str(citation["preferred-citation"])


def test_every_public_name_is_in_the_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    assert dir(dcrec_spark) == sorted(dcrec_spark.__all__)
    names = set(dcrec_spark.__all__) - {"__version__"}
    assert {name for name in names if f"::: dcrec_spark.{name}\n" not in pages} == set()
