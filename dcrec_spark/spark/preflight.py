"""Check, once for each session, that its Python workers can run this package.

Executors start workers with whatever Python the session names, by default the ``python3`` on PATH: not the one of an
environment that is not activated. Spark then fails in the middle of a job, with the stack traces of two languages.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError, interruption
from dcrec_spark.spark.compat import is_classic
from dcrec_spark.spark.lineage import is_local
from dcrec_spark.version import __version__

# What the code that runs on workers imports, the package itself last.
_NEEDED = ("numpy", "pandas", "pyarrow", "scipy", "threadpoolctl", "dcrec_spark")
# What the workers of a session run, in words.
_CHECKED: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_LOCK = Lock()
log = logging.getLogger(__name__)


def require_workers(spark: SparkSession) -> str:
    """Refuse a session whose Python workers cannot run this package. A session that passed is not checked again.

    One job of one task, on one executor, which imports all that fits and rankings need there.

    Returns what the workers run, in words. Raises ConfigError: the workers have another version of Python or of this
    package, or lack packages. Says what to set.
    """
    with _LOCK:
        if spark not in _CHECKED:
            report = _ask_worker(spark)
            problem = _difference(report)
            if problem:
                raise ConfigError(f"Python workers cannot run dcrec-spark: {problem}; {_what_to_set(spark)}")
            _CHECKED[spark] = f"{report['python']} with dcrec-spark {report['dcrec_spark']} from {report['home']}"
        return _CHECKED[spark]


def _ask_worker(spark: SparkSession) -> dict[str, Any]:
    # A plain function: one of Arrow tables would fail where there is no Arrow, without a word of the rest.
    probe = F.udf(_probe(), "string", useArrow=False)
    try:
        (row,) = spark.range(1, numPartitions=1).select(probe(F.lit(" ".join(_NEEDED)))).collect()
    except (Py4JError, PySparkException) as error:
        python = spark.conf.get("spark.sql.execution.pyspark.python", None) or (
            spark.sparkContext.pythonExec if is_classic(spark) else "the Python of the server"
        )
        problem = None if interruption(error) else _name_cause(str(error), python)
        if problem is None:
            raise
        raise ConfigError(f"Python workers cannot run dcrec-spark: {problem}; {_what_to_set(spark)}") from error
    report: dict[str, Any] = json.loads(row[0])
    return report


def _probe() -> Callable[[str], str]:
    """Return the function for the task: a nested one, which travels by value to workers that lack this module."""

    def probe(needed: str) -> str:
        import json
        import sys
        from importlib import import_module
        from os.path import dirname

        report: dict[str, Any] = {"python": sys.executable, "missing": {}}
        for name in needed.split():
            try:
                module = import_module(name)
            except ImportError as error:
                report["missing"].setdefault(error.name or name, str(error))
            else:
                report[name] = module.__version__
                report["home"] = dirname(str(module.__file__))
        return json.dumps(report)

    return probe


def _difference(report: Mapping[str, Any]) -> str | None:
    where = f"they run {report['python']}"
    if missing := report["missing"]:
        return f"{where}, which cannot import {', '.join(missing)} ({'; '.join(missing.values())})"
    found = report["dcrec_spark"]
    if found != __version__:
        return f"{where} with dcrec-spark {found} from {report['home']}, and the driver has {__version__}"
    for name in _NEEDED[:-1]:
        here = import_module(name).__version__
        if report[name] != here:
            log.warning("Python workers have %s %s, and the driver has %s", name, report[name], here)
    return None


def _name_cause(failure: str, python: str) -> str | None:
    """Return what made the task fail before it ran, in words. None for an unknown cause."""
    if match := re.search(r"worker has different version: ([\d.]+) than that in driver: ([\d.]+)", failure):
        return f"they run Python {match[1]} ({python}), and the driver has Python {match[2]}"
    if match := re.search(r"No module named '?([\w.]+)", failure):
        return f"they run {python}, which cannot import {match[1]}"
    if re.search(r'Cannot run program "[^"]*"', failure):
        return f"{python} cannot be started"
    return None


def _what_to_set(spark: SparkSession) -> str:
    if not is_classic(spark):
        return (
            "bring an environment that has it (make pack): spark.addArtifact("
            "'build/environment.tar.gz#environment', archive=True), then "
            "spark.conf.set('spark.sql.execution.pyspark.python', 'environment/bin/python'); or install dcrec-spark "
            "where the server's executors run"
        )
    if is_local(spark):
        return (
            f"set the environment variable PYSPARK_PYTHON={sys.executable} (or the setting spark.pyspark.python) "
            "before the Spark session starts, or make it with dcrec_spark.build_session(), which does so by itself"
        )
    return (
        "give the executors an environment that has it (make pack): --archives build/environment.tar.gz#environment "
        "with PYSPARK_PYTHON=environment/bin/python and, where the driver runs here, PYSPARK_DRIVER_PYTHON="
        f"{sys.executable}; or install dcrec-spark on every node and set spark.pyspark.python to its Python"
    )
