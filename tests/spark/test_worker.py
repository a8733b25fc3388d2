"""Workers leave modules to the garbage collector no more, and read archives of modules again only when these change."""

import gc
import importlib
import sys
import zipfile
import zipimport
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.engine.cells import pack
from dcrec_spark.spark import worker


def archive(path: Path, *modules: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for module in modules:
            file.writestr(f"{module}.py", f"name = {module!r}")
    return path


def test_a_changed_archive_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", worker.reread_if_changed)
    monkeypatch.syspath_prepend(str(archive(tmp_path / "modules.zip", "first_of_zip")))
    assert importlib.import_module("first_of_zip").name == "first_of_zip"
    archive(tmp_path / "modules.zip", "first_of_zip", "second_of_zip")
    importlib.invalidate_caches()
    assert importlib.import_module("second_of_zip").name == "second_of_zip"


def test_it_holds_in_workers_and_nowhere_else(spark: SparkSession) -> None:
    """From 3.12 on Python reads an archive when it is asked for a module, and is left alone."""

    def asked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pack({})  # the package is imported
        for batch in batches:
            name = zipimport.zipimporter.invalidate_caches.__name__
            frozen = gc.get_freeze_count() > 1_000  # every object of every module, not a few by chance
            yield pa.RecordBatch.from_pydict({"name": [name] * batch.num_rows, "frozen": [frozen] * batch.num_rows})

    answers = {
        (row["name"], row["frozen"])
        for row in spark.range(4).mapInArrow(asked, "name string, frozen boolean").collect()
    }
    assert answers == {("reread_if_changed" if sys.version_info < (3, 12) else "invalidate_caches", True)}
    assert zipimport.zipimporter.invalidate_caches.__name__ == "invalidate_caches"
    assert gc.get_freeze_count() == 0
