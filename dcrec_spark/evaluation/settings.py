"""Which variant of each metric, and how its uncertainty is found."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from dcrec_spark.errors import ConfigError

Gain = Literal["2^rel-1", "2^(rel-1)", "rel"]
Missing = Literal["refuse", "drop"]


@dataclass(frozen=True)
class Columns:
    """The names of the columns; ids are strings or whole numbers."""

    user: str = "user"
    item: str = "item"
    rating: str = "rating"


@dataclass(frozen=True)
class MetricSettings:
    """Settings of an evaluation; dcrec_spark/kernels/metrics.py has the definitions.

    ks : cuts of the lists.
    relevance : a test rating from here on makes an item relevant.
    gain : of a test rating, in NDCG. "2^rel-1" is usual and in the authors' code; their paper prints "2^(rel-1)".
    clip : (lowest, highest) rating to which predictions are clipped before errors are taken; None: as they are.
    missing : test ratings without a finite prediction (cold start): refuse, or drop them, for all models alike.
    replications, confidence, seed : of the Poisson bootstrap; without replications there are no intervals. Equal
        seeds give equal resamples, and only then can evaluations be compared pair by pair.

    Raises ConfigError naming the setting.
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

    def variant(self, measure: str) -> str:
        """A measure's full name: ``recall@5`` -> ``recall@5(rating>=3)``."""
        base = measure.split("@")[0]
        if base.endswith("ndcg"):
            return f"{measure}({self.gain})"
        if base.endswith(("recall", "precision", "map")):
            return f"{measure}(rating>={self.relevance:g})"
        if base.endswith(("mse", "mae")) and self.clip:
            return f"{measure}(clipped to {self.clip[0]:g}..{self.clip[1]:g})"
        return measure
