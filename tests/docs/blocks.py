"""Run the code blocks of Markdown pages, in order, in one process with a plain Spark session.

``python -m tests.docs.blocks REPORT PAGE...`` writes the failure of each page, or null, to REPORT, as JSON. The pages
share a JVM: whichever comes first starts Spark as a user would. The Python blocks of a page share their names. Of bash,
jobs and ``dcrec`` are run in this process, ``make`` with ``--dry-run``, the rest by a shell. YAML is checked as a
configuration, and written to the file that its first line names. A block that cannot run here is preceded by
``<!-- skip: next "reason" -->``.
"""

import contextlib
import io
import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import SkipTest

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

from dcrec_spark.config.jobs import AllSettings
from dcrec_spark.config.load import load_config
from dcrec_spark.jobs.command import main as main_command
from tests.spark.standalone import ROOT

LINKED = ("jobs", "conf", "examples", "docs", "studies")


def run_shell(example: Example) -> None:
    """Each command of a block; the first that fails ends the page. A block with a here-document is one command."""
    source = str(example.parsed)
    for command in [source] if "<<" in source else source.replace("\\\n", " ").splitlines():
        words = shlex.split(command, comments=True)
        if words[:1] == ["make"]:
            _run(["make", "--dry-run", "--directory", str(ROOT), *words[1:]])
        elif words[:1] == ["dcrec"]:
            _run_here(words, main_command)
        elif words[:1] == ["python"] and words[1:2] and words[1].startswith("jobs/"):
            _run_here(words[1:], partial(runpy.run_path, words[1], run_name="__main__"))
        elif words:
            _run(["bash", "-euc", command])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}"


def _run_here(words: Sequence[str], job: Any) -> None:
    """A job in this process, on the session that is there: its exit code has to be 0."""
    before, sys.argv, code = sys.argv, list(words), None
    try:
        job()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = before
    assert not code, f"{shlex.join(words)} ended with {code}"


def write_settings(example: Example) -> None:
    """A configuration file: the name on its first line, its settings checked."""
    first, _, _ = str(example.parsed).partition("\n")
    name = first.removeprefix("#").strip()
    assert first.startswith("# "), "the first line of a yaml block names its file: # mine.yaml"
    assert name.endswith(".yaml"), name
    Path(name).write_text(str(example.parsed), encoding="utf-8")
    load_config(AllSettings, Path(name))


def tidy_up() -> None:
    """Leave nothing but the repository's jobs and settings and, where there is one, the folder ml-100k."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    data = Path(os.environ.get("DCREC_DATA") or ROOT.parent / "shared" / "data")
    for path in [*(ROOT / name for name in LINKED), data / "ml-100k"]:
        if path.exists():
            Path(path.name).symlink_to(path)


def run_page(page: Path) -> str | None:
    """Run a page in the current directory, which is tidied up first. Returns its failure."""
    tidy_up()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        bash, yaml = CodeBlockParser("bash", run_shell), CodeBlockParser("yaml", write_settings)
        document = Sybil([PythonCodeBlockParser(), bash, yaml, SkipParser()]).parse(page)
        document.namespace["__name__"] = "__main__"  # as in a script: what is defined there travels to workers by value
        for example in document:
            try:
                example.evaluate()
            except SkipTest:
                continue
            except KeyboardInterrupt:  # somebody stops the tests
                raise
            except BaseException:  # noqa: BLE001 - a job ends with SystemExit; whatever it is, the page failed
                return f"{page.name}:{example.line}\n{traceback.format_exc()}\n{printed.getvalue()[-4000:]}"
    return None


def main(report: str, pages: Sequence[str]) -> None:
    results = {}
    # Spark's JVM stays in the directory that it was started in, so that all pages share it.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for page in pages:
            results[page] = run_page(Path(page))
            Path(report).write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
