"""What is shown of a fit, where somebody may be looking, and that nothing is shown elsewhere."""

import io
import logging
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
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
    """Puts a terminal in place of standard error."""
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
    screen = terminal()
    iterate(PoissonFactorization(maxIter=50), "exposure", -900.0, -800.5)
    (line,) = screen.lines()
    assert line == "exposure: 2 iterations, objective -800.5 [00:00]"


def test_while_it_runs_the_bar_says_how_long_at_most(terminal: Callable[[], Terminal]) -> None:
    """The bar is rewritten ten times a second at most; here its first line is looked at."""
    screen = terminal()
    iterate(DeconfoundedMF(maxIter=20), "outcome", 5.0)
    first = screen.getvalue().split("\r")[1]
    assert first.startswith("outcome ")
    assert "0/20 [00:00, at most ? left]" in first


def test_a_fit_that_fails_leaves_its_bar_where_it_was(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()

    def fit() -> None:
        with listening(PoissonFactorization(), "exposure") as listener:
            listener("exposure", 1, -9.0)
            raise ValueError("astray")

    with pytest.raises(ValueError, match="astray"):
        fit()
    (line,) = screen.lines()
    assert "/300" in line


def test_a_listener_of_ones_own_takes_the_place_of_the_bar(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    estimator, heard = PoissonFactorization(), []
    estimator.listener = lambda *iteration: heard.append(iteration)
    iterate(estimator, "exposure", -9.0)
    assert heard == [("exposure", 1, -9.0)]
    assert screen.lines() == []


def test_one_switch_turns_all_bars_off(terminal: Callable[[], Terminal]) -> None:
    screen = terminal()
    show_progress(False)
    iterate(PoissonFactorization(), "exposure", -9.0)
    assert screen.lines() == []


def test_where_nobody_looks_iterations_are_log_records_only(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, progress.__name__):
        iterate(PoissonFactorization(), "exposure", -9.0)
    assert caplog.messages == ["exposure iteration 1: objective -9"]
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")


@pytest.mark.parametrize(
    ("interactive", "is_notebook"),
    [
        (None, False),
        (SimpleNamespace(get_ipython=lambda: None), False),
        (SimpleNamespace(get_ipython=lambda: SimpleNamespace()), False),  # IPython on a terminal
        (SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())), True),
    ],
)
def test_what_is_a_notebook(monkeypatch: pytest.MonkeyPatch, interactive: Any, is_notebook: bool) -> None:
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    assert progress._in_notebook() is is_notebook


def test_without_tqdm_a_fit_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert progress._bar_maker() is None


def test_estimators_have_the_listener_that_lets_a_bar_show() -> None:
    assert PoissonFactorization().listener is log_iteration
    assert DeconfoundedMF().listener is log_iteration
