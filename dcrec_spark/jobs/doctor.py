"""Checks of an environment, each with its cure. All of them, even if one has failed.

The checks call the functions that a run calls.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from pyspark.sql import SparkSession
from rich.table import Table
from rich.text import Text

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.sections import WarehousesConfig
from dcrec_spark.data.read import read_ratings
from dcrec_spark.errors import EXTRAS, ConfigError, DcrecError, is_installed
from dcrec_spark.jobs.runner import room_at, start_session
from dcrec_spark.jobs.sinks import check_sinks
from dcrec_spark.spark.java import ensure_java
from dcrec_spark.spark.lineage import checkpoint_directory
from dcrec_spark.spark.preflight import require_workers
from dcrec_spark.version import __version__

_MARKS = {"good": "[green]✓[/]", "bad": "[bold red]✗[/]", "open": "[dim]-[/]"}


@dataclass(frozen=True)
class Finding:
    """One line: the subject, its ``state`` (good, bad, or open: not checked), and what was found or what to do."""

    subject: str
    state: str
    text: str


class _NotApplicable(Exception):
    """Reason why a check does not apply."""


def examine(config: RetrainConfig) -> list[Finding]:
    """Check everything that a run with this configuration needs, in the order of dependencies. Writes nothing."""
    findings = [_examine("packages", _packages), _examine("extras", _extras), _examine("Java", _java)]
    sessions: list[SparkSession] = []
    for subject, check in {"Spark": _spark, **_WITH_SPARK}.items():
        needed = "Java" if findings[2].state == "bad" else "" if sessions or subject == "Spark" else "Spark"
        found = Finding(subject, "open", f"needs {needed}") if needed else _examine(subject, check, config, sessions)
        findings.append(found)
    return findings


def table_of(findings: list[Finding]) -> Table:
    """Make a table of the findings."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        table.add_row(_MARKS[finding.state], finding.subject, Text(finding.text))  # [extras] are no markup
    return table


def require_health(findings: list[Finding]) -> None:
    """Refuse an environment in which something is wrong. Raises ConfigError: names what is wrong."""
    bad = [finding.subject for finding in findings if finding.state == "bad"]
    if bad:
        raise ConfigError(f"this environment cannot run the configured job yet: {', '.join(bad)}; see above what to do")


def _examine(subject: str, check: Callable[..., str], *given: object) -> Finding:
    try:
        return Finding(subject, "good", check(*given))
    except _NotApplicable as reason:
        return Finding(subject, "open", str(reason))
    except DcrecError as error:
        return Finding(subject, "bad", str(error))


def _packages() -> str:
    installed = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "numpy", "pyarrow"))
    return f"dcrec-spark {__version__}, Python {sys.version.split()[0]}, {installed}"


def _extras() -> str:
    missing = [name for name, packages in EXTRAS.items() if not all(map(is_installed, packages))]
    if missing:
        raise _NotApplicable(
            f"not installed: {', '.join(missing)}; pip install 'dcrec-spark[{','.join(missing)}]' adds them"
        )
    return f"all installed: {', '.join(EXTRAS)}"


def _java() -> str:
    home = ensure_java()
    return f"{home.version} at {home.path} (from {home.source})"


def _spark(config: RetrainConfig, sessions: list[SparkSession]) -> str:
    sessions.append(start_session(config, writes=False))
    return f"{sessions[0].version} on {sessions[0].conf.get('spark.master')}"


def _input(config: RetrainConfig, sessions: list[SparkSession]) -> str:
    place = config.input.table if config.input.format in ("table", "jdbc") else config.input.path
    if place is None:
        raise _NotApplicable("neither input.path nor input.table is set")
    read_ratings(sessions[0], config.input)
    return f"{place} opens as {config.input.format}"


def _output(config: RetrainConfig, sessions: list[SparkSession]) -> str:
    if config.output.path is None:
        raise _NotApplicable("setting output.path is not set")
    check_sinks(config, sessions[0], config.output.path)
    more = [f", warehouses.{name}" for name, unset in WarehousesConfig() if getattr(config.warehouses, name) != unset]
    return f"{config.output.path}{''.join(more)} can be written to, {room_at(config.output.path)}"


def _checkpoints(config: RetrainConfig, sessions: list[SparkSession]) -> str:
    place = config.spark.checkpoint_dir or checkpoint_directory(sessions[0])
    if place is None:
        raise _NotApplicable("not needed on one machine or on Spark Connect; on a cluster, spark.checkpoint_dir")
    return place


_WITH_SPARK: dict[str, Callable[[RetrainConfig, list[SparkSession]], str]] = {
    "Python workers": lambda _config, sessions: f"run {require_workers(sessions[0])}",
    "checkpoints": _checkpoints,
    "input": _input,
    "output": _output,
}
