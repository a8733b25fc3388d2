"""Progress bar of a fit: stage, iteration, objective, and the longest time that it may still take.

Shown on a terminal and in notebooks. Elsewhere each iteration is a log record of level INFO.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from shutil import get_terminal_size
from typing import Any

from pyspark.ml.param import Params

from dcrec_spark.engine.convergence import Listener

SWITCH = "DCREC_PROGRESS"
_RUNNING = "{desc} {bar} {n_fmt}/{total_fmt}{postfix} [{elapsed}, at most {remaining} left]"
_FINISHED = "{desc}: {n_fmt} iterations{postfix} [{elapsed}]"

_WIDEST = 100

_log = logging.getLogger(__name__)
_shown = os.environ.get(SWITCH, "1") != "0"


def show_progress(shown: bool) -> None:
    """Switch the progress bars of fits on or off for this process, from now on.

    They are on unless the environment variable ``DCREC_PROGRESS`` is ``0``, and appear on a terminal and in notebooks
    only. An estimator with a ``listener`` of its own shows none.

    Examples
    --------
    >>> from dcrec_spark import show_progress
    >>> show_progress(False)
    """
    global _shown
    _shown = shown


def log_iteration(stage: str, iteration: int, objective: float) -> None:
    """Log one iteration: the listener that estimators have unless another is set."""
    _log.info("%s iteration %d: objective %.6g", stage, iteration, objective)


@contextmanager
def listening(estimator: Params, stage: str) -> Iterator[Listener]:
    """Return the listener of a fit: an estimator's own, else one that logs, and shows a bar where one can be seen."""
    listener: Listener = getattr(estimator, "listener", log_iteration)
    make = _bar_maker() if _shown and listener is log_iteration else None
    if make is None:
        yield listener
        return
    bar = make(total=estimator.getOrDefault("maxIter"), desc=stage, bar_format=_RUNNING)

    def update(name: str, iteration: int, objective: float) -> None:
        log_iteration(name, iteration, objective)
        bar.set_postfix_str(f"objective {objective:,.1f}", refresh=False)
        bar.update()

    try:
        yield update
        bar.total, bar.bar_format = bar.n, _FINISHED  # mostly fewer iterations than maxIter
        bar.refresh()
    finally:
        bar.close()


def _bar_maker() -> Callable[..., Any] | None:
    """Return tqdm for the terminal or the notebook that this process has. None without either."""
    interactive = sys.modules.get("IPython")
    notebook = interactive is not None and hasattr(interactive.get_ipython(), "kernel")
    if not (notebook or sys.stderr.isatty()):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text, and needs no advice
            maker: Callable[..., Any] = import_module("tqdm.auto").tqdm
    except ModuleNotFoundError:  # left out on purpose, by an installation without dependencies
        return None
    if notebook:
        return maker
    # A terminal that does not know its size, as in some containers, counts as one of 80 x 24.
    size = get_terminal_size()
    return partial(maker, ncols=min(size.columns - 1, _WIDEST), nrows=size.lines)
