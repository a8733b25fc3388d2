"""Figures of the last run as a text file for Prometheus.

The textfile collector of node_exporter reads it. Each run replaces it atomically, whether it was published or not.
A file that cannot be written never fails a run.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from dcrec_spark.storage.local import LocalFiles

_log = structlog.get_logger()
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_SUCCESS = "dcrec_run_success_timestamp_seconds"
_LAST_SUCCESS = re.compile(rf"^{_SUCCESS}\{{.*\}} ([-+.e\d]+)$", re.MULTILINE)


def text_of(facts: Mapping[str, Any], before: str = "") -> str:
    """Write the facts of run.json in Prometheus' text format. before : the text of the last run."""
    job = {"job": facts["job"], "name": facts["name"]}
    verdicts = facts["audit"]["verdicts"]
    finished, last = datetime.fromisoformat(facts["finished_at"]).timestamp(), _LAST_SUCCESS.search(before)
    success = {"": finished} if facts["exit_code"] == 0 else {} if last is None else {"": float(last[1])}
    published = facts["exit_code"] == 0 and facts["status"] != "skipped"
    found, limit, passed = ({v["check"]: v[name] for v in verdicts} for name in ("found", "limit", "passed"))
    # Name, help text, label, and the value of each of its values.
    gauges: list[tuple[str, str, str, Mapping[str, float]]] = [
        ("dcrec_run_published", "1 if the last run was published, else 0", "", {"": published}),
        ("dcrec_run_exit_code", "exit code of the last run", "", {"": facts["exit_code"]}),
        ("dcrec_run_finished_timestamp_seconds", "when the last run ended, in seconds since 1970", "", {"": finished}),
        (_SUCCESS, "when a run last ended with 0, in seconds since 1970", "", success),
        ("dcrec_run_step_seconds", "seconds of a step of the last run", "step", facts["timings"]),
        ("dcrec_run_count", "counts of the last run", "of", facts["counts"]),
        ("dcrec_run_iterations", "iterations of a stage of the last run", "stage", facts["iterations"]),
        ("dcrec_run_warnings", "warnings of the last run", "", {"": len(facts["warnings"])}),
        ("dcrec_audit_found", "figures of the audit of the last run", "check", found),
        ("dcrec_audit_limit", "limits of the audit of the last run", "check", limit),
        ("dcrec_audit_passed", "1 if the figure kept to its limit, else 0", "check", passed),
    ]
    lines = []
    for name, about, label, values in gauges:
        lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"] if values else []
        for of_what, value in values.items():
            labels = job | ({label: of_what} if label else {})
            pairs = ",".join(f'{of}="{text.translate(_ESCAPES)}"' for of, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {float(value)!r}")
    return "\n".join([*lines, ""])


def write_metrics(path: str | None, facts: Mapping[str, Any]) -> None:
    """Replace the metrics of the run before. Nothing without a path."""
    if path is None:
        return
    files = LocalFiles()
    try:
        before = files.read(path).decode() if Path(path).is_file() else ""
        files.make_directory(str(Path(path).parent))
        files.write(path, text_of(facts, before).encode())
    except (OSError, UnicodeDecodeError) as error:
        _log.warning("the metrics of the run could not be written", setting="run.metrics_file", reason=str(error))
