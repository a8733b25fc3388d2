"""Steps grow while the objective improves; a sweep that makes it worse is undone and taken at length 1."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pytest

from dcrec_spark.engine.ascent import Fit, Stopping, alternate
from dcrec_spark.engine.blocks import LocalSide
from dcrec_spark.engine.cells import Arrays, pack
from dcrec_spark.engine.half_step import Kernel, Turn, Update, memory_of
from dcrec_spark.engine.pace import GROWTH, Pace, sweeps_to

LONGEST = 1.9
SWEEPS_TO_LONGEST = sweeps_to(LONGEST)


@dataclass(frozen=True)
class Valley:
    """Two numbers, x of the users and y of the items, that lower x^2 + y^2 - 2 c x y + 1, each in its turn.

    The closer c is to 1, the narrower the valley, and the shorter plain steps. Steps beyond ``too_long`` end uphill.
    """

    accelerates: bool = True
    length: float = 1.0
    c: float = 0.99
    too_long: float = 2.0
    lengths: list[float] = field(default_factory=list)

    stage, rises, remembers, shared, longest = "valley", False, True, None, LONGEST

    def at_pace(self, length: float) -> Self:
        return replace(self, length=length)

    def start_users(self) -> Kernel:
        return partial(number, value=1.0)

    def start_items(self) -> Kernel:
        return partial(number, value=0.5)

    def users(self, shared: None) -> Kernel:
        self.lengths.append(self.length)
        return partial(step, c=self.c, length=self.length + 1000.0 * (self.length > self.too_long))

    def items(self, shared: None) -> Kernel:
        return partial(step, c=self.c, length=self.length)

    def settle(self, shared: None, is_user: bool = True) -> Kernel:
        return partial(rest, c=self.c)

    def conclude(self, users: Arrays, items: Arrays, shared: None) -> tuple[float, None]:
        x, y = float(users["value"]), float(items["value"])
        return x * x + y * y - 2 * self.c * x * y + 1.0, None

    def held_out_loss(self, items: Arrays, shared: None) -> float | None:
        return None


def number(turn: Turn, *, value: float) -> Update:
    rows = np.array([[value]])
    return Update(rows, {"value": np.array(value)}, {"rows": rows})


def step(turn: Turn, *, c: float, length: float) -> Update:
    before = float(turn.memory["rows"][0, 0])
    return number(turn, value=before + length * (c * float(turn.inbox[0, 0]) - before))


def rest(turn: Turn, *, c: float) -> Update:
    return number(turn, value=c * float(turn.inbox[0, 0]))


def side(name: str) -> LocalSide:
    block = {"need_at": np.array([0]), "row_ptr": np.array([0, 1]), "col": np.array([0], np.int32)}
    return LocalSide(name, 1, pack(block))


def fit(steps: Any, sweeps: int = 400, tol: float = 0.0) -> Fit:
    return alternate(side("user"), side("item"), steps, Stopping(sweeps, tol), lambda *_: None)


def sweeps_until(objective: list[float], distance: float) -> int:
    return int(np.argmax(np.array(objective) < 1.0 + distance))


def test_long_steps_need_a_fraction_of_the_sweeps_and_end_in_the_same_place() -> None:
    plain, accelerated = fit(Valley(accelerates=False)), fit(Valley())
    assert sweeps_until(accelerated.objective, 1e-6) < sweeps_until(plain.objective, 1e-6) / 3
    assert accelerated.objective[-1] == pytest.approx(plain.objective[-1], abs=1e-6)
    assert all(b <= a for a, b in zip(accelerated.objective, accelerated.objective[1:], strict=False))


def test_lengths_grow_to_the_longest_and_stay_there() -> None:
    steps = Valley()
    fit(steps, 12)
    assert steps.lengths == pytest.approx([min(GROWTH**n, LONGEST) for n in range(12)])
    assert steps.lengths.index(LONGEST) + 1 == SWEEPS_TO_LONGEST


def test_a_sweep_that_makes_it_worse_is_undone_and_taken_at_length_1() -> None:
    """The next moment is that of a plain sweep from the moment before, and the lengths grow anew."""
    steps = Valley(too_long=1.25)
    result = fit(steps, 5)
    assert steps.lengths == pytest.approx([1, 1.1, 1.21, 1.331, 1, 1.1])
    assert len(result.objective) == 5
    x, y = 1.0, 0.5
    for length in (1, 1.1, 1.21, 1, 1.1):
        x += length * (0.99 * y - x)
        y += length * (0.99 * x - y)
    assert memory_of(result.items)["rows"][0, 0] == pytest.approx(y, rel=1e-12)


@pytest.mark.parametrize("length", [1.0, LONGEST])
def test_a_small_gain_ends_a_fit_only_where_the_steps_are_longest(length: float) -> None:
    assert Pace().gains_to_settle == 1
    assert Pace(LONGEST, length).gains_to_settle == (1 if length == LONGEST else SWEEPS_TO_LONGEST)


def test_short_steps_with_small_gains_do_not_end_a_fit() -> None:
    """At this tolerance the gain of a plain sweep is small long before the end."""
    tol = 1.01 * _gain_of_plain_sweep(at=3)
    assert len(fit(Valley(accelerates=False), tol=tol).objective) < SWEEPS_TO_LONGEST
    assert len(fit(Valley(), tol=tol).objective) >= SWEEPS_TO_LONGEST


def test_steps_that_are_always_undone_end_a_fit_all_the_same() -> None:
    result = fit(Valley(too_long=1.05), tol=1e-4)
    assert result.converged


def _gain_of_plain_sweep(at: int) -> float:
    values = fit(Valley(accelerates=False), at + 1).objective
    return (values[at - 1] - values[at]) / values[at - 1]
