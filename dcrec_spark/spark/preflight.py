"""Can the Python workers of a session run this package? Asked once for each session, before the first fit.

Workers are started by the executors, with whatever Python the session names, and by default that is the ``python3`` on
PATH: not the one of an environment that is not activated. Spark then fails in the middle of a job with the stack traces
of two languages; here the answer is one sentence that says what to set.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from threading import Lock
from weakref import WeakSet

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, interruption
from dcrec_spark.spark.lineage import is_local
from dcrec_spark.version import __version__

# What the code that runs on workers imports; the last one imports the package's further needs.
_NEEDED = ("numpy", "pyarrow", "scipy", "dcrec_spark")

_CHECKED: WeakSet[SparkContext] = WeakSet()
_LOCK = Lock()

log = logging.getLogger(__name__)


def require_workers(spark: SparkSession) -> None:
    """Refuse a session whose Python workers cannot run this package; a session that passed is not asked again.

    One job of one task, on one executor. A session of Spark Connect is not asked: it has no context to run it with.

    Parameters
    ----------
    spark : SparkSession
        The session of the data.

    Raises
    ------
    ConfigError
        The workers have another version of Python or of this package, or lack a package. Says what to set.
    """
    if not hasattr(spark, "_jsparkSession"):
        log.debug("Python workers not checked: a session of Spark Connect has no Spark context")
        return
    context = spark.sparkContext
    with _LOCK:
        if context in _CHECKED:
            return
        problem = _problem(context)
        if problem:
            raise ConfigError(f"Python workers cannot run dcrec-spark: {problem}; {_what_to_set(spark)}")
        _CHECKED.add(context)


def _problem(context: SparkContext) -> str | None:
    """Return what is wrong with the workers, as a clause; None where nothing is."""
    try:
        (report,) = context.parallelize([_NEEDED], 1).mapPartitions(_probe()).collect()
    except (Py4JError, PySparkException) as error:
        problem = None if interruption(error) else _recognised(str(error), context.pythonExec)
        if problem is None:
            raise
        return problem
    return _difference(report)


def _probe() -> Callable[[Iterable[tuple[str, ...]]], Iterator[dict[str, str]]]:
    """Return the function for the task: a nested one, which travels by value to workers that lack this module."""

    def probe(tasks: Iterable[tuple[str, ...]]) -> Iterator[dict[str, str]]:
        import sys
        from importlib import import_module

        report = {"python": sys.executable}
        for name in next(iter(tasks)):
            try:
                report[name] = import_module(name).__version__
            except ImportError as error:
                report["missing"] = error.name or name
                report["error"] = str(error)
                break
        yield report

    return probe


def _difference(report: Mapping[str, str]) -> str | None:
    """How the workers' packages differ from the driver's, where that matters."""
    where = f"they run {report['python']}"
    if "missing" in report:
        return f"{where}, which cannot import {report['missing']} ({report['error']})"
    found = report["dcrec_spark"]
    if found != __version__:
        return f"{where} with dcrec-spark {found}, and the driver has {__version__}"
    for name in _NEEDED[:-1]:
        here = import_module(name).__version__
        if report[name] != here:
            log.warning("Python workers have %s %s, and the driver has %s", name, report[name], here)
    return None


def _recognised(failure: str, python: str) -> str | None:
    """Return what made the task fail before it ran, in words; None for an unknown cause."""
    if match := re.search(r"worker has different version: ([\d.]+) than that in driver: ([\d.]+)", failure):
        return f"they run Python {match[1]} ({python}), and the driver has Python {match[2]}"
    if match := re.search(r"No module named '?([\w.]+)", failure):
        return f"they run {python}, which cannot import {match[1]}"
    if re.search(r'Cannot run program "[^"]*"', failure):
        return f"{python} cannot be started"
    return None


def _what_to_set(spark: SparkSession) -> str:
    if is_local(spark):
        return (
            f"set the environment variable PYSPARK_PYTHON={sys.executable} (or the setting spark.pyspark.python) "
            "before the Spark session starts, or make it with dcrec_spark.build_session(), which does so by itself"
        )
    return (
        "give the executors this environment: --archives environment.tar.gz#environment with the setting "
        "spark.pyspark.python=environment/bin/python, or install dcrec-spark on every node and set "
        "spark.pyspark.python to its Python, before the Spark session starts"
    )
