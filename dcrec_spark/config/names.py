"""Dotted names of settings: all names, the jobs that have a setting, and the nearest names to an unknown one."""

import difflib
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from dcrec_spark.config.jobs import JOB_CONFIGS, AllSettings


def section_type(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Look up the type of the section ``name``; None if ``model`` has a setting of that name, or nothing."""
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


def is_free_text(name: str, model: type[BaseModel] = AllSettings) -> bool:
    """Tell whether the setting of this dotted name takes any text; true for one that does not exist."""
    first, _, rest = name.partition(".")
    section = section_type(model, first)
    if section is not None and rest:
        return is_free_text(rest, section)
    field = model.model_fields.get(first)
    return field is None or _takes_text(field.annotation)


def _takes_text(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return False
    return annotation is str or any(_takes_text(inner) for inner in get_args(annotation))
