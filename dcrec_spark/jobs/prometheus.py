"""Figures of the last run as a text file for Prometheus.

The textfile collector of node_exporter reads it. Each run replaces it atomically, whether it was published or not.
A file that cannot be written never fails a run.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

_log = structlog.get_logger()
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_SUCCESS = "dcrec_run_success_timestamp_seconds"
_LAST_SUCCESS = re.compile(rf"^{_SUCCESS}\{{.*\}} ([-+.e\d]+)$", re.MULTILINE)
# Name of the metric -> its help text.
_GAUGES = {
    "dcrec_run_published": "1 if the last run was published, else 0",
    "dcrec_run_exit_code": "exit code of the last run",
    "dcrec_run_finished_timestamp_seconds": "when the last run ended, in seconds since 1970",
    _SUCCESS: "when a run last ended with 0, in seconds since 1970",
    "dcrec_run_step_seconds": "seconds of a step of the last run",
    "dcrec_run_count": "counts of the last run",
    "dcrec_run_iterations": "iterations of a stage of the last run",
    "dcrec_run_warnings": "warnings of the last run",
    "dcrec_audit_found": "figures of the audit of the last run",
    "dcrec_audit_limit": "limits of the audit of the last run",
    "dcrec_audit_passed": "1 if the figure kept to its limit, else 0",
}


def text_of(facts: Mapping[str, Any], before: str = "") -> str:
    """Write the facts of run.json in Prometheus' text format. before : the text of the last run."""
    job = {"job": facts["job"], "name": facts["name"]}
    verdicts = facts["audit"]["verdicts"]
    finished, last = datetime.fromisoformat(facts["finished_at"]).timestamp(), _LAST_SUCCESS.search(before)
    success = [finished] if facts["exit_code"] == 0 else [float(last[1])] if last is not None else []
    values: dict[str, list[tuple[dict[str, str], float]]] = {
        "dcrec_run_published": [({}, facts["exit_code"] == 0 and facts["status"] != "skipped")],
        "dcrec_run_exit_code": [({}, facts["exit_code"])],
        "dcrec_run_finished_timestamp_seconds": [({}, finished)],
        _SUCCESS: [({}, seconds) for seconds in success],
        "dcrec_run_step_seconds": [({"step": step}, seconds) for step, seconds in facts["timings"].items()],
        "dcrec_run_count": [({"of": name}, count) for name, count in facts["counts"].items()],
        "dcrec_run_iterations": [({"stage": stage}, count) for stage, count in facts["iterations"].items()],
        "dcrec_run_warnings": [({}, len(facts["warnings"]))],
        "dcrec_audit_found": [({"check": verdict["check"]}, verdict["found"]) for verdict in verdicts],
        "dcrec_audit_limit": [({"check": verdict["check"]}, verdict["limit"]) for verdict in verdicts],
        "dcrec_audit_passed": [({"check": verdict["check"]}, verdict["passed"]) for verdict in verdicts],
    }
    lines = []
    for name, about in _GAUGES.items():
        if values[name]:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            for labels, value in values[name]:
                pairs = ",".join(f'{of}="{text.translate(_ESCAPES)}"' for of, text in (job | labels).items())
                lines.append(f"{name}{{{pairs}}} {float(value)!r}")
    return "\n".join([*lines, ""])


def write_metrics(path: str | None, facts: Mapping[str, Any]) -> None:
    """Replace the metrics of the run before. Nothing without a path."""
    if path is None:
        return
    # The collector reads *.prom, and so never this one.
    making = Path(f"{path}.{uuid4().hex[:8]}.part")
    try:
        making.parent.mkdir(parents=True, exist_ok=True)
        before = Path(path).read_text(encoding="utf-8") if Path(path).is_file() else ""
        making.write_text(text_of(facts, before), encoding="utf-8")
        os.replace(making, path)
    except (OSError, UnicodeDecodeError) as error:
        _log.warning("the metrics of the run could not be written", setting="run.metrics_file", reason=str(error))
        with suppress(OSError):
            making.unlink(missing_ok=True)
