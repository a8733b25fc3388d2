"""Defaults <- YAML file <- ``section.name=value``, checked into a :class:`RunConfig`."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dcrec_spark.config.record import is_secret_name, mask_secrets
from dcrec_spark.config.sections import RunConfig
from dcrec_spark.errors import ConfigError

# In a user's words, by pydantic's name of the error or the first word of it.
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


def load_config(path: Path | None = None, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the configuration of a run.

    Parameters
    ----------
    path : a YAML file with the settings that differ from the defaults (``conf/base.yaml`` lists them), or
        None.
    overrides : ``"section.name=value"`` each, the value read as YAML; later ones win, and all win over
        the file.

    Values may hold ``${oc.env:VARIABLE}``, the environment, and ``${section.name}``, another setting.

    Raises
    ------
    ConfigError : the file is missing or is not YAML, an override is not ``name=value``, a setting is unknown
        (the nearest known name is suggested), has the wrong type or is out of range, or an environment
        variable is not set.
    """
    merged = _merged(path, overrides)
    try:
        written = OmegaConf.to_container(merged, resolve=False)
        values = OmegaConf.to_container(merged, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(_interpolation_message(error)) from error
    as_written = {name: text for name, text in _leaves(written) if isinstance(text, str) and "${" in text}
    try:
        return RunConfig.model_validate(values).written_as(as_written)
    except ValidationError as error:
        # The chained pydantic error would print the values, secrets too.
        raise ConfigError("\n".join(_message(one, as_written) for one in error.errors())) from None


def _merged(path: Path | None, overrides: Sequence[str]) -> Any:
    merged: Any = OmegaConf.create(RunConfig().model_dump(mode="json"))
    layers = [(f"configuration file {path}", _from_file(path))]
    layers += [(f"--set {text.partition('=')[0]}", _from_override(text)) for text in overrides]
    for source, layer in layers:
        try:
            merged = OmegaConf.merge(merged, layer)
        except (OmegaConfBaseException, TypeError) as error:
            raise ConfigError(f"{source}: is a list where a section or a value belongs") from error
    return merged


def _from_file(path: Path | None) -> DictConfig:
    if path is None:
        return OmegaConf.create({})
    try:
        loaded = OmegaConf.load(path)
    except OSError as error:
        raise ConfigError(f"configuration file {path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"configuration file {path}: is not UTF-8 text ({error})") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"configuration file {path}: is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, DictConfig):
        raise ConfigError(f"configuration file {path}: expected sections such as 'input:', found a list")
    sections: Any = OmegaConf.to_container(loaded, resolve=False)
    # A section whose lines are all commented out is read as null; it sets nothing.
    return OmegaConf.create({name: body for name, body in sections.items() if body is not None})


def _from_override(text: str) -> DictConfig:
    name, equals, _ = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {mask_secrets(text)!r}: expected section.name=value, for example exposure.rank=20")
    try:
        return OmegaConf.from_dotlist([text])
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"--set {name}: the value cannot be read as YAML; put it in quotes") from error


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def known_settings(model: type[BaseModel] = RunConfig, prefix: str = "") -> list[str]:
    """The dotted name of every setting, in the order of ``conf/base.yaml``."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            names += known_settings(field.annotation, f"{prefix}{name}.")
        else:
            names.append(f"{prefix}{name}")
    return names


def _nearest(name: str) -> list[str]:
    known = known_settings()
    sections = sorted({setting.rpartition(".")[0] for setting in known})
    last_word = name.rpartition(".")[2]
    same_last_word = [setting for setting in known if setting.rpartition(".")[2] == last_word]
    return same_last_word or difflib.get_close_matches(name, known + sections, n=1, cutoff=0.6)


def _message(error: ErrorDetails, as_written: Mapping[str, str]) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        nearest = _nearest(name)
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else "conf/base.yaml lists all settings"
        return f"unknown setting {name}: {hint}"
    expected = _expected(error)
    if isinstance(error["input"], Mapping | BaseModel):
        return f"setting {name}: expected {expected}" if name else f"settings: expected {expected}"
    return f"setting {name}: found {_shown(name, error['input'], as_written)}, expected {expected}"


def _expected(error: ErrorDetails) -> str:
    kind = error["type"].partition("_")[0]
    limits = error.get("ctx", {})
    if "ge" in limits or "gt" in limits or "le" in limits:
        signs = {"ge": ">=", "gt": ">", "le": "<="}
        return "a number " + " and ".join(f"{sign} {limits[name]}" for name, sign in signs.items() if name in limits)
    if error["type"] in _EXPECTED:
        return _EXPECTED[error["type"]]
    return _EXPECTED.get(kind, error["msg"].removeprefix("Value error, ").removeprefix("Input should be "))


def _shown(name: str, value: Any, as_written: Mapping[str, str]) -> str:
    if name in as_written:
        return as_written[name]
    if is_secret_name(name):
        return "***"
    if value is None:
        return "null"
    text = mask_secrets(repr(value))
    return text if len(text) <= 100 else text[:97] + "..."


def _interpolation_message(error: OmegaConfBaseException) -> str:
    setting = f"setting {error.full_key}" if error.full_key else "settings"
    variable = re.search(r"Environment variable '([^']*)' not found", str(error))
    if variable:
        return f"{setting}: the environment variable {variable[1]} is not set"
    reason = str(error.msg or error).splitlines()[0]
    return f"{setting}: {mask_secrets(reason)} (a literal ${{ is written \\${{)"
