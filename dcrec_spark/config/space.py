"""Search space: settings of both stages, each with its choices or its range."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ValidationError

from dcrec_spark.config.types import Real, Section

_RANGE_WORDS = {"low", "high", "log", "int"}


class Range(Section):
    """Numbers from low to high, both included. Evenly spread, or so that each doubling is as likely (log)."""

    low: Real
    high: Real
    log: bool = False
    int: bool = False

    def at(self, place: float) -> float:
        """Give the number at a place from 0 to 1. Below 1 for whole numbers, each of which has an equal part."""
        low, high = self.low, self.high + (1 if self.int else 0)
        number = low * (high / low) ** place if self.log else low + (high - low) * place
        return min(int(number), int(self.high)) if self.int else min(number, high)

    def _conflicts(self) -> Iterator[str]:
        if not self.low < self.high:
            yield f"low below high; found {self.low:g} and {self.high:g}"
        if self.log and self.low <= 0:
            yield f"low above 0 where log is true; found {self.low:g}"
        if self.int and not (self.low.is_integer() and self.high.is_integer()):
            yield f"whole numbers where int is true; found {self.low:g} and {self.high:g}"


Choices = tuple[Any, ...] | Range


def read_space(given: Any, sections: Mapping[str, type[BaseModel]]) -> dict[str, Choices]:
    """Map dotted names of settings to their choices or their range, each value as the setting takes it.

    given : as it was read from YAML. ``--set`` makes levels of dotted names.
    Raises ValueError: a setting is unknown, has no choices, or does not take one of its values.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"settings with their choices, such as {{exposure.rank: [5, 10]}}; found {given!r}")
    return {name: _read(name, choices, sections) for name, choices in dict(_flat(given)).items()}


def _flat(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in given.items():
        if isinstance(inner, Mapping) and inner and not _RANGE_WORDS & inner.keys():
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def _read(name: str, choices: Any, sections: Mapping[str, type[BaseModel]]) -> Choices:
    section_name, _, setting = name.partition(".")
    section = sections.get(section_name)
    if section is None or setting not in section.model_fields:
        known = [f"{section}.{field}" for section, model in sections.items() for field in model.model_fields]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean {nearest[0]}?" if nearest else f"for example {known[0]}"
        raise ValueError(f"settings of {' or '.join(sections)}; found {name}: {hint}")
    if isinstance(choices, Range | Mapping):
        return _read_range(name, choices, section, setting)
    if not isinstance(choices, list | tuple) or not choices:
        raise ValueError(
            f"a list of choices for {name}, such as [5, 10], or a range such as {{low: 5, high: 50}}; found {choices!r}"
        )
    return tuple(_value(name, value, section, setting) for value in choices)


def _read_range(name: str, given: Any, section: type[BaseModel], setting: str) -> Range:
    try:
        given_range = Range.model_validate(given)
    except ValidationError as error:
        raise ValueError(f"a range {{low, high, log, int}} for {name}: {_words(error)}") from None
    for value in (given_range.low, given_range.high):
        _value(name, int(value) if value.is_integer() else value, section, setting)
    kind = get_type_hints(section)[setting]
    if not given_range.int and int in (kind, *get_args(kind)):
        raise ValueError(f"int: true in the range of {name}, which takes whole numbers")
    return given_range


def _value(name: str, value: Any, section: type[BaseModel], setting: str) -> Any:
    try:
        return getattr(section.model_validate({setting: value}), setting)
    except ValidationError as error:
        raise ValueError(f"values that {name} takes; found {value!r}: {_words(error)}") from None


def _words(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part in _RANGE_WORDS)
    reason = first["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    return f"{place}: {reason}" if place else reason
