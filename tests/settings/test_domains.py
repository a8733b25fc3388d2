"""Values that each domain of settings takes, and its message about the rest."""

import math
from typing import Any

import numpy as np
import pytest

from dcrec_spark.settings.domains import Choice, Column, Domain, Flag, Number

RANK, SHARE, CAP = Number(int, 1, 4096), Number(float, 0, 1), Number(float, 1, optional=True)


@pytest.mark.parametrize(
    ("domain", "value", "plain"),
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
def test_a_value_of_the_domain_becomes_plain(domain: Domain, value: Any, plain: Any) -> None:
    found = domain.check(value)
    assert (found, type(found)) == (plain, type(plain))


@pytest.mark.parametrize(
    ("domain", "values", "expected"),
    [
        (RANK, (0, 4097, 2.5, True, "3", None, math.inf), "a whole number >= 1 and <= 4096"),
        (SHARE, (-1.0, 1.5, math.nan, "0.5", None), "a finite number >= 0 and <= 1"),
        (CAP, (0.5, math.inf, True), "a finite number >= 1"),
        (Choice({"a": "", "b": ""}), ("c", 1, None, []), "one of a, b"),
        (Flag(), (1, 0, "yes", None), "True or False"),
        (Column(), ("", 3, None), "the name of a column"),
    ],
)
def test_a_refusal_shows_the_value_and_what_is_expected(domain: Domain, values: tuple[Any, ...], expected: str) -> None:
    for value in values:
        with pytest.raises(ValueError, match=r"^found ") as caught:
            domain.check(value)
        assert str(caught.value) == f"found {value!r}, expected {expected}"
