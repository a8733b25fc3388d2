"""Every code block of README and of the documentation runs, in a session that the user made himself."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sybil import Document
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from tests.docs import blocks

ROOT = Path(__file__).resolve().parents[2]
SITE = sorted(path for path in (ROOT / "docs").rglob("*.md") if "studies" not in path.parts)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *SITE]
RUN, SHOWN = {"python", "bash", "yaml"}, {"text", "sql"}
# Why a block is not run, and how many there are: a new one has to be weighed here.
SKIPPED = {
    "installs packages": 2,
    "needs a cluster": 5,
    "a line of a crontab": 1,
    "a setting of Airflow's workers": 1,
    "commands of Airflow, which tests/schedulers/test_airflow.py runs": 1,
    "needs a test file of its own": 1,
    "fetches archives": 1,
    "needs a published run": 3,
}


# What a user's machine may have, and small plans want: see tests/conftest.py.
SPARK_DEFAULTS = """\
spark.driver.memory            2g
spark.driver.extraJavaOptions  -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m
spark.sql.codegen.factoryMode  NO_CODEGEN
spark.sql.codegen.wholeStage   false
spark.sql.shuffle.partitions   4
spark.ui.enabled               false
"""


def languages(page: Path) -> Counter[str]:
    document = Document(page.read_text(encoding="utf-8"), str(page))
    lexer = FencedCodeBlockLexer(language=r".*", mapping={"language": "language", "source": "source"})
    return Counter(str(region.lexemes["language"]) for region in lexer(document))


WITH_BLOCKS = [page for page in PAGES if RUN & languages(page).keys()]
NAMES = [str(page.relative_to(ROOT)) for page in WITH_BLOCKS]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> dict[str, dict[str, Any]]:
    report = tmp_path_factory.mktemp("pages") / "report.json"
    conf = report.parent / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
        "JAVA_HOME": _run([sys.executable, "-m", "dcrec_spark.spark.java"]).stdout.strip(),
        "PYTHONPATH": str(ROOT),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DCREC_DATA": str(data_folder),
        "CATALOG_CREDENTIAL": "client-id:secret",  # which a page's settings name
    }
    done = _run([sys.executable, "-m", "tests.docs.blocks", str(report), *map(str, WITH_BLOCKS)], env=environment)
    assert report.is_file(), done.stderr[-4000:]
    return {str(Path(page).relative_to(ROOT)): result for page, result in json.loads(report.read_text()).items()}


def _run(command: list[str], env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=3000)


@pytest.mark.documentation
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("page", NAMES)
def test_the_blocks_of_a_page_run(page: str, results: dict[str, dict[str, Any]]) -> None:
    assert page in results, "the process ended before this page"
    assert results[page]["failure"] is None, results[page]["failure"]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_block_says_what_it_is(page: Path) -> None:
    """A block in a language that is not known here would be run by nobody."""
    assert languages(page).keys() <= RUN | SHOWN


def test_few_blocks_are_skipped_each_for_a_reason_that_is_listed() -> None:
    reasons: Counter[str] = Counter()
    for page in PAGES:
        reasons.update(blocks.skipped(page))
    assert reasons == SKIPPED
