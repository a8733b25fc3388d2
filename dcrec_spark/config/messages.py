"""What is wrong with a configuration, in a user's words: the setting, what was found, what is expected."""

import re
from collections.abc import Mapping
from typing import Any

from omegaconf.errors import GrammarParseError, OmegaConfBaseException
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from dcrec_spark.config.jobs import AllSettings
from dcrec_spark.config.names import known_settings, nearest_settings
from dcrec_spark.config.secrets import MASK, is_secret_name, mask_secrets
from dcrec_spark.settings.domains import number_text

# Pydantic's name of an error, or the first word of it -> what was expected.
_EXPECTED = {
    "model": "a section of settings",
    "dict": "names with their values",
    "tuple_type": "a list such as [5, 10]",
    "too_short": "a list with a value or more",
    "string_type": "text",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-', starting with a letter or digit",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "date": "a date written YYYY-MM-DD, or null for today in UTC",
}


def validation_message(error: ErrorDetails, as_written: Mapping[str, str], model: type[BaseModel]) -> str:
    """Say one error of pydantic's in a user's words.

    Parameters
    ----------
    error : as pydantic describes it.
    as_written : the text of each setting that was given by interpolation, by its dotted name; shown in place of its
        value, which may be a secret.
    model : the configuration that was asked for, whose names are suggested.
    """
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] in ("extra_forbidden", "invalid_key"):  # such as a number for a name
        return f"unknown setting {name}: {_hint(name, error, model)}"
    expected = _expected(error)
    if isinstance(error["input"], Mapping | BaseModel):
        return f"setting {name}: expected {expected}" if name else f"settings: expected {expected}"
    return f"setting {name}: found {_shown(name, error['input'], as_written)}, expected {expected}"


def interpolation_message(error: OmegaConfBaseException) -> str:
    """Say what is wrong with a ``${...}`` that cannot be read, or that leads nowhere."""
    setting = f"setting {error.full_key}" if error.full_key else "settings"
    variable = re.search(r"Environment variable '([^']*)' not found", str(error))
    if variable:
        return f"{setting}: the environment variable {variable[1]} is not set"
    if isinstance(error, GrammarParseError):
        return (
            f"{setting}: found a ${{ whose end or content cannot be read, expected ${{oc.env:VARIABLE}} or "
            "${section.name} (a literal ${ is written \\${)"
        )
    reason = str(error.msg or error).splitlines()[0]
    return f"{setting}: {mask_secrets(reason)} (a literal ${{ is written \\${{)"


def _hint(name: str, error: ErrorDetails, model: type[BaseModel]) -> str:
    if any("." in str(part) for part in error["loc"]) and name in known_settings(AllSettings):
        section, _, setting = name.rpartition(".")
        return f"in a file each section has its own line; write {section}: {{{setting}: ...}}"
    nearest = nearest_settings(name, model)
    return f"did you mean {' or '.join(nearest)}?" if nearest else "conf/base.yaml lists all settings"


def _expected(error: ErrorDetails) -> str:
    kind = error["type"].partition("_")[0]
    limits = error.get("ctx", {})
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [f"{sign} {number_text(limits[name])}" for name, sign in signs.items() if name in limits]
    if bounds:
        return f"a number {' and '.join(bounds)}"
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]]
    return _EXPECTED.get(kind, error["msg"].removeprefix("Value error, ").removeprefix("Input should be "))


def _shown(name: str, value: Any, as_written: Mapping[str, str]) -> str:
    if name in as_written:
        return as_written[name]
    if value is None:
        return "null"
    if is_secret_name(name) or is_secret_name(repr(value)):  # such as the text "password: ..."
        return MASK
    text = mask_secrets(repr(value))
    return text if len(text) <= 100 else text[:97] + "..."
