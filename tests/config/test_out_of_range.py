"""Every setting of every job with a value that it cannot have: the error names each of them, and what it expected."""

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dcrec_spark.config.jobs import AllSettings, section_type
from dcrec_spark.config.load import load_config
from dcrec_spark.errors import ConfigError
from docs.hooks.settings_page import values_of

WRONG = {  # how a value is wrong, and what to write for it
    "far too large": "1" + 30 * "0",
    "no number": "some",
    "not finite": ".nan",
    "a switch": "true",
    "a list": "[[1], [2]]",
    "a section": "{a: {b: 1}}",
}
# What each sort of setting, as the reference describes it, has to refuse.
NOT_NUMBERS = ["no number", "not finite", "a switch", "a list", "a section"]
REFUSED = {
    "number": NOT_NUMBERS,
    "whole number": ["far too large", *NOT_NUMBERS],
    "choice": ["far too large", "a list", "no number", "a section"],
    "switch": ["far too large", "no number", "not finite", "a list", "a section"],
    "text": ["a list", "a section"],
    "date": ["far too large", "a switch", "no number", "a list"],
    "list": ["a switch", "no number"],
    "names": ["a switch", "no number"],
}


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        section = section_type(model, name)
        if section is None:
            yield f"{prefix}{name}", field
        else:
            yield from settings_of(section, f"{prefix}{name}.")


def sort_of(field: FieldInfo) -> str:
    words = values_of(field).removesuffix(" | null")
    if field.annotation is bool:
        return "switch"
    if " | " in words or Literal in map(get_origin, (field.annotation, *get_args(field.annotation))):
        return "choice"
    return next(sort for sort in ("whole number", "number", "text", "date", "list", "names") if words.startswith(sort))


SETTINGS = {name: (field, sort_of(field)) for name, field in settings_of(AllSettings)}


def limits(field: FieldInfo) -> dict[str, Any]:
    """The limits of a number, wherever they are declared: of its own, and of the number that may be null."""
    parts = [*field.metadata]
    for inner in get_args(field.annotation):
        parts += getattr(inner, "__metadata__", ())
    parts += [deeper for part in parts for deeper in getattr(part, "metadata", ())]
    return {sign: getattr(part, sign) for part in parts for sign in ("ge", "gt", "le", "lt") if hasattr(part, sign)}


def refusals(values: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, None, [f"{name}={value}" for name, value in values.items()])
    lines = str(caught.value).splitlines()
    named = [re.match(r"setting ([a-z_.]+[a-z_])[\w.]*: (found .+, )?expected .+", line) for line in lines]
    assert [line for line, match in zip(lines, named, strict=True) if match is None] == []
    return {match[1]: match[0] for match in named if match}


@pytest.mark.parametrize("how", WRONG)
def test_every_setting_of_every_section_is_refused_by_its_name(how: str) -> None:
    """All at once, which is quick; and no refusal hides another."""
    wrong = {name: WRONG[how] for name, (_, sort) in SETTINGS.items() if how in REFUSED[sort]}
    assert set(wrong) - set(refusals(wrong)) == set()


@pytest.mark.parametrize(("closed", "outside", "step"), [("ge", "gt", -1), ("le", "lt", 1)], ids=["below", "above"])
def test_every_number_is_refused_beyond_its_end(closed: str, outside: str, step: int) -> None:
    wrong = {}
    for name, (field, sort) in SETTINGS.items():
        ends = limits(field) if sort in ("number", "whole number") else {}
        if closed in ends:
            wrong[name] = ends[closed] + step
        elif outside in ends:
            wrong[name] = ends[outside]
    assert len(wrong) > 20
    named = refusals(wrong)
    for name, value in wrong.items():
        assert f"found {value!r}, expected a number {'<' if step > 0 else '>'}" in named[name]
