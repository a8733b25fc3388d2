"""Every pair of ends of two numeric settings, in some fit: a finite model, or an error that names a setting.

Not every combination: rows are drawn so that each pair of values of two settings is in one of them.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.errors import DcrecError
from dcrec_spark.local.fits import Exposure, Outcome, fit_exposure, fit_outcome
from dcrec_spark.settings.domains import Number
from dcrec_spark.settings.tables import EXPOSURE, OUTCOME, Setting, camel_case, in_section
from tests.local.test_extremes import draw_ratings

# The ends that a few ratings can fill, and that take no time; the others are those of the tables.
BRIEF = {"rank": (1, 6), "max_iter": (1, 8)}
NAMES = [name for setting in (*EXPOSURE, *OUTCOME) for name in (setting.name, setting.param)]
# Choices that bring numeric settings of their own.
FORMS = {
    "user": {"confounder_weight": "user", "confounder_link": "identity"},
    "pooled": {"confounder_weight": "pooled", "confounder_link": "identity"},
    "log": {"confounder_weight": "global", "confounder_link": "log", "confounder": "reconstruction"},
}
MODELS = [
    *itertools.product(("weighted", "probabilistic"), ("deconfounded",), ("cholesky", "cg"), FORMS),
    *itertools.product(("weighted", "probabilistic"), ("none", "ipw"), ("cholesky", "cg"), ("user",)),
    *itertools.product(("poisson",), ("deconfounded", "none", "ipw"), ("cholesky",), ("user",)),
]
RATINGS = draw_ratings(9, 7, 0.5)
Row = dict[str, Any]


def ends(setting: Setting) -> Sequence[Any]:
    kind = setting.domain
    return BRIEF.get(setting.name) or (kind.low, kind.high, *([None] if kind.optional else []))


def numbers(settings: tuple[Setting, ...], section: str, **chosen: str) -> dict[str, Sequence[Any]]:
    """The ends of the numeric settings that have an effect next to what was chosen, as estimators spell them."""
    return {
        setting.param: ends(setting)
        for setting in in_section(settings, section).values()
        if isinstance(setting.domain, Number)
        and all(chosen[other] in choices for other, choices in setting.concerns.items())
    }


def pairs_of(row: Mapping[str, Any]) -> set[frozenset[tuple[str, Any]]]:
    return {frozenset(pair) for pair in itertools.combinations(row.items(), 2)}


def covering(choices: Mapping[str, Sequence[Any]]) -> Iterator[Row]:
    """Rows that have every pair between them: each begins with a pair to come, and adds what most of them are with."""
    left = set[frozenset[tuple[str, Any]]]()
    for a, b in itertools.combinations(choices, 2):
        crossed = itertools.product([(a, x) for x in choices[a]], [(b, y) for y in choices[b]])
        left |= {frozenset(pair) for pair in crossed}
    while left:
        row = dict(min(left, key=lambda pair: repr(sorted(pair, key=repr))))
        for name in [name for name in choices if name not in row]:
            found = {value: len(left & pairs_of({**row, name: value})) for value in choices[name]}
            row[name] = max(found, key=found.__getitem__)
        left -= pairs_of(row)
        yield {name: row[name] for name in choices}


@cache
def exposures() -> list[Exposure]:
    """Stage 1 by each of its rows: all of them can be fitted."""
    rows = covering(numbers(EXPOSURE, "exposure"))
    return [fit_exposure(RATINGS, PoissonFactorization(**row)) for row in rows]


def fitted_or_refused(estimator: DeconfoundedMF, exposure: Exposure | None) -> Outcome | str:
    try:
        return fit_outcome(RATINGS, estimator, exposure)
    except (DcrecError, ValueError) as error:  # no other error is a refusal
        return str(error)


def test_pairs_of_ends_of_stage_one() -> None:
    assert len(exposures()) >= 4
    for exposure in exposures():
        assert np.isfinite(exposure.users).all()
        assert np.isfinite(exposure.items).all()


@pytest.mark.parametrize(("outcome", "adjustment", "solver", "form"), MODELS)
def test_pairs_of_ends_of_stage_two(outcome: str, adjustment: str, solver: str, form: str) -> None:
    chosen = {"outcome": outcome, "adjustment": adjustment, "solver": solver, **FORMS[form]}
    of_estimator, fitted = {camel_case(name): choice for name, choice in chosen.items()}, 0
    for number, row in enumerate(covering(numbers(OUTCOME, "outcome", **chosen))):
        exposure = exposures()[number % len(exposures())] if adjustment == "deconfounded" else None
        found = fitted_or_refused(DeconfoundedMF(**of_estimator, **row), exposure)
        if isinstance(found, str):
            assert any(re.search(rf"\b{name}\b", found) for name in NAMES), row
            continue
        fitted += 1
        for factor in (found.users, found.items, found.gamma, found.intercept, found.objective):
            assert np.isfinite(factor).all(), row
    assert fitted > 0
