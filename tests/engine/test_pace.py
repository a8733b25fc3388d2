"""Strides grow while the objective improves; a sweep that makes it worse is undone and taken to the optimum."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pytest

from dcrec_spark.engine.ascent import Fit, Stopping, alternate
from dcrec_spark.engine.blocks import Block, LocalSide
from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.half_step import memory_of
from dcrec_spark.engine.pace import (
    DELAY,
    GROWTH,
    LEAD,
    REACHED,
    SETTLED_BY_MOMENTUM,
    TO_THE_OPTIMUM,
    Pace,
    Stride,
    sweeps_to,
)
from dcrec_spark.engine.turn import Kernel, Turn, Update

LONGEST = 1.9
LONGER = Stride(LONGEST)
SWEEPS_TO_LONGEST = sweeps_to(LONGEST)


@dataclass(frozen=True)
class Valley:
    """Two numbers, x of the users and y of the items, that lower x^2 + y^2 - 2 c x y + 1, each in its turn.

    The closer c is to 1, the narrower the valley, and the shorter plain steps. Steps beyond ``too_long`` end uphill,
    and so does momentum beyond ``too_fast``.
    """

    accelerates: bool = True
    longest: Stride = LONGER
    stride: Stride = TO_THE_OPTIMUM
    c: float = 0.99
    too_long: float = 2.0
    too_fast: float = 1.0
    strides: list[Stride] = field(default_factory=list)

    stage, rises, remembers, shared = "valley", False, True, None

    @property
    def lengths(self) -> list[float]:
        return [stride.length for stride in self.strides]

    def at_pace(self, stride: Stride) -> Self:
        return replace(self, stride=stride)

    def start_users(self) -> Kernel:
        return partial(number, value=1.0)

    def start_items(self) -> Kernel:
        return partial(number, value=0.5)

    def users(self, shared: None) -> Kernel:
        self.strides.append(self.stride)
        length, momentum = self.stride
        astray = length > self.too_long or momentum > self.too_fast
        return partial(step, c=self.c, stride=Stride(length + 1000.0 * astray, momentum))

    def items(self, shared: None) -> Kernel:
        return partial(step, c=self.c, stride=self.stride)

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


def step(turn: Turn, *, c: float, stride: Stride) -> Update:
    before = float(turn.memory["rows"][0, 0])
    reached = before + stride.length * (c * float(turn.inbox[0, 0]) - before)
    last = float(turn.memory.get(REACHED, turn.memory["rows"])[0, 0])
    update = number(turn, value=reached + stride.momentum * (reached - last))
    return update._replace(memory={**update.memory, REACHED: np.array([[reached]])}) if stride.momentum else update


def rest(turn: Turn, *, c: float) -> Update:
    return number(turn, value=c * float(turn.inbox[0, 0]))


def side(name: str) -> LocalSide:
    block = {"need_at": np.array([0]), "row_ptr": np.array([0, 1]), "col": np.array([0], np.int32)}
    return LocalSide(name, 1, Block(block))


def fit(steps: Any, sweeps: int = 400, tol: float = 0.0) -> Fit:
    return alternate(side("user"), side("item"), steps, Stopping(sweeps, tol), lambda *_: None)


def sweeps_until(objective: list[float], distance: float) -> int:
    return int(np.argmax(np.array(objective) < 1.0 + distance))


def test_long_steps_need_a_fraction_of_the_sweeps_and_end_in_the_same_place() -> None:
    plain, accelerated = fit(Valley(accelerates=False)), fit(Valley())
    assert sweeps_until(accelerated.objective, 1e-6) < sweeps_until(plain.objective, 1e-6) / 3
    assert accelerated.objective[-1] == pytest.approx(plain.objective[-1], abs=1e-6)
    assert all(b <= a for a, b in zip(accelerated.objective, accelerated.objective[1:], strict=False))


def test_momentum_needs_a_fraction_of_the_sweeps_and_ends_in_the_same_place() -> None:
    plain = fit(Valley(c=0.999, accelerates=False), 2000)
    faster = fit(Valley(c=0.999, longest=Stride(1.0, 0.95)), 2000)
    assert sweeps_until(faster.objective, 1e-6) < sweeps_until(plain.objective, 1e-6) / 3
    assert faster.objective[-1] == pytest.approx(plain.objective[-1], abs=1e-6)
    assert all(b <= a for a, b in zip(faster.objective, faster.objective[1:], strict=False))


def test_longer_steps_lead_and_momentum_follows_up_to_its_most() -> None:
    """The first sweep of momentum has none: there is no movement to go on from."""
    steps = Valley(longest=Stride(LONGEST, 0.5), c=0.9999)
    fit(steps, LEAD + 6)
    assert steps.strides[:LEAD] == [Stride(min(GROWTH**n, LONGEST)) for n in range(LEAD)]
    assert steps.strides[LEAD:] == [Stride(1.0, min(n / (n + DELAY), 0.5)) for n in range(6)]


def test_momentum_that_leads_uphill_is_undone_and_begins_anew() -> None:
    """It starts from where the rows are: where they were before is of no account any more."""
    steps = Valley(longest=Stride(LONGEST, 0.9), c=0.9999, too_fast=0.45)
    result = fit(steps, LEAD + 5)
    assert [stride.momentum for stride in steps.strides[LEAD:]] == [0, 1 / 4, 2 / 5, 1 / 2, 0, 1 / 4]
    assert len(result.objective) == LEAD + 5


def test_a_fit_goes_on_with_the_stride_that_it_was_interrupted_at() -> None:
    steps = Valley(longest=Stride(LONGEST, 0.9))
    assert Pace.of(steps, LEAD + 4, 3).stride == Stride(1.0, 3 / (3 + DELAY))
    assert Pace.of(steps, 2, 2).stride == Stride(GROWTH**2)
    assert Pace.of(Valley(accelerates=False), LEAD + 4, 3).stride == TO_THE_OPTIMUM


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


@pytest.mark.parametrize("streak", [0, SWEEPS_TO_LONGEST - 1])
def test_a_small_gain_ends_a_fit_only_where_the_steps_are_longest(streak: int) -> None:
    assert Pace().gains_to_settle == 1
    assert Pace(Stride(LONGEST), streak, streak).gains_to_settle == (1 if streak else SWEEPS_TO_LONGEST)


def test_with_momentum_several_small_gains_end_a_fit() -> None:
    assert Pace(Stride(LONGEST, 0.9), LEAD, LEAD).gains_to_settle == SETTLED_BY_MOMENTUM


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
