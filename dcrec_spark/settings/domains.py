"""Domains of settings: which values a setting takes, in Python and in configuration files alike."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any


def number_text(value: float) -> str:
    """Write a number as people do: ``4096``, ``0.01``, ``1e6``, ``2^63 - 1``."""
    if value == 2**63 - 1:
        return "2^63 - 1"
    return f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


@dataclass(frozen=True, kw_only=True)
class Domain(ABC):
    """Values that a setting takes. optional : whether None is among them."""

    optional: bool = False

    @property
    @abstractmethod
    def expected(self) -> str:
        """The values in words, for an error message: ``a whole number >= 1``."""

    @abstractmethod
    def _plain(self, value: Any) -> Any:
        """Return ``value`` as a plain Python value, or None if it is outside the domain."""

    def check(self, value: Any) -> Any:
        """Return ``value`` as a plain Python value. Raises ValueError: it is outside the domain."""
        if value is None and self.optional:
            return None
        plain = self._plain(value)
        if plain is None:
            raise ValueError(f"found {value!r}, expected {self.expected}")
        return plain


@dataclass(frozen=True)
class Number(Domain):
    """Finite numbers from ``low`` to ``high``, both included. A bool is no number."""

    type: type[int] | type[float]
    low: float = -math.inf
    high: float = math.inf

    @property
    def expected(self) -> str:
        limits = [f">= {number_text(self.low)}"] * (self.low > -math.inf)
        limits += [f"<= {number_text(self.high)}"] * (self.high < math.inf)
        return " ".join([f"a {'whole' if self.type is int else 'finite'} number", " and ".join(limits)]).rstrip()

    def _plain(self, value: Any) -> int | float | None:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            return None
        number: Any = value  # Real promises no comparison with float
        return self.type(number) if self.low <= number <= self.high and self.type(number) == number else None


@dataclass(frozen=True)
class Choice(Domain):
    """One of some names.

    options : name -> its meaning, empty where the name is clear. A registry may add names later.
    """

    options: Mapping[str, str]

    @property
    def expected(self) -> str:
        return f"one of {', '.join(self.options)}"

    def _plain(self, value: Any) -> str | None:
        return value if isinstance(value, str) and value in self.options else None


@dataclass(frozen=True)
class Flag(Domain):
    """True or False, and nothing that Python takes for them."""

    expected = "True or False"

    def _plain(self, value: Any) -> bool | None:
        return value if isinstance(value, bool) else None


@dataclass(frozen=True)
class Column(Domain):
    """The name of a column."""

    expected = "the name of a column"

    def _plain(self, value: Any) -> str | None:
        return value if isinstance(value, str) and value else None


@dataclass(frozen=True)
class Instance(Domain):
    """An object of a class that this room does not import. The caller checks its class.

    of : name of the class for the caller. words : what is expected.
    """

    of: str
    words: str
    optional: bool = field(default=True, kw_only=True)

    @property
    def expected(self) -> str:
        return self.words

    def _plain(self, value: Any) -> Any:
        return value
