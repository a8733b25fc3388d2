"""Settings of an evaluation: variants of the metrics, columns, and the bootstrap."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.measures import HITS, Kind, Measure

Gain = Literal["2^rel-1", "2^(rel-1)", "rel"]
Missing = Literal["refuse", "drop"]


@dataclass(frozen=True)
class Columns:
    """Names of the columns of users, items and ratings; ids are strings or whole numbers.

    weight : how much each test rating counts in ``mse`` and ``mae``, a number from 0 on; None: all alike. With the
    inverse of the probability that a rating was given they estimate the error on random pairs
    (:func:`~dcrec_spark.evaluation.inverse_propensity.weigh`).

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
    """Variants of the metrics, whose definitions stand in dcrec_spark/kernels/metrics.py, and the bootstrap.

    Parameters
    ----------
    ks : tuple of int
        Cuts of the lists.
    relevance : float
        A test rating from here on makes an item relevant, for recall, precision and MAP.
    gain : {"2^rel-1", "2^(rel-1)", "rel"}
        Worth of a test rating in NDCG. "2^rel-1" is usual and in the authors' code; their paper (arXiv 1808.06581)
        prints "2^(rel-1)".
    clip : (lowest, highest), optional
        Ratings to which predictions are clipped before errors are taken; None: predictions as they are.
    missing : {"refuse", "drop"}
        Test ratings without a finite prediction (cold start) are refused, or dropped for all models alike.
    replications, confidence, seed : int, float, int
        Of the Poisson bootstrap; without replications there are no intervals. Equal seeds give equal resamples, and
        only then can evaluations be compared pair by pair.

    Raises
    ------
    ConfigError
        A setting is out of its range; the error names it.

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
        """Refuse what the types allow and the metrics do not."""
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
        >>> MetricSettings(relevance=4).variant(Measure(Kind.RECALL, 5))
        'recall@5(rating>=4)'
        """
        if measure.kind is Kind.NDCG:
            return f"{measure}({self.gain})"
        if measure.kind in HITS:
            return f"{measure}(rating>={self.relevance:g})"
        if measure.is_error and self.clip:
            return f"{measure}(clipped to {self.clip[0]:g}..{self.clip[1]:g})"
        return str(measure)
