"""Defaults <- YAML file <- ``section.name=value``, checked into the configuration of one job."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import structlog
import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from dcrec_spark.config.environment import secret_values
from dcrec_spark.config.jobs import AllSettings
from dcrec_spark.config.messages import interpolation_message, validation_message
from dcrec_spark.config.names import foreign_settings, jobs_with, section_type
from dcrec_spark.config.secrets import MASK, is_secret_name, mask_secrets, remember_secrets
from dcrec_spark.config.shared import JobConfig
from dcrec_spark.errors import ConfigError
from dcrec_spark.settings.tables import PRESETS

_log = structlog.get_logger()
C = TypeVar("C", bound=JobConfig)


def load_config(kind: type[C], path: Path | None = None, overrides: Sequence[str] = ()) -> C:
    """Read the configuration of a job.

    The defaults, then the preset that ``run.preset`` names, the file, the overrides: later ones win.
    Values may hold ``${oc.env:VARIABLE}``, the environment, and ``${section.name}``, another setting.

    Parameters
    ----------
    kind : the job's configuration type, such as ``RetrainConfig``.
    path : a YAML file with the settings that differ from the defaults (``conf/base.yaml`` lists them), or None.
        Several jobs may share a file: settings of other jobs are left aside, and logged.
    overrides : ``"section.name=value"`` each, the value read as YAML; later ones win, and all win over the file.

    Raises
    ------
    ConfigError : the file is missing or is not YAML, an override is not ``name=value`` or sets what another job has, a
        setting is unknown (the nearest known name is suggested), has the wrong type or is out of range, or an
        environment variable is not set.
    """
    layers = [(f"configuration file {path}", _from_file(path, kind))]
    layers += [(f"--set {text.partition('=')[0]}", _from_override(text, kind)) for text in overrides]
    merged = _merged(layers)
    preset = _preset(merged)
    if preset:
        merged = _merged([*preset, *layers])
    written = OmegaConf.to_container(merged, resolve=False)
    texts = {name: text for name, text in _leaves(written) if isinstance(text, str)}
    # YAML reads a password of digits as a number.
    numbers = {name: str(leaf) for name, leaf in _leaves(written) if type(leaf) in (int, float)}
    remember_secrets(secret_values({**numbers, **texts}, AllSettings))
    try:
        values = _own_values(merged, kind, AllSettings)
    except OmegaConfBaseException as error:
        raise ConfigError(interpolation_message(error)) from error
    as_written = {name: text for name, text in texts.items() if "${" in text}
    try:
        return kind.model_validate(values).written_as(as_written)
    except ValidationError as error:
        # The chained pydantic error would print the values, secrets too.
        raise ConfigError("\n".join(validation_message(one, as_written, kind) for one in error.errors())) from None


def _preset(merged: DictConfig) -> list[tuple[str, DictConfig]]:
    """Return the settings of ``run.preset``, which all others win over; validation refuses a name that is none."""
    try:
        name = OmegaConf.select(merged, "run.preset")
    except OmegaConfBaseException as error:
        raise ConfigError(interpolation_message(error)) from error
    known = isinstance(name, str) and name in PRESETS
    return [(f"preset {name}", OmegaConf.create({"outcome": dict(PRESETS[name])}))] if known else []


def _merged(layers: Sequence[tuple[str, DictConfig]]) -> DictConfig:
    # All jobs' defaults, because ${section.name} may name a setting of any job.
    merged: Any = OmegaConf.create(AllSettings().model_dump(mode="json"))
    for source, layer in layers:
        before, given = (OmegaConf.to_container(node, resolve=False) for node in (merged, layer))
        clashes = [f"{source}: {clash}" for clash in _clashes(before, given)]
        if clashes:
            raise ConfigError("\n".join(clashes))
        try:
            merged.merge_with(layer)  # OmegaConf.merge would copy all settings for each of them
        except (OmegaConfBaseException, TypeError) as error:  # behind an interpolation
            raise ConfigError(f"{source}: is a list where a section or a value belongs") from error
    return merged  # type: ignore[no-any-return]


def _clashes(known: Any, given: Any, name: str = "") -> Iterator[str]:
    """Name each list in the place of names, and names in the place of a list, which do not merge."""
    if isinstance(known, Mapping) and isinstance(given, Mapping):
        for key in known.keys() & given.keys():
            yield from _clashes(known[key], given[key], f"{name}.{key}" if name else str(key))
    elif isinstance(known, Mapping) and isinstance(given, list):
        yield f"setting {name}: found a list, expected names with their values"
    elif isinstance(known, list) and isinstance(given, Mapping):
        yield f"setting {name}: found names with values, expected a list"


def _from_file(path: Path | None, kind: type[JobConfig]) -> DictConfig:
    if path is None:
        return OmegaConf.create({})
    sections: Any = OmegaConf.to_container(_parsed(path), resolve=False)
    ignored = list(foreign_settings(sections, kind))
    if ignored:
        _log.info("settings of other jobs are left aside", file=str(path), settings=ignored)
    # A section whose lines are all commented out is read as null; it sets nothing.
    empty = {name for name, body in sections.items() if body is None and name in AllSettings.model_fields}
    return OmegaConf.create({name: body for name, body in sections.items() if name not in empty})


def _parsed(path: Path) -> Any:
    where = f"configuration file {path}"
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return OmegaConf.create({})
        if not isinstance(root, yaml.MappingNode):
            found = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
            raise ConfigError(f"{where}: found {found}, expected sections such as 'input:'")
        parsed = OmegaConf.create(text)  # which refuses the same name twice
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: is not UTF-8 text ({error})") from error
    except yaml.YAMLError as error:
        # Neither pydantic's nor YAML's own words: they show the lines around, with their secrets.
        raise ConfigError(f"{where}: is not valid YAML: {_yaml_problem(error)}") from None
    except OmegaConfBaseException as error:
        raise ConfigError(f"{where}: {interpolation_message(error)}") from error
    return parsed


def _yaml_problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "it holds characters that YAML does not allow"
    mark = error.problem_mark
    return f"{error.problem} in line {mark.line + 1}, column {mark.column + 1}"


def _from_override(text: str, kind: type[JobConfig]) -> DictConfig:
    name, equals, _ = text.partition("=")
    if not equals or not name.strip():
        shown = MASK if is_secret_name(text) else repr(mask_secrets(text))
        raise ConfigError(f"--set {shown}: expected section.name=value, for example exposure.rank=20")
    try:
        layer = OmegaConf.from_dotlist([text])
    except GrammarParseError as error:
        raise ConfigError(f"--set {name}: {interpolation_message(error)}") from error
    except (yaml.YAMLError, OmegaConfBaseException):
        raise ConfigError(f"--set {name}: the value cannot be read as YAML; put it in quotes") from None
    sections: Any = OmegaConf.to_container(layer, resolve=False)
    foreign = list(foreign_settings(sections, kind))
    if foreign:
        *others, last = jobs_with(foreign[0])
        knowing = f"{', '.join(others)} and {last}" if others else last
        raise ConfigError(f"unknown setting for the job {kind.job}: {foreign[0]} is a setting of {knowing}")
    return layer


def _own_values(node: DictConfig, model: type[BaseModel], everything: type[BaseModel]) -> dict[Any, Any]:
    """Take the settings of ``model``, resolved, and those that no job has, which validation refuses by name."""
    values: dict[Any, Any] = {}
    for name in node:
        if name in everything.model_fields and name not in model.model_fields:
            continue
        value = node[name]
        section, whole = section_type(model, str(name)), section_type(everything, str(name))
        if isinstance(value, DictConfig) and section is not None and whole is not None:
            values[name] = _own_values(value, section, whole)
        elif OmegaConf.is_config(value):
            values[name] = OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
        else:
            values[name] = value
    return values


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value
