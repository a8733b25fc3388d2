"""Preparation of a Python worker of Spark, once, before its first task of this package.

Spark's own work around a task grows with what its worker has imported, and a worker that can fit a model has imported
much. ``docs/decisions/platform.md`` has the figures.
"""

import gc
import os
import sys
import zipimport
from typing import Any

from pyspark import TaskContext

_reread = zipimport.zipimporter.invalidate_caches


def prepare_worker() -> None:
    """Make the further tasks of this worker cheap. Does nothing outside of a task.

    * Spark collects garbage after every task, and looks at every object of every module: they are here to stay.
    * Spark calls importlib.invalidate_caches() before every task, and up to Python 3.11 each importer of a zip file
      then reads the directory of the archive anew, one for each package of pyspark.zip: not if it is as it was.
    """
    if TaskContext.get() is None:
        return
    gc.collect()
    gc.freeze()
    if sys.version_info < (3, 12):
        zipimport.zipimporter.invalidate_caches = reread_if_changed  # type: ignore[method-assign, assignment]


def reread_if_changed(importer: Any) -> None:
    """Read an archive's directory again where its file is not the one that was read last."""
    try:
        found = os.stat(importer.archive)
        file = found.st_ino, found.st_size, found.st_mtime_ns
    except OSError:
        file = None
    if file is None or getattr(importer, "_file_read", None) != file:
        _reread(importer)
        importer._file_read = file
