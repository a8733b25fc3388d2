"""The kinds of values that a setting can have, each with its range, and what it says of a value that it refuses.

Estimators, configuration sections and the reference of all settings ask the same kinds, so that none of them takes
what another one refuses.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol


class Kind(Protocol):
    """What values a setting takes.

    Attributes
    ----------
    optional : whether None is among them.
    """

    @property
    def optional(self) -> bool:
        """Whether None is among the values."""

    @property
    def annotation(self) -> str:
        """The values' Python type, as it is written in a signature."""

    @property
    def expected(self) -> str:
        """What is expected, for an error message: ``a whole number >= 1``."""

    def taken(self, value: Any) -> Any:
        """Return ``value`` as a plain Python value.

        Raises
        ------
        ValueError : the value is not among those of the kind.
        """


def number_text(value: float) -> str:
    """Write a number as people do: ``4096``, ``0.01``, ``1e6``, ``2^63 - 1``."""
    if value == 2**63 - 1:
        return "2^63 - 1"
    return f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def limits(low: float, high: float, open_low: bool = False) -> str:
    """Write limits, `` >= 1 and <= 4096``, with a space before them; nothing where there are none."""
    parts = [] if low == -math.inf else [f"{'>' if open_low else '>='} {number_text(low)}"]
    parts += [] if high == math.inf else [f"<= {number_text(high)}"]
    return " " + " and ".join(parts) if parts else ""


def _refusal(kind: Kind, value: Any) -> ValueError:
    return ValueError(f"found {value!r}, expected {kind.expected}")


@dataclass(frozen=True)
class Number:
    """Whole or real numbers from ``low`` to ``high``, both included unless ``open_low``; all finite, none a bool."""

    type: type[int] | type[float]
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    optional: bool = False

    @property
    def annotation(self) -> str:
        """``int`` or ``float``, with None where it is a value."""
        return f"{self.type.__name__} | None" if self.optional else self.type.__name__

    @property
    def expected(self) -> str:
        """The numbers in words, with their limits."""
        return f"a {'whole' if self.type is int else 'finite'} number{limits(self.low, self.high, self.open_low)}"

    def taken(self, value: Any) -> int | float | None:
        """Return the number as ``int`` or ``float``; NumPy's numbers too."""
        if value is None and self.optional:
            return None
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise _refusal(self, value)
        number: Any = value  # Real promises no comparison with float
        inside = self.low <= number <= self.high and not (self.open_low and number == self.low)
        if not inside or self.type(number) != number:
            raise _refusal(self, value)
        return self.type(number)


@dataclass(frozen=True)
class Choice:
    """One of some names.

    Attributes
    ----------
    options : name -> what it stands for; empty where the name says it. A registry may grow.
    """

    options: Mapping[str, str]
    optional: bool = False

    @property
    def annotation(self) -> str:
        """Always ``str``."""
        return "str"

    @property
    def expected(self) -> str:
        """The names."""
        return f"one of {', '.join(self.options)}"

    def taken(self, value: Any) -> str:
        """Return the name."""
        if not isinstance(value, str) or value not in self.options:
            raise _refusal(self, value)
        return value


@dataclass(frozen=True)
class Flag:
    """True or False, and nothing that Python takes for them."""

    optional: bool = False

    @property
    def annotation(self) -> str:
        """Always ``bool``."""
        return "bool"

    @property
    def expected(self) -> str:
        """Both values."""
        return "True or False"

    def taken(self, value: Any) -> bool:
        """Return the flag."""
        if not isinstance(value, bool):
            raise _refusal(self, value)
        return value


@dataclass(frozen=True)
class Column:
    """The name of a column."""

    optional: bool = False

    @property
    def annotation(self) -> str:
        """``str``, with None where it is a value."""
        return "str | None" if self.optional else "str"

    @property
    def expected(self) -> str:
        """A name."""
        return "the name of a column"

    def taken(self, value: Any) -> str | None:
        """Return the name."""
        if value is None and self.optional:
            return None
        if not isinstance(value, str) or not value:
            raise _refusal(self, value)
        return value


@dataclass(frozen=True)
class Instance:
    """An object of another library, or None; of which class, those who have that library check.

    Attributes
    ----------
    of : name by which they know what is meant.
    expected : what is expected, for an error message.
    """

    of: str
    expected: str
    optional: bool = True

    @property
    def annotation(self) -> str:
        """``Any``: the class is of a room above."""
        return "Any"

    def taken(self, value: Any) -> Any:
        """Return the object."""
        return value
