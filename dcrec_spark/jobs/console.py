"""Display of a run: live on a terminal, JSON log lines elsewhere, a summary on both. Known secrets are masked."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Self, TextIO

import structlog
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from dcrec_spark.config.secrets import mask_secrets, mask_values
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.errors import DcrecError
from dcrec_spark.spark.failures import message_of

_log = structlog.get_logger()


class Reporter(AbstractContextManager["Reporter"]):
    """Steps with their times, iterations with their objective, and a summary at the end.

    timings : seconds of each step so far, by name. done : whether the run is published, so that no signal stops it.
    for_people : whether people read the log, who need no line for each iteration, and no error twice.
    """

    def __init__(self, console: Console | None = None, for_people: bool = False) -> None:
        self.timings: dict[str, float] = {}
        self.done = False
        self.console = console or Console()
        self._live = self.console.is_terminal
        self._for_people = for_people
        self._progress = self._new_display()
        self._tasks: dict[str, TaskID] = {}
        self._stage: str | None = None

    def _new_display(self) -> Progress:
        spinner, done = SpinnerColumn(finished_text="[green]✓"), TimeRemainingColumn(elapsed_when_finished=True)
        name, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
        return Progress(spinner, name, BarColumn(bar_width=24), MofNCompleteColumn(), note, done, console=self.console)

    def __enter__(self) -> Self:
        if self._live:
            self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a part of the run, and show that it is under way."""
        start = time.monotonic()
        self._count(name, 0, 1)
        if not self._live:
            _log.info("started", step=name)
        yield
        self.timings[name] = time.monotonic() - start
        self._begin_stage(None)
        self._count(name, 1, 1)
        if not self._live:
            _log.info("finished", step=name, seconds=round(self.timings[name], 3))

    def listener(self, totals: Mapping[str, int]) -> Listener:
        """For an estimator: one log line, or one tick of a bar, for each iteration of each stage in ``totals``."""
        begun = {"at": time.monotonic()}

        def iteration(stage: str, number: int, objective: float) -> None:
            now = time.monotonic()
            self.timings[stage] = self.timings.get(stage, 0.0) + now - begun["at"]
            begun["at"] = now
            self._begin_stage(stage)
            self._count(stage, number, totals[stage], f"objective {objective:,.1f}")
            if not (self._live or self._for_people):
                _log.info("iteration", step=stage, iteration=number, objective=float(f"{objective:.10g}"))

        return iteration

    def counter(self, name: str, total: int) -> Callable[[str], None]:
        """Return what to call with a note when one of ``total`` things is done: a tick, or a log line each second."""
        done, last = itertools.count(1), {"logged": 0.0}

        def count(note: str) -> None:
            number, now = next(done), time.monotonic()
            self._count(name, number, total, note)
            if not self._live and (now - last["logged"] >= 1 or number == total):
                last["logged"] = now
                _log.info("done", step=name, number=number, of=total, note=note)

        return count

    def _count(self, name: str, number: int, total: int, note: str = "") -> None:
        """Move a bar of the live display, which begins here."""
        if self._live:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=total, note="")
            self._progress.update(self._tasks[name], completed=number, total=total, note=note)

    def _begin_stage(self, stage: str | None) -> None:
        """Fill the bar of the stage before, which may have converged before its last iteration."""
        if self._stage != stage and self._stage in self._tasks:
            task = self._tasks[self._stage]
            self._progress.update(task, total=self._progress.tasks[task].completed)
        self._stage = stage

    def show(self, what: RenderableType) -> None:
        """Print for people, below what is on the display so far: a summary, a table."""
        self._progress.stop()
        self.console.print(what, highlight=False)
        self._progress, self._tasks = self._new_display(), {}
        if self._live:
            self._progress.start()

    def failed(self, error: DcrecError) -> None:
        """Show the error on a terminal, and log it in full, unless people see both."""
        self._progress.stop()
        if not (self._live and self._for_people):
            _log.error(str(error), kind=type(error).__name__, exit_code=error.exit_code)
        if self._live:
            kind = (type(error).__name__, "bold red")
            self.console.print(Text.assemble(kind, ": ", mask_secrets(str(error))), highlight=False)

    def broken(self, error: Exception) -> None:
        """Log an unexpected error: its message, and its stack trace apart from that."""
        self._progress.stop()
        _log.error(
            f"{type(error).__name__}: {message_of(error)}", kind=type(error).__name__, exit_code=1, exc_info=error
        )


class MaskedStream:
    """A text stream that masks known secrets. Otherwise the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, masked. Returns the number of characters that it had."""
        self._stream.write(mask_values(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def mask_output() -> Iterator[None]:
    """Mask what this process prints inside: logs, warnings, summaries, stack traces."""
    out: Any = MaskedStream(sys.stdout)
    err: Any = MaskedStream(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        yield
