"""What each kind of setting takes, and what it says of the rest."""

import math
from typing import Any

import numpy as np
import pytest

from dcrec_spark.settings.kinds import Choice, Column, Flag, Kind, Number, limits, number_text

RANK, SHARE, CAP = Number(int, 1, 4096), Number(float, 0, 1, open_low=True), Number(float, 1, optional=True)


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        (RANK, 1, 1),
        (RANK, 4096, 4096),
        (RANK, 3.0, 3),
        (RANK, np.int64(4), 4),
        (SHARE, 1, 1.0),
        (SHARE, np.float32(0.5), 0.5),
        (CAP, None, None),
        (Choice({"a": "", "b": ""}), "b", "b"),
        (Flag(), False, False),
        (Column(), "user id", "user id"),
        (Column(optional=True), None, None),
    ],
)
def test_what_is_taken_becomes_a_plain_value(kind: Kind, value: Any, taken: Any) -> None:
    found = kind.taken(value)
    assert (found, type(found)) == (taken, type(taken))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (RANK, (0, 4097, 2.5, True, "3", None, math.inf), "a whole number >= 1 and <= 4096"),
        (SHARE, (0, -1.0, 1.5, math.nan, "0.5", None), "a finite number > 0 and <= 1"),
        (CAP, (0.5, math.inf, True), "a finite number >= 1"),
        (Choice({"a": "", "b": ""}), ("c", 1, None, []), "one of a, b"),
        (Flag(), (1, 0, "yes", None), "True or False"),
        (Column(), ("", 3, None), "the name of a column"),
    ],
)
def test_what_is_refused_is_shown_beside_what_is_expected(kind: Kind, values: tuple[Any, ...], expected: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=r"^found ") as caught:
            kind.taken(value)
        assert str(caught.value) == f"found {value!r}, expected {expected}"


def test_a_choice_grows_with_its_registry() -> None:
    registry = {"a": ""}
    kind = Choice(registry)
    registry["b"] = "added later"
    assert (kind.taken("b"), kind.expected) == ("b", "one of a, b")


def test_numbers_are_written_as_people_write_them() -> None:
    assert [number_text(value) for value in (4096, 0.01, 1e6, 1e-9, 2**63 - 1)] == [
        "4096", "0.01", "1e6", "1e-9", "2^63 - 1"
    ]  # fmt: skip
    assert limits(0, 1) == " >= 0 and <= 1"
    assert (limits(0, math.inf, open_low=True), limits(-math.inf, math.inf)) == (" > 0", "")
