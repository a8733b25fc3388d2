"""Several fits from a seed each, of which the best is kept."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from dcrec_spark.engine.ascent import Fit
from dcrec_spark.errors import FitError

_log = logging.getLogger(__name__)


def best_of(restarts: int, fit: Callable[[int], Fit], seed_of: Callable[[int], int], rises: bool) -> Fit:
    """Return the fit with the smallest held-out loss or, without held-out pairs, the best objective; others are let go.

    Parameters
    ----------
    restarts : how many fits. fit, seed_of : the fit, and its seed, of restart 0, 1, ...
    rises : whether the objective is a bound that rises.

    Raises
    ------
    FitError : all fits went astray; the last one's. One that does is left out, and a warning says so.
    """
    fits = _sound_fits(restarts, fit, seed_of)
    best = next(fits)
    with ExitStack() as on_error:
        on_error.callback(lambda: best.discard())
        for other in fits:
            better, worse = (other, best) if _score(other, rises) < _score(best, rises) else (best, other)
            worse.discard()
            best = better
        on_error.pop_all()
    return best


def _sound_fits(restarts: int, fit: Callable[[int], Fit], seed_of: Callable[[int], int]) -> Iterator[Fit]:
    left_out = 0
    for restart in range(restarts):
        try:
            result = fit(restart)
        except FitError as error:
            left_out += 1
            if left_out == restarts:
                raise
            _log.warning("seed %d, one of %d restarts, is left out: %s", seed_of(restart), restarts, error)
        else:
            yield result


def _score(fit: Fit, rises: bool) -> float:
    if fit.held_out:
        return min(fit.held_out)
    reached = fit.at_rest or 0.0
    return -reached if rises else reached
