"""Every code block of README and documentation runs, and every notebook, in a session that the user made himself."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from sybil import Document
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from dcrec_spark.spark.java import ensure_java
from tests.spark.standalone import QUICK_PLANS, ROOT, finished, plain_environment

SITE = sorted(path for path in (ROOT / "docs").rglob("*.md") if "studies" not in path.parts)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *SITE]
RUN, SHOWN = {"python", "bash", "yaml"}, {"text", "sql"}
# Why a block is not run, and how many there are: a new one has to be weighed here.
SKIPPED = {
    "installs packages": 3,
    "needs a cluster": 12,
    "a line of a crontab": 1,
    "a setting of Airflow's workers": 1,
    "commands of Airflow, which tests/schedulers/test_airflow.py tries": 1,
    "needs a test file of its own": 1,
    "fetches archives": 1,
    "needs a published run": 7,
    "downloads data": 1,
}


def languages(page: Path) -> Counter[str]:
    document = Document(page.read_text(encoding="utf-8"), str(page))
    lexer = FencedCodeBlockLexer(language=r".*", mapping={"language": "language", "source": "source"})
    return Counter(str(region.lexemes["language"]) for region in lexer(document))


WITH_BLOCKS = [page for page in PAGES if RUN & languages(page).keys()]
NAMES = [str(page.relative_to(ROOT)) for page in WITH_BLOCKS]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> dict[str, str]:
    """Of a process with a Spark that is a user's own, and what small plans want in the machine's defaults."""
    conf = tmp_path_factory.mktemp("conf")
    (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in QUICK_PLANS.items()))
    return {
        **plain_environment(),
        "JAVA_HOME": str(ensure_java().path),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DCREC_DATA": str(data_folder),
        "DCREC_PROGRESS": "0",
        "CATALOG_CREDENTIAL": "client-id:secret",  # which a page's settings name
    }


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> dict[str, str | None]:
    report = tmp_path_factory.mktemp("pages") / "report.json"
    command = [sys.executable, "-m", "tests.docs.blocks", report, *WITH_BLOCKS]
    done = finished(*command, cwd=ROOT, env=environment, seconds=3000)
    assert report.is_file(), done.stderr[-4000:]
    return {str(Path(page).relative_to(ROOT)): failure for page, failure in json.loads(report.read_text()).items()}


@pytest.mark.documentation
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("page", NAMES)
def test_the_blocks_of_a_page_run(page: str, failures: dict[str, str | None]) -> None:
    assert failures.get(page, "the process ended before this page") is None, failures.get(page)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_block_says_what_it_is(page: Path) -> None:
    """A block in a language that is not known here would be run by nobody."""
    assert languages(page).keys() <= RUN | SHOWN


def test_few_blocks_are_skipped_each_for_a_reason_that_is_listed() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    assert Counter(re.findall(r'<!-- skip: next "(.+?)" -->', "".join(texts))) == SKIPPED


NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
BOOKS = [path.stem for path in NOTEBOOKS]
PRIVATE = re.compile(r"/(home|root|tmp|work|Users)/|\d+\.\d+\.\d+\.\d+")
LARGEST = 100_000


@pytest.fixture(scope="module")
def kernel(environment: dict[str, str]) -> Iterator[KernelManager]:
    """One kernel for all notebooks, so that they share a JVM: each goes on with the session of the one before."""
    manager = KernelManager(kernel_name="python3", transport="ipc")  # no port is opened
    manager.start_kernel(cwd=str(ROOT), env=environment)
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.documentation
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=BOOKS)
def test_a_notebook_runs(path: Path, kernel: KernelManager) -> None:
    book = nbformat.read(path, as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    NotebookClient(book, km=kernel, timeout=600).execute(cleanup_kc=False)
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=BOOKS)
def test_a_notebook_is_saved_with_small_outputs_and_names_no_place_of_a_machine(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert path.stat().st_size < LARGEST
    assert any(cell.get("outputs") for cell in book.cells)
    assert PRIVATE.search(path.read_text(encoding="utf-8")) is None
    assert not any(output.output_type == "error" for cell in book.cells for output in cell.get("outputs", ()))
