"""Recorded form of a configuration, and the hash of the settings that decide the result."""

import hashlib
import json
from typing import Any

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.secrets import is_secret_name, mask_secrets, masked_leaves
from dcrec_spark.config.sections import JobConfig, ReadingConfig, RetrainAuditConfig

# Settings that decide place, time or speed, but not the result. The fingerprint of the data stands for the rows that
# were read, and the version of a model for the model that is served or that a fit starts from.
_NO_INFLUENCE: dict[str, Any] = {
    "run": {"name", "run_date", "preset", "metrics_file"},
    "spark": True,
    "input": {"path": True, "table": True, "snapshot": True, "unchanged": True},
    "engine": {"num_blocks", "exchange", "checkpoint_interval"},
    "model": True,
    "recommend": {"users", "catalogue", "exclude", "extra"},
    "audit": set(RetrainAuditConfig.model_fields) - {"held_out_share"},
    "evaluation": {"test_path", "titles_path", "compare_with"},
    "output": True,
    "warehouses": True,
}
_LOCATION_OPTIONS = {"url", "user", "dbtable", "query", "path"}


def resolved(config: JobConfig) -> dict[str, Any]:
    """Return the configuration as plain values, fit for a log, ``run.json`` and a report.

    A setting with ``${env:...}`` is shown as it was written, because secrets come from the environment. Settings whose
    name speaks of a secret, and secrets inside URLs, are masked.
    """
    as_written = config.as_written()

    def show(value: Any, name: str = "") -> Any:
        if name in as_written:
            return mask_secrets(as_written[name])
        if isinstance(value, dict):
            return {key: show(inner, f"{name}.{key}" if name else key) for key, inner in value.items()}
        if isinstance(value, list):
            return [show(inner, f"{name}.{place}") for place, inner in enumerate(value)]
        return masked_leaves(value, name)

    shown: dict[str, Any] = show(config.model_dump(mode="json"))
    return shown


def config_hash(config: JobConfig) -> str:
    """Hash the settings that decide the result: SHA-256, in hex.

    Runs that differ only in name, date, place of input and output, Spark properties, blocks or secrets have the same
    hash.
    """
    # Pydantic's own exclusion, so that a new setting counts unless it is listed there.
    excluded = _NO_INFLUENCE | ({"evaluation": True} if isinstance(config, RetrainConfig) else {})
    deciding = config.model_dump(mode="json", exclude=excluded)
    if isinstance(config, ReadingConfig):
        from_environment = config.as_written()
        deciding["input"]["options"] = {
            name: value
            for name, value in config.input.options.items()
            if name.lower() not in _LOCATION_OPTIONS
            and not is_secret_name(name)
            and f"input.options.{name}" not in from_environment
        }
    canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
