"""What of a configuration may be written down, and what of it decides the answer."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from dcrec_spark.config.audit import RetrainAuditConfig
from dcrec_spark.config.secrets import is_secret_name, mask_secrets, masked
from dcrec_spark.config.shared import JobConfig, ReadingConfig

# Settings that say where, when or how fast, not what: the answer is the same with other values of them.
# The fingerprint of the data stands for the rows that were read, not the place where they were; the version of a model
# stands for the model that is served or that a fit starts from.
_LIMITS = set(RetrainAuditConfig.model_fields) - {"held_out_share"}
_NO_INFLUENCE: dict[str, Any] = {
    "run": {"name", "run_date", "preset", "metrics_file", "mlflow_uri", "mlflow_experiment"},
    "spark": True,
    "input": {"path": True, "table": True, "snapshot": True, "unchanged": True, "count_news": True},
    "engine": {"num_blocks", "exchange", "checkpoint_interval"},
    "model": True,
    "recommend": {
        *("users", "catalogue", "exclude", "overlap", "overlap_odds", "fallback", "similar_items", "similarity"),
        *("vectors", "changes"),
    },
    "audit": _LIMITS,
    "evaluation": {"test_path", "titles_path", "compare_with"},
    "studies": {"data", "work"},
    "output": True,
    "warehouses": True,
}
_LOCATION_OPTIONS = {"url", "user", "dbtable", "query", "path"}


def resolved(config: JobConfig) -> dict[str, Any]:
    """Give the configuration as plain values, fit for a log, ``run.json`` and a report.

    A setting written with ``${...}`` is shown as it was written, because secrets come from the environment. Settings
    whose name speaks of a secret, and secrets inside URLs, are masked.
    """
    as_written = config.as_written()

    def shown(name: str, value: Any) -> Any:
        if name in as_written:
            return mask_secrets(as_written[name])
        return masked(name, value)

    dumped: dict[str, Any] = _each_leaf(config.model_dump(mode="json"), shown)
    return dumped


def config_hash(config: JobConfig) -> str:
    """Hash the settings that decide the answer: SHA-256, in hex.

    Runs that differ only in name, date, place of input and output, Spark properties, blocks or secrets have the same
    hash.
    """
    # Pydantic's own exclusion, so that a new setting counts unless it is listed there.
    deciding = config.model_dump(mode="json", exclude=_NO_INFLUENCE)
    if isinstance(config, ReadingConfig):
        deciding["input"]["options"] = _deciding_options(config)
    canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _deciding_options(config: ReadingConfig) -> dict[str, str]:
    from_outside = config.as_written()
    return {
        name: value
        for name, value in config.input.options.items()
        if name.lower() not in _LOCATION_OPTIONS
        and not is_secret_name(name)
        and f"input.options.{name}" not in from_outside
    }


def _each_leaf(value: Any, change: Callable[[str, Any], Any], prefix: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _each_leaf(inner, change, f"{prefix}.{key}" if prefix else key) for key, inner in value.items()}
    return change(prefix, value)
