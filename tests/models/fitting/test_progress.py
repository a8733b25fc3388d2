"""What is shown of a fit, where somebody may be looking, and that nothing is shown elsewhere."""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization, show_progress
from dcrec_spark.models.fitting import progress
from dcrec_spark.models.fitting.progress import listening, log_iteration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """Each line as it stands at the end: what follows the last return to its beginning."""
        return [line.rpartition("\r")[2].strip() for line in self.getvalue().split("\n") if line]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Terminal]]:
    pytest.importorskip("tqdm")

    def opened() -> Terminal:
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    yield opened
    show_progress(True)


def iterate(estimator: Any, stage: str, *objectives: float) -> None:
    with listening(estimator, stage) as listener:
        for iteration, objective in enumerate(objectives, 1):
            listener(stage, iteration, objective)


def test_a_bar_says_stage_iterations_objective_and_time(terminal: Callable[[], Terminal]) -> None:
    """While it runs it says how long at most. It is rewritten ten times a second at most: its first line is read."""
    screen = terminal()
    iterate(PoissonFactorization(maxIter=50), "exposure", -900.0, -800.5)
    assert screen.lines() == ["exposure: 2 iterations, objective -800.5 [00:00]"]
    screen = terminal()
    iterate(DeconfoundedMF(maxIter=20), "outcome", 5.0)
    first = screen.getvalue().split("\r")[1]
    assert first.startswith("outcome ")
    assert "0/20 [00:00, at most ? left]" in first


def test_a_listener_of_ones_own_and_the_switch_turn_bars_off(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    estimator, heard = PoissonFactorization(), []
    assert estimator.listener is DeconfoundedMF().listener is log_iteration  # which lets a bar show
    estimator.listener = lambda *iteration: heard.append(iteration)
    iterate(estimator, "exposure", -9.0)
    assert heard == [("exposure", 1, -9.0)]
    show_progress(False)
    iterate(PoissonFactorization(), "exposure", -9.0)
    assert screen.lines() == []


def test_without_a_terminal_there_are_logs(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        iterate(PoissonFactorization(), "exposure", -9.0)
    assert caplog.messages == ["exposure iteration 1: objective -9"]
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")
