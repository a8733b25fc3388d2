"""Strides grow while the objective improves; a sweep that makes it worse is undone and taken to the optimum."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pytest

from dcrec_spark.engine.acceleration import DELAY, GROWTH, LEAD, PLAIN_STEP, REACHED, Stride
from dcrec_spark.engine.ascent import Fit, Stopping, alternate
from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.engine.process import ProcessSide
from dcrec_spark.engine.steps import Steps

LONGEST = 1.9
LONGER = Stride(LONGEST)
SWEEPS_TO_LONGEST = 8  # 1.1^7 is more than 1.9


@dataclass(frozen=True)
class Valley(Steps):
    """Two numbers, x of the users and y of the items, that lower x^2 + y^2 - 2 c x y + 1, each in its turn.

    The closer c is to 1, the narrower the valley, and the shorter plain steps. Steps beyond ``too_long`` end uphill,
    and so does momentum beyond ``too_fast``.
    """

    accelerates: bool = True
    longest: Stride = LONGER
    stride: Stride = PLAIN_STEP
    c: float = 0.99
    too_long: float = 2.0
    too_fast: float = 1.0
    strides: list[Stride] = field(default_factory=list)

    stage, rises = "valley", False

    @property
    def lengths(self) -> list[float]:
        return [stride.length for stride in self.strides]

    def accelerated(self, stride: Stride, users: Arrays, items: Arrays) -> Self:
        return replace(self, stride=stride)

    def start(self, is_user: bool) -> Kernel:
        return partial(number, value=1.0 if is_user else 0.5)

    def update(self, shared: None, is_user: bool) -> Kernel:
        if not is_user:
            return partial(step, c=self.c, stride=self.stride)
        self.strides.append(self.stride)
        length, momentum = self.stride
        astray = length > self.too_long or momentum > self.too_fast
        return partial(step, c=self.c, stride=Stride(length + 1000.0 * astray, momentum))

    def converge(self, shared: None, is_user: bool = True, scores: bool = False) -> Kernel:
        return partial(rest, c=self.c)

    def conclude(self, users: Arrays, items: Arrays, shared: None) -> tuple[float, None]:
        x, y = float(users["value"]), float(items["value"])
        return x * x + y * y - 2 * self.c * x * y + 1.0, None


def number(inputs: KernelInput, *, value: float) -> Update:
    rows = np.array([[value]])
    return Update(rows, {"value": np.array(value)}, {"rows": rows})


def step(inputs: KernelInput, *, c: float, stride: Stride) -> Update:
    before = float(inputs.memory["rows"][0, 0])
    reached = before + stride.length * (c * float(inputs.inbox[0, 0]) - before)
    last = float(inputs.memory.get(REACHED, inputs.memory["rows"])[0, 0])
    update = number(inputs, value=reached + stride.momentum * (reached - last))
    return update._replace(memory={**update.memory, REACHED: np.array([[reached]])}) if stride.momentum else update


def rest(inputs: KernelInput, *, c: float) -> Update:
    return number(inputs, value=c * float(inputs.inbox[0, 0]))


def side(name: str) -> ProcessSide:
    block = {"need_at": np.array([0]), "row_ptr": np.array([0, 1]), "col": np.array([0], np.int32)}
    return ProcessSide(name, 1, Block(block))


def fit(steps: Any, sweeps: int = 400, tol: float = 0.0) -> Fit:
    return alternate(side("user"), side("item"), steps, Stopping(sweeps, tol), lambda *_: None)


def sweeps_until(objective: list[float], distance: float) -> int:
    return int(np.argmax(np.array(objective) < 1.0 + distance))


@pytest.mark.parametrize(("longest", "c"), [(LONGER, 0.99), (Stride(1.0, 0.95), 0.999)], ids=["long steps", "momentum"])
def test_acceleration_needs_a_fraction_of_the_sweeps_and_ends_in_the_same_place(longest: Stride, c: float) -> None:
    plain, faster = fit(Valley(c=c, accelerates=False), 2000), fit(Valley(c=c, longest=longest), 2000)
    assert sweeps_until(faster.objective, 1e-6) < sweeps_until(plain.objective, 1e-6) / 3
    assert faster.objective[-1] == pytest.approx(plain.objective[-1], abs=1e-6)
    assert (np.diff(faster.objective) <= 0.0).all()


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
    assert result.items.memory_of(0)["rows"][0, 0] == pytest.approx(y, rel=1e-12)


def test_a_small_gain_ends_a_fit_only_where_the_steps_are_longest() -> None:
    """At this tolerance the gain of a plain sweep is small long before the end. Steps always undone end it as well."""
    assert fit(Valley(too_long=1.05), tol=1e-4).converged
    before, after = fit(Valley(accelerates=False), 4).objective[2:]
    tol = 1.01 * (before - after) / before
    assert len(fit(Valley(accelerates=False), tol=tol).objective) < SWEEPS_TO_LONGEST
    assert len(fit(Valley(), tol=tol).objective) >= SWEEPS_TO_LONGEST
