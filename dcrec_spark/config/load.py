"""Reading of a job's configuration (defaults, YAML file, ``section.name=value``), its recorded form, and its hash.

YAML is read by the rules of version 1.2: 010 is no octal number, 1:30 and yes are text.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dcrec_spark.config import jobs, secrets
from dcrec_spark.config.sections import JobConfig, ReadingConfig, RetrainAuditConfig
from dcrec_spark.errors import ConfigError
from dcrec_spark.settings.domains import number_text
from dcrec_spark.settings.tables import PRESETS

_log = structlog.get_logger()
C = TypeVar("C", bound=JobConfig)


def load_config(kind: type[C], path: Path | None = None, overrides: Sequence[str] = ()) -> C:
    """Read the configuration of a job.

    The defaults, then the preset that ``run.preset`` names, the file, the overrides: later ones win.
    Texts may hold ``${env:VARIABLE}``, a value of the environment.

    path : a YAML file. Several jobs may share it: settings of other jobs are ignored, and logged.
    overrides : ``"section.name=value"`` each, the value read as YAML. Settings of other jobs are refused.
    Raises ConfigError: names the file, or the setting, what was found and what is expected.
    """
    layers = [(f"configuration file {path}", _from_file(path, kind))] if path is not None else []
    layers += [(f"--set {text.partition('=')[0]}", _from_override(text, kind)) for text in overrides]
    merged, sources = _merge(layers)
    # YAML reads a password of digits as a number.
    texts = {name: str(leaf) for name, leaf in _leaves(merged) if type(leaf) in (str, int, float)}
    secrets.remember_secrets(secrets.secret_values(texts, jobs.is_free_text))
    preset = _own(merged, kind)[0].get("run", {}) or {}
    name = _resolve(preset.get("preset"), "run.preset") if isinstance(preset, Mapping) else None
    if isinstance(name, str) and name in PRESETS:  # validation refuses another name
        merged, sources = _merge([(f"preset {name}", {"outcome": PRESETS[name]}), *layers])
    values = _own(merged, kind)[0]
    as_written = {name: text for name, text in texts.items() if "${" in text}
    try:
        config = kind.model_validate(_resolve(values))
    except ValidationError as error:
        # The chained pydantic error would print the values, secrets too.
        lines = [validation_message(one, as_written, kind, sources) for one in error.errors()]
        raise ConfigError("\n".join(lines)) from None
    config.as_written.update(as_written)
    return config


def read_places(path: Path | None, overrides: Sequence[str]) -> JobConfig:
    """Return what can be read of settings that are refused: where the record and the metrics of the run go."""
    found: dict[str, dict[str, Any]] = {}
    layers = [partial(_from_file, path)] if path is not None else []
    for layer in [*layers, *(partial(_from_override, text) for text in overrides)]:
        with suppress(ConfigError):
            for section, body in layer(jobs.AllSettings).items():
                found.setdefault(section, {}).update(body if isinstance(body, Mapping) else {})
    config: dict[str, dict[str, Any]] = {}
    for section, name in (("output", "path"), ("run", "name"), ("run", "run_date"), ("run", "metrics_file")):
        with suppress(ConfigError, ValidationError, KeyError):
            one = _resolve({section: {name: found[section][name]}})
            JobConfig.model_validate(one)
            config.setdefault(section, {}).update(one[section])
    return JobConfig.model_validate(config)


class _Yaml(yaml.SafeLoader):
    """YAML 1.2's core schema, but for octal numbers. Refuses the same name twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Make a mapping, unless a name is in it twice."""
        names = [name.value for name, _ in node.value]
        twice = [key for key, _ in node.value if names.count(key.value) > 1]
        if twice:
            problem = f"duplicate key {twice[-1].value}"
            raise yaml.constructor.ConstructorError(None, None, problem, twice[-1].start_mark)
        return super().construct_mapping(node, deep)


_Yaml.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),  # 010 is text, which a number's setting reads as 10
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
):
    _pattern = rf"(?!0[0-9])(?:{_pattern})" if _tag == "float" else _pattern
    _Yaml.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def read_yaml(text: str) -> Any:
    """Read YAML 1.2. Raises YAMLError, or ValueError: says what Python does not take."""
    if any("\ud800" <= character <= "\udfff" for character in text):  # as Python reads bytes of a command line
        raise ValueError("it is not UTF-8 text")
    try:
        return yaml.load(text, Loader=_Yaml)
    except RecursionError:
        raise ValueError("its lists or sections are nested too deep") from None


def _yaml_problem(error: Exception) -> str:
    if not isinstance(error, yaml.YAMLError):
        return "a number has more digits than any setting takes" if "digits" in str(error) else str(error)
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark) is not None:
        return f"{error.problem} in line {mark.line + 1}, column {mark.column + 1}"
    return "it holds characters that YAML does not allow"


def _from_file(path: Path, kind: type[JobConfig]) -> dict[Any, Any]:
    where = f"configuration file {path}"
    try:
        sections = read_yaml(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: is not UTF-8 text ({error})") from error
    except (yaml.YAMLError, ValueError) as error:
        # YAML's own words show the lines around, with their secrets.
        raise ConfigError(f"{where}: is not valid YAML: {_yaml_problem(error)}") from None
    if not isinstance(sections, dict):
        found = "a list" if isinstance(sections, list) else "a single value"
        raise ConfigError(f"{where}: found {found}, expected sections such as 'input:'")
    ignored = _own(sections, kind)[1]
    if ignored and issubclass(kind, ReadingConfig):  # listing runs takes few settings of any job
        _log.info("settings of other jobs are ignored", file=str(path), settings=ignored)
    # A section whose lines are all commented out is null, and sets nothing.
    return {
        name: body for name, body in sections.items() if body is not None or name not in jobs.AllSettings.model_fields
    }


def _from_override(text: str, kind: type[JobConfig]) -> dict[str, Any]:
    name, equals, written = text.partition("=")
    if not equals or not name.strip():
        shown = secrets.MASK if secrets.is_secret_name(text) else repr(secrets.mask_secrets(text))
        raise ConfigError(f"--set {shown}: expected section.name=value, for example exposure.rank=20")
    try:
        value = read_yaml(written)
        read_yaml(name)
    except yaml.YAMLError:
        raise ConfigError(f"--set {name}: the value cannot be read as YAML; put it in quotes") from None
    except ValueError as error:
        raise ConfigError(f"--set {name!r}: {_yaml_problem(error)}") from None
    for part in reversed(name.strip().split(".")):
        value = {part: value}
    foreign = _own(value, kind)[1]
    if foreign:
        *others, last = jobs.jobs_with(foreign[0])
        named = f"{', '.join(others)} and {last}" if others else last
        raise ConfigError(f"unknown setting for the job {kind.job}: {foreign[0]} is a setting of {named}")
    settings: dict[str, Any] = value
    return settings


def _merge(layers: Sequence[tuple[str, Mapping[Any, Any]]]) -> tuple[dict[Any, Any], dict[str, str]]:
    """Merge layers, later ones over earlier ones. Also returns the source of each dotted name."""
    merged: dict[Any, Any] = {}
    sources: dict[str, str] = {}

    def put(target: dict[Any, Any], layer: Mapping[Any, Any], source: str, prefix: str) -> None:
        for key, value in layer.items():
            name = f"{prefix}{key}"
            sources[name] = source
            if isinstance(value, Mapping):
                inner = target[key] = dict(target[key]) if isinstance(target.get(key), Mapping) else {}
                put(inner, value, source, f"{name}.")
            else:
                target[key] = value

    for source, layer in layers:
        put(merged, layer, source, "")
    return merged, sources


def _own(
    values: Mapping[Any, Any], model: type[BaseModel], everything: type[BaseModel] = jobs.AllSettings, prefix: str = ""
) -> tuple[dict[Any, Any], list[str]]:
    """Split settings into those of ``model``, with those that no job has, and the dotted names of other jobs'."""
    own: dict[Any, Any] = {}
    foreign: list[str] = []
    for name, value in values.items():
        section, whole = jobs.section_type(model, name), jobs.section_type(everything, name)
        if section is not None and whole is not None and isinstance(value, Mapping):
            own[name], others = _own(value, section, whole, f"{prefix}{name}.")
            foreign += others
        elif name in everything.model_fields and name not in model.model_fields:
            inner = whole is not None and isinstance(value, Mapping) and value
            foreign += [f"{prefix}{name}.{key}" for key in value] if inner else [f"{prefix}{name}"]
        else:
            own[name] = value
    return own, foreign


def _resolve(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _resolve(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolve(inner, name) for inner in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    if "${" in secrets.VARIABLE.sub("", value):
        raise ConfigError(f"setting {name}: found a ${{ that begins no variable, expected ${{env:VARIABLE}}")
    try:
        return secrets.VARIABLE.sub(lambda match: os.environ[match[1]], value)
    except KeyError as error:
        raise ConfigError(f"setting {name}: the environment variable {error.args[0]} is not set") from None


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{prefix}.{place}")
    else:
        yield prefix, value


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


def validation_message(
    error: ErrorDetails,
    as_written: Mapping[str, str],
    model: type[BaseModel],
    sources: Mapping[str, str] | None = None,
    prefix: str = "",
) -> str:
    """Name the setting, its file, what was found and what was expected.

    as_written : dotted name -> text of each setting with ``${env:...}``. Shown in place of its value, a secret perhaps.
    sources : dotted name -> the layer that set it. prefix : of the setting's name, with a dot at its end.
    """
    name = prefix + ".".join(str(part) for part in error["loc"])
    source = (sources or {}).get(name, "")
    where = f" ({source})" if source.startswith("configuration file") else ""
    if error["type"] in ("extra_forbidden", "invalid_key"):  # such as a number for a name
        return f"unknown setting {name}: {_hint(name, error, model, prefix)}{where}"
    expected = _expected(error)
    if isinstance(error["input"], Mapping | BaseModel):
        return f"setting {name}: expected {expected}{where}" if name else f"settings: expected {expected}"
    return f"setting {name}: found {_shown(name, error['input'], as_written)}, expected {expected}{where}"


def _hint(name: str, error: ErrorDetails, model: type[BaseModel], prefix: str) -> str:
    if any("." in str(part) for part in error["loc"]) and name in jobs.known_settings(jobs.AllSettings):
        section, _, setting = name.rpartition(".")
        return f"in a file each section has its own line; write {section}: {{{setting}: ...}}"
    nearest = jobs.nearest_settings(name.removeprefix(prefix), model)
    if nearest:
        return f"did you mean {' or '.join(prefix + other for other in nearest)}?"
    return "conf/base.yaml lists all settings"


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
    if secrets.is_secret_name(name) or secrets.is_secret_name(repr(value)):  # such as the text "password: ..."
        return secrets.MASK
    text = secrets.mask_secrets(repr(value))
    return text if len(text) <= 100 else text[:97] + "..."


# Settings that decide place, time or speed, but not the result. The fingerprint of the data stands for the rows that
# were read, and the version of a model for the model that is served or that a fit starts from.
_NO_INFLUENCE: dict[str, Any] = {
    "run": {"name", "run_date", "preset", "metrics_file"},
    "spark": True,
    "input": {"path", "table", "snapshot", "since", "until", "unchanged", "user_features", "item_features"},
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
    """Return the configuration as plain values for a log, ``run.json`` and a report, with secrets masked."""
    shown: dict[str, Any] = secrets.masked_leaves(config.model_dump(mode="json"), as_written=config.as_written)
    return shown


def config_hash(config: JobConfig) -> str:
    """Hash the settings that decide the result, SHA-256 in hex: not place, date, speed or secrets."""
    # Pydantic's own exclusion, so that a new setting counts unless it is listed there.
    excluded = _NO_INFLUENCE | ({"evaluation": True} if isinstance(config, jobs.RetrainConfig) else {})
    deciding = config.model_dump(mode="json", exclude=excluded)
    if isinstance(config, ReadingConfig):
        deciding["input"]["options"] = {
            name: value
            for name, value in config.input.options.items()
            if name.lower() not in _LOCATION_OPTIONS
            and not secrets.is_secret_name(name)
            and f"input.options.{name}" not in config.as_written
        }
    canonical = json.dumps(deciding, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
