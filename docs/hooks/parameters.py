"""Defaults of the reference are shown by their values. Each parameter or field has a line, each outcome a paragraph."""

import importlib
import re
from typing import Any

import griffe

from dcrec_spark import Columns, MetricSettings

# A field as the text of a dataclass describes it, ``low, high : the ends``, at the start of a line or of a sentence.
FIELD = re.compile(r"(?:^|(?<=\.) )((?:\w+, )*\w+) : ", re.MULTILINE)
# Where a text turns to what is returned or raised: a paragraph of its own.
OUTCOME = re.compile(r"\n(?=(?:Returns|Raises) )")


class Parameters(griffe.Extension):
    """Shows values of constants that are defaults, types of the signature, and lists of fields."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Mend all signatures and docstrings."""
        _mend(pkg)


def _mend(owner: griffe.Module | griffe.Class) -> None:
    for member in owner.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            _mend(member)
        if isinstance(member, griffe.Function):
            _show_values(member)
        if isinstance(member, griffe.Function | griffe.Class) and member.docstring:
            for section in member.docstring.parsed:
                if section.kind is griffe.DocstringSectionKind.text:
                    section.value = OUTCOME.sub("\n\n", FIELD.sub(r"\n* `\1`: ", section.value))


def _show_values(function: griffe.Function) -> None:
    for parameter in function.parameters:
        if isinstance(parameter.default, griffe.Expr):
            value = eval(str(parameter.default), vars(importlib.import_module(function.module.path)))
            if isinstance(value, int | float | str):
                parameter.default = repr(value)
            elif isinstance(value, Columns | MetricSettings):
                parameter.default = f"{type(value).__name__}()"
