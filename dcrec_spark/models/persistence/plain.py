"""Dataclasses and named tuples as JSON holds them, and back by the types of their fields."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


def as_json(value: Any) -> Any:
    """Return a value as JSON holds it: an object of its fields, a list, or itself.

    >>> as_json({"kind": (1, 2.0), "none": None})
    {'kind': [1, 2.0], 'none': None}
    """
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def from_json(kind: Any, value: Any) -> Any:
    """Return what :func:`as_json` gave, of a type. Fields that the type lacks are passed over."""
    inner = get_args(kind)
    if value is None or not (inner or isinstance(kind, type)):
        return value
    if isinstance(kind, UnionType):
        return from_json(inner[0], value)
    if get_origin(kind) is list:
        return [from_json(inner[0], each) for each in value]
    if get_origin(kind) is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(map(from_json, kinds, value))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return kind(**{name: from_json(hints[name], value[name]) for name in hints.keys() & value.keys()})
    return kind(value) if issubclass(kind, Enum) else value
