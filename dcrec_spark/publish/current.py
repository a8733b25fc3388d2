"""Read what is published: the run that readers are to read, and its tables.

::

    <output>/CURRENT                    the run_id of the current run
    <output>/run_id=<run_id>/run.json   its record
    <output>/run_id=<run_id>/<table>/   its tables, as Parquet

A publisher replaces ``CURRENT`` in one step, so that a reader gets all tables of before or all new ones.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.publish.manifest import MANIFEST, RECORD, check_manifest, read_json
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.protocol import Files

CURRENT = "CURRENT"
RUN_PREFIX = "run_id="
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# What the run_ids of jobs begin with: when the run began, or a later time, so that they rise from run to run.
STAMP = re.compile(r"\d{8}T\d{6}(?=-)")
TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class PublishedRun:
    """A published run.

    run_id : its name. The tables hold it as a column.
    directory : the URI of its directory: each table is a directory of Parquet files in there.
    record : content of ``run.json``: status, counts, warnings, timings, configuration.

    Examples
    --------
    >>> run = PublishedRun("20260101", "file:///output/run_id=20260101", {"counts": {"users": 943}})
    >>> run.record["counts"]["users"]
    943
    """

    run_id: str
    directory: str
    record: dict[str, Any]


def current_run(output: str, spark: SparkSession | None = None) -> PublishedRun:
    """Return the run that readers of an output directory are to read.

    output : the directory that the jobs publish to, ``output.path`` in their configuration.
    spark : needed for paths other than local ones, ``hdfs://`` for one.

    Raises DataError: nothing is published there, or ``CURRENT`` names no run.

    Examples
    --------
    >>> run = current_run("output/nightly")  # doctest: +SKIP
    >>> run.run_id, run.record["status"]  # doctest: +SKIP
    ('20261122T021500-5f3c1a', 'published')
    """
    run_id = current_run_id(output, spark)
    if run_id is None:
        raise DataError(f"nothing is published under {output}: it holds no {CURRENT}")
    return published_run(output, run_id, spark)


def published_run(output: str, run_id: str, spark: SparkSession | None = None) -> PublishedRun:
    """Return a run by its run_id. Raises DataError: it is not there, or its record is damaged."""
    files, root = open_files(output, spark)
    directory = files.uri(run_path(root, run_id))
    record = read_record(directory, spark)
    if record is None:
        raise DataError(f"run {run_id} under {output} holds no {RECORD}: restore it, or go back to another run")
    return PublishedRun(run_id, directory, record)


def newest_of(run_ids: Iterable[str]) -> str | None:
    """Return the newest run that a job has named. Names that people gave have no order."""
    return max((run_id for run_id in run_ids if STAMP.match(run_id)), default=None)


def read_current(spark: SparkSession, output: str, table: str) -> DataFrame:
    """Read a table of the current run.

    spark : session to read with.
    output : the directory that the jobs publish to, ``output.path`` in their configuration.
    table : ``recommendations``, ``user_factors``, ``item_factors``, ``metrics``, ``rejects``, ``runs``, ...

    Returns rows of the table. The frame stays on the run that it was opened on, whatever is published later, until
    ``output.keep`` removes that run.
    Raises DataError: nothing is published there, or the run has no such table. ConfigError: ``table`` cannot be a
    table's name.

    Examples
    --------
    >>> top = read_current(spark, "output/nightly", "recommendations")  # doctest: +SKIP
    >>> top.where("user_id = 7").orderBy("rank").show()  # doctest: +SKIP
    """
    require_name("table", table, TABLE_NAME)
    files, root = open_files(output, spark)
    run_id = run_id_in(files, root)
    if run_id is None:
        raise DataError(f"nothing is published under {output}: it holds no {CURRENT}")
    path = f"{run_path(root, run_id)}/{table}"
    if not files.exists(path):
        raise DataError(f"run {run_id} under {output} has no table {table}")
    return spark.read.parquet(files.uri(path))


def current_run_id(output: str, spark: SparkSession | None = None) -> str | None:
    """Return the published run_id. None when nothing has been published yet."""
    return run_id_in(*open_files(output, spark))


def read_record(run_directory: str, spark: SparkSession | None = None) -> dict[str, Any] | None:
    """Read ``run.json`` of a published run. None where there is none.

    Raises DataError: it is damaged, not the one that was published, or the manifest, which would tell, is missing.
    """
    files, path = open_files(run_directory, spark, setting="run directory")
    if not any(files.exists(f"{path}/{name}") for name in (RECORD, MANIFEST)):
        return None
    # Before its checksum, so that an unreadable record is reported as that.
    record = read_json(files, f"{path}/{RECORD}")
    check_manifest(files, path, RECORD)
    return record


def run_id_in(files: Files, root: str) -> str | None:
    """Read the run that ``CURRENT`` under ``root`` names. None where there is no such file."""
    return read_run_id(files, f"{root}/{CURRENT}") if files.exists(f"{root}/{CURRENT}") else None


def read_run_id(files: Files, path: str) -> str:
    """Read the run_id in a file. Raises DataError: it holds something else."""
    try:
        text = files.read(path).decode(errors="replace").strip()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); expected a run_id in it: dcrec rollback RUN") from error
    if RUN_ID.fullmatch(text) is None:
        raise DataError(f"{path} holds {text[:200]!r}; expected the run_id of a published run: dcrec rollback RUN")
    return text


def run_path(root: str, run_id: str) -> str:
    """Return the directory of a published run."""
    return f"{root}/{RUN_PREFIX}{run_id}"


def require_name(what: str, value: str, pattern: re.Pattern[str]) -> None:
    """Refuse a name that could lead out of the output directory. Raises ConfigError."""
    if pattern.fullmatch(value) is None:
        raise ConfigError(f"{what} is {value!r}; expected text that matches {pattern.pattern}")
