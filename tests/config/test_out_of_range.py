"""Every setting of every job with a value that it cannot have: the error names each of them, and what it expected."""

import re

import pytest

from dcrec_spark.config.jobs import AllSettings, section_type
from dcrec_spark.config.load import load_config
from dcrec_spark.errors import ConfigError
from docs.hooks.settings_page import documented

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


def sort_of(values: str) -> str:
    """The sort of a setting, from the words of the reference."""
    words = values.removesuffix(" | null")
    if words == "true | false":
        return "switch"
    sorts = ("whole number", "number", "text", "date", "list", "names")
    return next((sort for sort in sorts if words.startswith(sort) and " | " not in words), "choice")


SORTS = {
    f"{section}.{name}": sort_of(values)
    for section in AllSettings.model_fields
    if (kind := section_type(AllSettings, section)) is not None
    for name, _, values, _ in documented(kind, f"{section}.")
}


@pytest.mark.parametrize("how", WRONG)
def test_every_setting_of_every_section_is_refused_by_its_name(how: str) -> None:
    """All at once, which is quick; and no refusal hides another."""
    wrong = [name for name, sort in SORTS.items() if how in REFUSED[sort]]
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, None, [f"{name}={WRONG[how]}" for name in wrong])
    lines = str(caught.value).splitlines()
    named = [re.match(r"setting ([a-z_.]+[a-z_])[\w.]*: (found .+, )?expected .+", line) for line in lines]
    assert [line for line, match in zip(lines, named, strict=True) if match is None] == []
    assert set(wrong) - {match[1] for match in named if match} == set()
