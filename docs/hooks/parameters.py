"""Parameters of the reference have their own types and defaults, and fields of dataclasses a line each."""

import importlib
import re
from typing import Any

import griffe

from dcrec_spark import Columns, MetricSettings

# A field as the text of a dataclass describes it, ``low, high : the ends``, at the start of a line or of a sentence.
FIELD = re.compile(r"(?:^|(?<=\.) )((?:\w+, )*\w+) : ", re.MULTILINE)


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
                    section.value = FIELD.sub(r"\n* `\1`: ", section.value)
                if section.kind is griffe.DocstringSectionKind.parameters:
                    _mend_section(section.value, member.parameters)


def _show_values(function: griffe.Function) -> None:
    for parameter in function.parameters:
        if isinstance(parameter.default, griffe.Expr):
            value = eval(str(parameter.default), vars(importlib.import_module(function.module.path)))
            if isinstance(value, int | float | str):
                parameter.default = repr(value)
            elif isinstance(value, Columns | MetricSettings):
                parameter.default = f"{type(value).__name__}()"


def _mend_section(described: list[griffe.DocstringParameter], signature: griffe.Parameters) -> None:
    texts = [one.description for one in described]
    for one in described:
        if one.name in signature:
            one.value = signature[one.name].default
            if texts.count(one.description) > 1:
                one.annotation = signature[one.name].annotation
