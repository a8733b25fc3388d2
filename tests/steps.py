"""Something that happens in the middle of a step, as other processes and faults make it happen."""

from collections.abc import Callable
from typing import Any

import pytest


def at_first(
    patch: pytest.MonkeyPatch, target: object, step: str, happens: Callable[[], object], after: bool = False
) -> list[str]:
    """Have something happen before a step is made for the first time, or after; the list fills when it has."""
    make, happened = getattr(target, step), list[str]()

    def make_and_happen(*given: Any, **named: Any) -> Any:
        if happened:
            return make(*given, **named)
        happened.append(step)
        if not after:
            happens()
            return make(*given, **named)
        result = make(*given, **named)
        happens()
        return result

    patch.setattr(target, step, make_and_happen)
    return happened
