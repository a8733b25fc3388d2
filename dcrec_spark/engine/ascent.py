"""The one loop of every fit: users, items, what all pairs share, until the objective settles.

A model supplies its ``Steps``: kernels for both sides, and what becomes of their sums. The loop owns the states that
come and go, the checkpoints, the history, the early stop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from dcrec_spark.engine.blocks import AnySide
from dcrec_spark.engine.cells import Arrays
from dcrec_spark.engine.convergence import SLACK, History, Listener, Patience
from dcrec_spark.engine.half_step import State, destroy, end_lineage, free_disks, half_step, needed_by
from dcrec_spark.engine.pace import Balanced, Pace, Paced
from dcrec_spark.engine.spread import adding_parts, scored
from dcrec_spark.engine.turn import Kernel


class Steps(Protocol):
    """Coordinate ascent of one model."""

    @property
    def stage(self) -> str:
        """Its name in logs and errors."""

    @property
    def rises(self) -> bool:
        """Whether the objective is a bound to raise, not a loss to lower."""

    @property
    def remembers(self) -> bool:
        """Whether an update of a side starts from that side's last state."""

    @property
    def shared(self) -> Any:
        """What all pairs share at the start: the intercept, a global gamma."""

    def start_users(self) -> Kernel:
        """Make the first state; asked for only if the model remembers."""

    def start_items(self) -> Kernel:
        """Make the first state."""

    def users(self, shared: Any) -> Kernel:
        """Users given the items."""

    def items(self, shared: Any) -> Kernel:
        """Items given the users, and the sums over the observed pairs that :meth:`conclude` needs."""

    def settle(self, shared: Any) -> Kernel:
        """Users as the final items determine them, wherever they were before: what folding a user in computes."""

    def conclude(self, users: Arrays, items: Arrays, shared: Any) -> tuple[float, Any]:
        """Return the objective of the sweep, and the shared terms to go on with."""

    def held_out_loss(self, items: Arrays, shared: Any) -> float | None:
        """Return the loss of the held-out pairs, where there are any; smaller is better."""


@runtime_checkable
class Settling(Protocol):
    """Steps that know the objective of users who have settled, be it in another optimum than where the sweeps led."""

    def settle_and_score(self, shared: Any) -> Kernel:
        """Settle, and add up what :meth:`at_rest` needs of the observed pairs."""

    def at_rest(self, users: Arrays, items: Arrays, shared: Any) -> float:
        """Return the objective with settled users, by the sums of :meth:`settle_and_score`."""


# So often a fit sweeps on from users who settled lower than its last sweep left them.
MOST_MENDS = 10


@dataclass(frozen=True)
class Stopping:
    """When a fit ends, and how often its lineage does.

    tol : relative change of the objective. patience : sweeps without a better held-out loss.
    """

    max_iter: int
    tol: float
    patience: int = 3
    checkpoint_interval: int = 10
    precision: str = "float64"


@dataclass(frozen=True)
class Past:
    """What a fit has been through: all that its next sweep depends on besides the states.

    objective : after each sweep. settled : whether it has ended. small_gains : in succession, up to the last sweep.
    streak : sweeps in succession without one that was undone. sums : those of the items' last sweep that are plain
        numbers; where no sweep follows, settling asks for what only a sweep adds up.
    """

    objective: Sequence[float] = ()
    settled: bool = False
    small_gains: int = 0
    streak: int = 0
    sums: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """Where a warm fit begins: states whose memories are a fitted model's, and what its pairs shared.

    users : None where the model does not remember them. past : of the fit that goes on; a warm start has none.
    """

    users: State | None
    items: State
    shared: Any
    past: Past = Past()


# Called after each sweep with both sides (the users where the model remembers them), what all pairs share, and the
# past so far.
AfterSweep = Callable[[State | None, State, Any, Past], None]


@dataclass(frozen=True)
class Fit:
    """The last states of both sides, the shared terms, and the objective and held-out loss after each sweep.

    converged : whether the objective settled, or the held-out loss ended the fit; else the sweeps ran out.
    at_rest : the objective of these states, whose users have settled; None where no sweep was made.
    """

    users: State
    items: State
    shared: Any
    objective: list[float]
    held_out: list[float] = field(default_factory=list)
    converged: bool = False
    at_rest: float | None = None

    def release(self) -> None:
        """Let go of the states; what was made of them can still be recomputed."""
        self.users.release()
        self.items.release()

    def discard(self) -> None:
        """Let go of the states and of what they could be recomputed from: nothing was made of them."""
        with LiveStates() as live:
            live.add(self.users)
            live.add(self.items)


class LiveStates:
    """The states of a fit that are in use; those that are left at the end are let go, however it ends.

    With a state goes what it could be recomputed from, unless a state that stays needs it too.
    """

    def __init__(self) -> None:
        self._alive: list[State] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.keep_only(())

    def add(self, state: State) -> State:
        """Put one more state under this care."""
        self._alive.append(state)
        return state

    def exchange(self, state: State, other: State) -> State:
        """Put another state in the place of one whose results it shares."""
        self._alive = [other if alive is state else alive for alive in self._alive]
        return other

    def keep_only(self, wanted: Iterable[State | None]) -> None:
        """Let go of all states but these."""
        wanted_ids = {id(state) for state in wanted}
        alive = [state for state in self._alive if id(state) in wanted_ids]
        for state in self._alive:
            if id(state) not in wanted_ids:
                state.release()
        destroy(needed_by(self._alive) - needed_by(alive))
        self._alive = alive

    def hand_over(self) -> None:
        """Leave the states that are left to the caller, who releases them."""
        self._alive = []


def alternate(
    users: AnySide,
    items: AnySide,
    steps: Steps,
    stop: Stopping,
    listener: Listener,
    start: Start | None = None,
    after_sweep: AfterSweep | None = None,
) -> Fit:
    """Sweep until the objective settles or the held-out loss stops falling; then settle the users once more.

    With held-out pairs the result is that of the sweep with the smallest loss. The users settle so that folding a
    training user in with the training ratings gives the same factors; without held-out pairs, where that makes the
    objective worse than the last sweep's, the fit goes on from there.
    """
    past = start.past if start else Past()
    history = History(
        steps.stage,
        steps.rises,
        stop.tol,
        SLACK[stop.precision],
        listener,
        list(past.objective),
        settled=past.settled,
        small_gains=past.small_gains,
    )
    patience, pace = Patience(stop.patience), Pace.of(steps, len(past.objective), past.streak)
    sweeps = range(len(past.objective) + 1, 1 + (0 if past.settled else stop.max_iter))
    with LiveStates() as live:
        now = best = _begin(users, items, steps, start, live)
        for sweep in sweeps:
            now = _climb(users, items, steps, now, live, history, pace)
            loss = steps.held_out_loss(now.items.sums, now.shared)
            if loss is None or patience.improved_by(loss):
                best = now
            live.keep_only((now.users, now.items, best.users, best.items))
            if after_sweep is not None:
                values, numbers = tuple(history.values), _plain_numbers(now.items.sums)
                so_far = Past(values, history.settled, history.small_gains, pace.streak, numbers)
                after_sweep(now.users, now.items, now.shared, so_far)
            if history.settled or patience.exhausted:
                break
            if sweep % stop.checkpoint_interval == 0:
                now, best = _end_lineage(now, best, live)
                free_disks(users, items)  # now that nothing refers to what was before
        final = _settle(users, steps, best, live)
        if not patience.losses:
            final, best = _mend(users, items, steps, final, best, live, history)
        live.keep_only((final, best.items))
        live.hand_over()
    converged = history.settled or patience.exhausted
    at_rest = _at_rest(steps, final, best) if history.values else None
    return Fit(final, best.items, best.shared, history.values, patience.losses, converged, at_rest)


@dataclass(frozen=True)
class _Moment:
    """Both sides and the shared terms between two sweeps; the users only where the model remembers them."""

    users: State | None
    items: State
    shared: Any


def _begin(users: AnySide, items: AnySide, steps: Steps, start: Start | None, live: LiveStates) -> _Moment:
    user_start, item_start = (start.users, start.items) if start else (None, None)
    user_state = live.add(half_step(users, steps.start_users(), previous=user_start)) if steps.remembers else None
    item_state = half_step(items, steps.start_items(), previous=item_start)
    if start:
        earlier = {name: np.array(value) for name, value in start.past.sums.items()}
        item_state = replace(item_state, sums={**earlier, **item_state.sums})
    return _Moment(user_state, live.add(item_state), start.shared if start else steps.shared)


def _plain_numbers(sums: Arrays) -> dict[str, float]:
    return {name: float(value) for name, value in sums.items() if np.ndim(value) == 0}


def _climb(
    users: AnySide, items: AnySide, steps: Steps, now: _Moment, live: LiveStates, history: History, pace: Pace
) -> _Moment:
    """Sweep as far as the pace says or, where that makes the objective worse, from the same moment to the optimum."""
    after, objective = _sweep(users, items, _at_pace(steps, pace, now), now, live)
    if pace.stride.is_long and not history.improved_by(objective):
        pace.undone()
        after, objective = _sweep(users, items, _at_pace(steps, pace, now), now, live)
    history.enough = pace.gains_to_settle
    history.settled_at(objective)
    pace.improved()
    return after


def _at_pace(steps: Steps, pace: Pace, now: _Moment) -> Steps:
    """Return the steps of the next sweep: as far as the pace says, from balanced factors where the model has them."""
    if not (pace.accelerates and isinstance(steps, Paced)):
        return steps
    paced = steps.at_pace(pace.stride)
    if isinstance(paced, Balanced) and now.users is not None:
        return paced.balanced(now.users.sums, now.items.sums)
    return paced


def _sweep(users: AnySide, items: AnySide, steps: Steps, now: _Moment, live: LiveStates) -> tuple[_Moment, float]:
    remembered = now.items if steps.remembers else None
    kernel = adding_parts(steps.users(now.shared), steps, now.shared)
    user_state = live.add(half_step(users, kernel, now.items, now.users))
    item_state = _move_items(users, items, steps, now.shared, user_state, remembered, live)
    objective, shared = steps.conclude(user_state.sums, item_state.sums, now.shared)
    return _Moment(user_state if steps.remembers else None, item_state, shared), objective


def _move_items(
    users: AnySide,
    items: AnySide,
    steps: Steps,
    shared: Any,
    user_state: State,
    remembered: State | None,
    live: LiveStates,
) -> State:
    moved = live.add(half_step(items, steps.items(shared), user_state, remembered))
    return live.exchange(moved, scored(users, steps, shared, user_state, moved))


def _settle(users: AnySide, steps: Steps, best: _Moment, live: LiveStates) -> State:
    kernel = steps.settle_and_score(best.shared) if isinstance(steps, Settling) else steps.settle(best.shared)
    return live.add(half_step(users, adding_parts(kernel, steps, best.shared), best.items))


def _at_rest(steps: Steps, final: State, best: _Moment) -> float | None:
    return steps.at_rest(final.sums, best.items.sums, best.shared) if isinstance(steps, Settling) else None


def _mend(
    users: AnySide, items: AnySide, steps: Steps, final: State, best: _Moment, live: LiveStates, history: History
) -> tuple[State, _Moment]:
    """Move the items, and settle again, until settling costs nothing against the last sweep."""
    for _ in range(MOST_MENDS):
        at_rest = _at_rest(steps, final, best) if history.values else None
        if at_rest is None or not history.worsened_by(at_rest):
            break
        item_state = _move_items(users, items, steps, best.shared, final, best.items, live)
        _, shared = steps.conclude(final.sums, item_state.sums, best.shared)
        best = _Moment(None, item_state, shared)
        final = _settle(users, steps, best, live)
        live.keep_only((final, item_state))
    return final, best


def _end_lineage(now: _Moment, best: _Moment, live: LiveStates) -> tuple[_Moment, _Moment]:
    """Both moments from reliable checkpoints on; what they have in common is written once."""
    states = {id(s): s for s in (now.users, now.items, best.users, best.items) if s is not None}
    ended = dict(zip(states, end_lineage(*states.values()), strict=True))
    for state in ended.values():
        live.add(state)
    live.keep_only(ended.values())

    def moved(moment: _Moment) -> _Moment:
        users = None if moment.users is None else ended[id(moment.users)]
        return _Moment(users, ended[id(moment.items)], moment.shared)

    return moved(now), moved(best)
