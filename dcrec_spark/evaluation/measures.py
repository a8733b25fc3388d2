"""Measures and their names, the variants that they come in, and the columns that they read.

    ndcg                   of the whole list of a user's test items
    recall@5               of its first five places
    catalogue_ndcg@10      of lists of unseen items from the whole catalogue
    catalogue_hit_rating@10    mean rating of the places with a test rating: do people like what they take up?
    catalogue_rare_share@10    of the places, those of items with few training ratings
    item_mse               of each item, averaged over items

Tables, settings and dictionaries hold these names. Code asks a :class:`Measure` for its parts.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from dcrec_spark.errors import ConfigError

_CATALOGUE = "catalogue_"
_NAME = re.compile(rf"(?P<catalogue>{_CATALOGUE})?(?P<kind>[a-z_]+?)(@(?P<k>[1-9]\d*))?")


class MeasureKind(StrEnum):
    """Kind of a measure. :mod:`dcrec_spark.kernels.metrics` has the definitions."""

    NDCG = "ndcg"
    RECALL = "recall"
    PRECISION = "precision"
    MAP = "map"
    COVERAGE = "coverage"
    HIT_RATING = "hit_rating"
    RARE_SHARE = "rare_share"
    RAREST_SHARE = "rarest_share"
    LARGEST_SHARE = "largest_share"
    POPULARITY = "popularity"
    MSE = "mse"
    MAE = "mae"
    ITEM_MSE = "item_mse"
    ITEM_MAE = "item_mae"


ERRORS = (MeasureKind.MSE, MeasureKind.MAE, MeasureKind.ITEM_MSE, MeasureKind.ITEM_MAE)
# Measures that ask which of the first k items are relevant.
HITS = (MeasureKind.RECALL, MeasureKind.PRECISION, MeasureKind.MAP)
# Measures of what lists consist of, whoever likes it.
COMPOSITION = (MeasureKind.RARE_SHARE, MeasureKind.RAREST_SHARE, MeasureKind.LARGEST_SHARE, MeasureKind.POPULARITY)
_OF_CATALOGUE = (MeasureKind.HIT_RATING, *COMPOSITION)
_CUT = (*HITS, MeasureKind.COVERAGE, *_OF_CATALOGUE)


class Measure(str):
    """One measure. As a text it is its published name, so that ``metrics.as_dict()["ndcg@5"]`` finds it.

    k : Places of the list that count. None for errors, and for NDCG of the whole list. over_catalogue : Whether the
    lists hold unseen items from the whole catalogue. Raises ConfigError: the parts make no measure.

    >>> Measure(MeasureKind.NDCG, 5)
    Measure('ndcg@5')
    """

    kind: MeasureKind
    k: int | None
    over_catalogue: bool

    def __new__(cls, kind: MeasureKind, k: int | None = None, over_catalogue: bool = False) -> "Measure":
        """Compose the name from its parts."""
        name = f"{_CATALOGUE if over_catalogue else ''}{kind}{'' if k is None else f'@{k}'}"
        expected = _wanted_instead(kind, k, over_catalogue)
        if expected:
            raise ConfigError(f"measure {name!r}: {expected}")
        measure = super().__new__(cls, name)
        measure.kind, measure.k, measure.over_catalogue = kind, k, over_catalogue
        return measure

    def __getnewargs__(self) -> tuple[MeasureKind, int | None, bool]:  # type: ignore[override]  # in another process
        return self.kind, self.k, self.over_catalogue

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"

    @classmethod
    def parse(cls, name: str) -> "Measure":
        """Take a published name apart, without its variant. Raises ConfigError: no measure is called so.

        >>> measure = Measure.parse("catalogue_ndcg@10")
        >>> measure.kind.value, measure.k, measure.over_catalogue
        ('ndcg', 10, True)
        """
        parts = _NAME.fullmatch(name)
        if parts is None or parts["kind"] not in set(MeasureKind):
            raise ConfigError(f"measure: found {name!r}, expected {', '.join(MeasureKind)}, with a cut such as ndcg@5")
        return cls(MeasureKind(parts["kind"]), int(parts["k"]) if parts["k"] else None, bool(parts["catalogue"]))

    @property
    def is_error(self) -> bool:
        """Whether it is of the errors of predicted ratings."""
        return self.kind in ERRORS

    @property
    def is_small_good(self) -> bool:
        """Whether small values are good."""
        return self.kind in ERRORS or self.kind in COMPOSITION


def _wanted_instead(kind: MeasureKind, k: int | None, over_catalogue: bool) -> str:
    """Say what would make the parts a measure. Empty where they are one."""
    if k is not None and k < 1:
        return "expected a cut of at least 1"
    if kind in ERRORS and (k is not None or over_catalogue):
        return "errors are of single predictions, expected neither a cut nor lists from the catalogue"
    if kind in _OF_CATALOGUE and not over_catalogue:
        return f"expected {_CATALOGUE}{kind}@k: it is of lists from the whole catalogue"
    if k is None and (kind in _CUT or over_catalogue):
        return f"expected a cut, {kind}@k"
    return ""


Gain = Literal["2^rel-1", "2^(rel-1)", "rel"]
Missing = Literal["refuse", "drop"]


@dataclass(frozen=True)
class Columns:
    """Names of the columns of users, items and ratings. Ids are strings or whole numbers.

    weight : how much each test rating counts in ``mse`` and ``mae``, a number from 0 on. None: all alike. With the
    inverse of the probability that a rating was given they estimate the error on random pairs
    (:func:`dcrec_spark.weigh_by_exposure`).

    Examples
    --------
    >>> Columns(user="reader", item="book")
    Columns(user='reader', item='book', rating='rating', weight=None)
    """

    user: str = "user"
    item: str = "item"
    rating: str = "rating"
    weight: str | None = None


@dataclass(frozen=True)
class MetricSettings:
    """Variants of the metrics, defined in dcrec_spark/kernels/metrics.py, and the bootstrap.

    ks : cuts of the lists.
    relevance : a test rating from here on makes an item relevant, for recall, precision and MAP.
    gain : worth of a test rating in NDCG: "2^rel-1", which is usual and in the authors' code, "2^(rel-1)", as their
        paper (arXiv 1808.06581) prints, or "rel".
    clip : lowest and highest rating, to which predictions are clipped before errors are taken. None: predictions as
        they are.
    missing : test ratings without a finite prediction (cold start) are refused ("refuse"), or dropped for all models
        alike ("drop").
    replications, confidence, seed : of the Poisson bootstrap. Without replications there are no intervals. Equal seeds
        give equal resamples, and only then can evaluations be compared pair by pair.

    Raises ConfigError: a setting is out of its range. The error names it.

    Examples
    --------
    >>> MetricSettings(ks=(10, 5)).ks
    (5, 10)
    """

    ks: tuple[int, ...] = (5,)
    relevance: float = 3.0
    gain: Gain = "2^rel-1"
    clip: tuple[float, float] | None = None
    missing: Missing = "refuse"
    replications: int = 200
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))
        low, high = self.clip or (0.0, 1.0)
        checks = {
            "ks": (bool(self.ks) and all(isinstance(k, int) and k >= 1 for k in self.ks), "whole numbers >= 1"),
            "relevance": (0 <= self.relevance < math.inf, "a finite rating >= 0"),
            "gain": (self.gain in get_args(Gain), f"one of {', '.join(get_args(Gain))}"),
            "clip": (math.isfinite(low) and math.isfinite(high) and low < high, "(lowest, highest), or None"),
            "missing": (self.missing in get_args(Missing), f"one of {', '.join(get_args(Missing))}"),
            "replications": (self.replications >= 0, "a number >= 0"),
            "confidence": (0 < self.confidence < 1, "a share between 0 and 1"),
        }
        for name, (good, expected) in checks.items():
            if not good:
                raise ConfigError(f"{name}: found {getattr(self, name)!r}, expected {expected}")

    def variant(self, measure: Measure) -> str:
        """Full name of a measure, as the table of metrics has it.

        Examples
        --------
        >>> MetricSettings(relevance=4).variant(Measure(MeasureKind.RECALL, 5))
        'recall@5(rating>=4)'
        """
        if measure.kind is MeasureKind.NDCG:
            return f"{measure}({self.gain})"
        if measure.kind in HITS:
            return f"{measure}(rating>={self.relevance:g})"
        if measure.kind in ERRORS and self.clip:
            return f"{measure}(clipped to {self.clip[0]:g}..{self.clip[1]:g})"
        return str(measure)


# The defaults of functions.
PLAIN_COLUMNS, USUAL_METRICS = Columns(), MetricSettings()
