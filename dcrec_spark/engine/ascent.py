"""The loop of every fit: users, items, shared terms, until the objective converges.

A model supplies its :class:`~dcrec_spark.engine.steps.Steps`: kernels for both sides, and what to do with their sums.
The loop owns the states, the checkpoints, the history and the early stop.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from dcrec_spark.engine.acceleration import PLAIN_STEP, Acceleration
from dcrec_spark.engine.convergence import SLACK, History, Listener, Patience
from dcrec_spark.engine.heavy_items import add_scores, with_parts
from dcrec_spark.engine.sides import Side, State, destroy, needed_by
from dcrec_spark.engine.steps import Steps

# Largest relative change of the items at a fixed point, in units of tol: 1e-3 with tol = 1e-8. The default, 1e-5, asks
# for no fixed point: sweeping on would take half as many sweeps again for 0.07 % of the ELBO of MovieLens 100K.
STILL = 1e5
# At most so many item updates follow where solving the users has made the objective worse. A fixed point takes more of
# them: 50 to 110 on MovieLens 100K with tol = 1e-8, after 430 to 490 sweeps.
EXTRA_SWEEPS = 10


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

    @property
    def still(self) -> float:
        """Largest relative change of the items at a fixed point. From 1 on, as in float32, none is asked for."""
        return STILL * max(self.tol, SLACK[self.precision])


@dataclass(frozen=True)
class Past:
    """The history of a fit: all that its next sweep depends on but the states.

    objective : after each sweep. converged : whether the sweeps have ended. small_gains : in succession, up to the last
        sweep. streak : sweeps in succession without one that was undone. sums : the plain numbers among those of the
        items' last sweep, which the end of the fit needs if no sweep follows.
    """

    objective: Sequence[float] = ()
    converged: bool = False
    small_gains: int = 0
    streak: int = 0
    sums: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Moment:
    """Both sides and the shared terms between two sweeps, and the history of the fit up to there.

    A warm start is one too: states that remember a fitted model, without a past.
    """

    users: State
    items: State
    shared: Any
    past: Past = Past()


# Called after each sweep.
AfterSweep = Callable[[Moment], None]


@dataclass(frozen=True)
class Fit:
    """The last states of both sides, the shared terms, and the objective and held-out loss after each sweep.

    converged : whether the objective converged, or the held-out loss ended the fit, else max_iter was reached.
    final_objective : of these states, whose users were solved last. None if no sweep was made. Without held-out pairs
        the last of ``objective``.
    """

    users: State
    items: State
    shared: Any
    objective: list[float]
    held_out: list[float] = field(default_factory=list)
    converged: bool = False
    final_objective: float | None = None

    def release(self) -> None:
        """Release the states. What was computed from them can still be recomputed."""
        self.users.release()
        self.items.release()


class LiveStates:
    """The states of a fit that are in use. The others are released, and all of them if the fit fails.

    A released state takes the data along that only its recomputation needs.
    """

    def __init__(self) -> None:
        self._alive: list[State] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.keep_only(())

    def add(self, state: State) -> State:
        """Register one more state."""
        self._alive.append(state)
        return state

    def replace(self, state: State, other: State) -> State:
        """Register another state instead of one with the same rows."""
        self._alive = [other if alive is state else alive for alive in self._alive]
        return other

    def keep_only(self, wanted: Iterable[State]) -> None:
        """Release all states but these."""
        wanted_ids = {id(state) for state in wanted}
        alive = [state for state in self._alive if id(state) in wanted_ids]
        for state in self._alive:
            if id(state) not in wanted_ids:
                state.release()
        destroy(needed_by(self._alive) - needed_by(alive))
        self._alive = alive

    def hand_over(self) -> None:
        """Leave the remaining states to the caller, who releases them."""
        self._alive = []


def alternate(
    users: Side,
    items: Side,
    steps: Steps,
    stop: Stopping,
    listener: Listener,
    start: Moment | None = None,
    after_sweep: AfterSweep | None = None,
) -> Fit:
    """Sweep until the objective converges or the held-out loss stops falling. Then solve the users once more.

    With held-out pairs the result is that of the sweep with the smallest loss. The users are solved from a fixed start,
    so that folding a training user in with the training ratings gives the same factors. If that makes the objective
    worse than the last sweep's, the fit continues from there, except with held-out pairs. With a tolerance below the
    default it also sweeps on where a plain step of the items after the solved users shows that they are no fixed point.
    """
    past = start.past if start else Past()
    history = History(
        steps.stage,
        steps.rises,
        stop.tol,
        SLACK[stop.precision],
        listener,
        list(past.objective),
        converged=past.converged,
        small_gains=past.small_gains,
    )
    longest = steps.longest if steps.accelerates else PLAIN_STEP
    patience, acceleration = Patience(stop.patience), Acceleration(longest, len(past.objective), past.streak)
    with LiveStates() as live:
        ascent = _Ascent(users, items, steps, stop, live, history, acceleration)
        now: Moment | None = ascent.begin(start)
        while now is not None:
            best = now
            while not (history.converged or patience.exhausted) and len(history.values) < stop.max_iter:
                now = ascent.climb(now)
                loss = steps.held_out_loss(now.items.sums, now.shared)
                if loss is None or patience.improved_by(loss):
                    best = now
                live.keep_only((now.users, now.items, best.users, best.items))
                if after_sweep is not None:
                    after_sweep(replace(now, past=ascent.past(now)))
                goes_on = not (history.converged or patience.exhausted)
                if goes_on and len(history.values) % stop.checkpoint_interval == 0:
                    now, best = _end_lineage(now, best, live)
                    users.free_disks()  # now that nothing refers to earlier states
                    items.free_disks()
            final, now = ascent.solve_users(best), None
            if not patience.losses:
                final, best = ascent.improve(final, best)
                now = ascent.refutation(final, best)
        live.keep_only((final, best.items))
        live.hand_over()
    converged = history.converged or patience.exhausted
    objective = ascent.final_objective(final, best)
    if objective is not None and not patience.losses:
        history.values[-1] = objective
    return Fit(final, best.items, best.shared, history.values, patience.losses, converged, objective)


@dataclass(frozen=True)
class _Ascent:
    """What all sweeps of a fit work with."""

    users: Side
    items: Side
    steps: Steps
    stop: Stopping
    live: LiveStates
    history: History
    acceleration: Acceleration

    def begin(self, start: Moment | None) -> Moment:
        """Return the first moment: as the start has it, else from the seed."""
        users, items, steps = self.users, self.items, self.steps
        user_start, item_start = (start.users, start.items) if start else (None, None)
        user_state = self.live.add(users.half_step(steps.start(True), previous=user_start))
        item_state = items.half_step(steps.start(False), previous=item_start)
        if start:
            earlier = {name: np.array(value) for name, value in start.past.sums.items()}
            item_state = item_state.with_sums({**earlier, **item_state.sums})
        return Moment(user_state, self.live.add(item_state), start.shared if start else steps.shared)

    def climb(self, now: Moment) -> Moment:
        """Sweep with the next stride or, if that makes the objective worse, from the same moment with plain steps."""
        after, objective = self._sweep(now)
        if self.acceleration.stride.is_long and not self.history.improved_by(objective):
            self.acceleration.reset()
            after, objective = self._sweep(now)
        self.history.enough = self.acceleration.gains_to_converge
        self.history.record(objective)
        self.acceleration.grow()
        return after

    def past(self, now: Moment) -> Past:
        """Return the history up to now."""
        numbers = {name: float(value) for name, value in now.items.sums.items() if np.ndim(value) == 0}
        history = self.history
        return Past(tuple(history.values), history.converged, history.small_gains, self.acceleration.streak, numbers)

    def solve_users(self, best: Moment) -> State:
        """Solve the users from a fixed start."""
        kernel = with_parts(self.steps.converge(best.shared, scores=True), self.steps, best.shared)
        return self.live.add(self.users.half_step(kernel, best.items))

    def final_objective(self, final: State, best: Moment) -> float | None:
        """Return the objective with solved users. None before any sweep, and where the steps don't compute it."""
        if not self.history.values:
            return None
        return self.steps.converged_objective(final.sums, best.items.sums, best.shared)

    def improve(self, final: State, best: Moment) -> tuple[State, Moment]:
        """Update the items and solve the users again, until the objective is no worse than the last sweep's.

        Where it stays worse, a fit that looks for a fixed point goes on to one.
        """
        for sweep in range(max(EXTRA_SWEEPS, self.stop.max_iter if self._seeks_fixed_point(best) else 0)):
            objective = self.final_objective(final, best)
            if objective is None or not self.history.worsened_by(objective):
                break
            if sweep >= EXTRA_SWEEPS and not self._moves(best.items):
                break
            item_state = self._move_items(self.steps, best.shared, final, best.items)
            _, shared = self.steps.conclude(final.sums, item_state.sums, best.shared)
            best = Moment(final, item_state, shared)
            final = self.solve_users(best)
            self.live.keep_only((final, item_state))
        return final, best

    def refutation(self, final: State, best: Moment) -> Moment | None:
        """Return where to sweep on if solved users and the items are no fixed point, by a plain step of the items."""
        history, steps = self.history, self.steps
        if not self._seeks_fixed_point(best):
            return None
        item_state = self._move_items(steps, best.shared, final, best.items)
        objective, shared = steps.conclude(final.sums, item_state.sums, best.shared)
        if not self._moves(item_state) or history.worsened_by(objective):
            return None
        history.record(objective)
        history.converged, history.small_gains = False, 0
        self.acceleration.grow()
        self.acceleration.reset()
        return Moment(final, item_state, shared)

    def _seeks_fixed_point(self, best: Moment) -> bool:
        """Whether the fit has converged, and looks for a fixed point."""
        is_over = not self.history.converged or len(self.history.values) >= self.stop.max_iter
        return self.stop.still < 1.0 and not is_over and self.steps.movement(best.items.sums) is not None

    def _moves(self, items: State) -> bool:
        """Whether the items' last step was longer than at a fixed point."""
        movement = self.steps.movement(items.sums)
        return movement is not None and movement > self.stop.still

    def _sweep(self, now: Moment) -> tuple[Moment, float]:
        steps = self.steps
        if self.acceleration.longest.is_long:
            steps = steps.accelerated(self.acceleration.stride, now.users.sums, now.items.sums)
        kernel = with_parts(steps.update(now.shared, True), steps, now.shared)
        user_state = self.live.add(self.users.half_step(kernel, now.items, now.users))
        item_state = self._move_items(steps, now.shared, user_state, now.items)
        objective, shared = steps.conclude(user_state.sums, item_state.sums, now.shared)
        return Moment(user_state, item_state, shared), objective

    def _move_items(self, steps: Steps, shared: Any, user_state: State, before: State) -> State:
        moved = self.live.add(self.items.half_step(steps.update(shared, False), user_state, before))
        return self.live.replace(moved, add_scores(self.users, steps, shared, user_state, moved))


def _end_lineage(now: Moment, best: Moment, live: LiveStates) -> tuple[Moment, Moment]:
    """Return both moments from reliable checkpoints. A state in both is written once."""
    states = {id(s): s for s in (now.users, now.items, best.users, best.items)}
    ended = {key: live.add(state.checkpoint()) for key, state in states.items()}
    live.keep_only(ended.values())

    def from_checkpoint(moment: Moment) -> Moment:
        return Moment(ended[id(moment.users)], ended[id(moment.items)], moment.shared)

    return from_checkpoint(now), from_checkpoint(best)
