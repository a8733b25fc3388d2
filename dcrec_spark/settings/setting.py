"""One setting: its name in both spellings, its kind, its default, and what it means."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from dcrec_spark.settings.kinds import Choice, Kind


def camel(name: str) -> str:
    """Spell ``user_reg`` as ``userReg``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True)
class Fixed:
    """The only value that a setting can have beside a certain choice, and the reason."""

    value: Any
    reason: str


@dataclass(frozen=True)
class Setting:
    """A setting of an estimator, of a configuration section, or of both.

    Attributes
    ----------
    name : as configuration files have it, ``user_reg``; estimators spell it :attr:`param`, ``userReg``.
    kind : its values.
    job_kind : the values that jobs take, where they take fewer.
    default : the value that it has where none is given.
    doc : what it means, in a phrase without a full stop; ``{other_setting}`` is written as its reader spells it.
    unit : what a number counts or measures, such as "factors"; empty where it is plain.
    section : the configuration section that has it; empty where only estimators do.
    is_param : whether estimators have it.
    concerns : setting -> the choices for which this one has an effect; empty: always.
    fixed : choice of ``outcome`` -> the only value beside it.
    of_model : whether it also steers how a fitted model answers, and can be set there.
    of_fit : whether fitted models do not have it.
    """

    name: str
    kind: Kind
    default: Any
    doc: str
    unit: str = ""
    section: str = ""
    is_param: bool = True
    concerns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fixed: Mapping[str, Fixed] = field(default_factory=dict)
    of_model: bool = False
    of_fit: bool = False
    job_kind: Kind | None = None

    @property
    def param(self) -> str:
        """The name as estimators have it."""
        return camel(self.name)

    def having(self, **changes: Any) -> Self:
        """Copy the setting with another default, another section or another meaning."""
        return replace(self, **changes)

    def explained(self, as_param: bool) -> str:
        """Explain what it means, what its choices stand for, and where it has an effect, in one spelling of names."""
        where = [f"{_spelled(name, as_param)}={' or '.join(values)}" for name, values in self.concerns.items()]
        text = self.brief(as_param) + (f" ({', '.join(where)})" if where else "")
        if not isinstance(self.kind, Choice):
            return text
        choices = [f"{name}: {meaning}" if meaning else name for name, meaning in self.kind.options.items()]
        return f"{text}. {'; '.join(choices)}"

    def brief(self, as_param: bool) -> str:
        """Say what it means, in a phrase."""
        text = re.sub(r"\{(\w+)\}", lambda name: _spelled(name[1], as_param), self.doc)
        return text if as_param else re.sub(r"\bNone\b", "null", text)


def _spelled(name: str, as_param: bool) -> str:
    return camel(name) if as_param else name


def in_section(settings: Iterable[Setting], section: str) -> tuple[Setting, ...]:
    """Pick the settings that a configuration section has, in their order."""
    return tuple(setting for setting in settings if setting.section == section)


def params(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Map the names that an estimator has, ``userReg``, to their settings, in their order."""
    return {setting.param: setting for setting in settings if setting.is_param}
