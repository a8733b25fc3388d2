"""What of a configuration may be written down, and what of it decides the answer."""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from dcrec_spark.config.sections import RunConfig

MASK = "***"
_SECRET_WORD = r"(?:pass|pwd|secret|token|credential|signature|\bsas\b|(?:access|account|api|private|shared)[._-]?key)"
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)
_SECRETS_IN_TEXT = (
    # scheme://user:secret@host and jdbc:oracle:thin:user/secret@host
    (re.compile(r"(://[^/@\s:]*:)[^/@\s]+(?=@)"), rf"\g<1>{MASK}"),
    (re.compile(r"(:thin:[^/@\s]+/)[^@\s]+(?=@)"), rf"\g<1>{MASK}"),
    # password=secret, in a URL's query or a Java option
    (re.compile(rf"([\w.-]*{_SECRET_WORD}[\w.-]*\s*=\s*)[^&;,\s'\"]+", re.IGNORECASE), rf"\g<1>{MASK}"),
)

# Settings that say where, when or how fast, not what: the answer is the same with other values of them.
# Which rows were read is told by the fingerprint of the data, not by where they were; which model was served or begun
# with by its version. How a model is judged, and what a search tried, change nothing in it.
_NO_INFLUENCE: dict[str, Any] = {
    "run": {"name", "run_date"},
    "spark": True,
    "input": {"path": True, "table": True},
    "engine": {"num_user_blocks", "num_item_blocks", "exchange", "checkpoint_interval"},
    "model": True,
    "recommend": {"users"},
    "evaluation": True,
    "simulation": True,
    "tuning": True,
    "studies": True,
    "output": True,
}
_LOCATION_OPTIONS = {"url", "user", "dbtable", "query", "path"}


def is_secret_name(name: str) -> bool:
    """Whether a setting called ``name`` is likely to hold a secret, by the words in its name."""
    return _SECRET_NAME.search(name) is not None


def mask_secrets(text: str) -> str:
    """``text`` without the passwords in its URLs and in its ``password=...`` parts."""
    for pattern, masked in _SECRETS_IN_TEXT:
        text = pattern.sub(masked, text)
    return text


def resolved(config: RunConfig) -> dict[str, Any]:
    """The configuration as plain values, fit for a log, ``run.json`` and a report.

    A setting written with ``${...}`` is shown as it was written, for the environment is where secrets come
    from. Settings whose name speaks of a secret, and secrets inside URLs, are masked.
    """
    as_written = config.as_written()

    def shown(name: str, value: Any) -> Any:
        if name in as_written:
            return mask_secrets(as_written[name])
        if not isinstance(value, str):
            return value
        return MASK if is_secret_name(name) else mask_secrets(value)

    dumped: dict[str, Any] = _each_leaf(config.model_dump(mode="json"), shown)
    return dumped


def config_hash(config: RunConfig) -> str:
    """SHA-256 (hex) of the settings that decide the answer.

    The same for runs that differ only in name, date, place of input and output, Spark properties, blocks,
    secrets.
    """
    # Pydantic's own exclusion, so that a new setting counts unless it is said not to.
    deciding = config.model_dump(mode="json", exclude=_NO_INFLUENCE)
    from_outside = config.as_written()
    deciding["input"]["options"] = {
        name: value
        for name, value in config.input.options.items()
        if name.lower() not in _LOCATION_OPTIONS
        and not is_secret_name(name)
        and f"input.options.{name}" not in from_outside
    }
    canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _each_leaf(value: Any, change: Callable[[str, Any], Any], prefix: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _each_leaf(inner, change, f"{prefix}.{key}" if prefix else key) for key, inner in value.items()}
    return change(prefix, value)
