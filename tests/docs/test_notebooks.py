"""The notebooks run from top to bottom, and say nothing about the machine that they were saved on."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from tests.docs.test_pages import SPARK_DEFAULTS

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
PRIVATE = re.compile(r"/(home|root|tmp|work|Users)/|\d+\.\d+\.\d+\.\d+")
LARGEST = 60_000


@pytest.fixture(scope="module")
def kernel(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """One kernel for all notebooks, so that they share a JVM: each goes on with the session of the one before."""
    java = subprocess.run([sys.executable, "-m", "dcrec_spark.spark.java"], capture_output=True, text=True, check=True)
    conf = tmp_path_factory.mktemp("notebooks")
    (conf / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
    manager = KernelManager(kernel_name="python3", transport="ipc")  # no port is opened
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    manager.start_kernel(
        cwd=str(ROOT),
        env={
            **environment,
            "JAVA_HOME": java.stdout.strip(),
            "PYTHONPATH": str(ROOT),
            "SPARK_CONF_DIR": str(conf),
            "DCREC_PROGRESS": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "DCREC_DATA": str(data_folder),
        },
    )
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.documentation
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_runs(path: Path, kernel: KernelManager) -> None:
    book = nbformat.read(path, as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    NotebookClient(book, km=kernel, timeout=600).execute(cleanup_kc=False)
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_saved_with_its_outputs_and_they_are_small(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert path.stat().st_size < LARGEST
    assert any(cell.get("outputs") for cell in book.cells)
    assert not any(output.output_type == "error" for cell in book.cells for output in cell.get("outputs", ()))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_names_no_place_of_a_machine(path: Path) -> None:
    assert PRIVATE.search(path.read_text(encoding="utf-8")) is None
