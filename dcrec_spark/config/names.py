"""The dotted names of settings: all that a job has, which job has which, and the nearest to a wrong one."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from dcrec_spark.config.jobs import JOB_CONFIGS, AllSettings


def section_type(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Look up the type of the section ``name``; None where ``model`` has a setting of that name, or nothing."""
    field = model.model_fields.get(name)
    kind = None if field is None else field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def known_settings(model: type[BaseModel] = AllSettings, prefix: str = "") -> list[str]:
    """List the dotted name of every setting of a configuration, section by section."""
    names: list[str] = []
    for name in model.model_fields:
        section = section_type(model, name)
        names += [f"{prefix}{name}"] if section is None else known_settings(section, f"{prefix}{name}.")
    return names


def foreign_settings(
    values: Mapping[Any, Any],
    model: type[BaseModel],
    everything: type[BaseModel] = AllSettings,
    prefix: str = "",
) -> Iterator[str]:
    """List the dotted names among ``values`` that ``everything`` has and ``model`` has not: other jobs' settings.

    Parameters
    ----------
    values : sections and their settings, as they were read.
    model : the configuration of a job, or a section of it.
    everything : the settings of all jobs, or the same section there.
    prefix : dotted name of the section, with a dot at its end.
    """
    for name, value in values.items():
        section, whole = section_type(model, name), section_type(everything, name)
        if section is not None and whole is not None and isinstance(value, Mapping):
            yield from foreign_settings(value, section, whole, f"{prefix}{name}.")
        elif name in everything.model_fields and name not in model.model_fields:
            inner = whole is not None and isinstance(value, Mapping) and value
            yield from [f"{prefix}{name}.{key}" for key in value] if inner else [f"{prefix}{name}"]


def jobs_with(name: str) -> list[str]:
    """List the jobs that have a setting or a section of this dotted name, or one that begins with it."""
    return [kind.job for kind in JOB_CONFIGS if _has(kind, name.split("."))]


def _has(model: type[BaseModel], path: list[str]) -> bool:
    section = section_type(model, path[0])
    return path[0] in model.model_fields and (section is None or len(path) == 1 or _has(section, path[1:]))


def nearest_settings(name: str, model: type[BaseModel] = AllSettings) -> list[str]:
    """Guess the settings meant by ``name``: those with its last word, else the one with the nearest name."""
    known = known_settings(model)
    sections = sorted({setting.rpartition(".")[0] for setting in known})
    last_word = name.rpartition(".")[2]
    same_last_word = [setting for setting in known if setting.rpartition(".")[2] == last_word]
    return same_last_word or difflib.get_close_matches(name, known + sections, n=1, cutoff=0.6)
