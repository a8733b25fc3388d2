"""What a report is made from: a few small frames and numbers, whatever the size of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dcrec_spark.evaluation.distributions import Histogram, Reliability
from dcrec_spark.evaluation.ranking_change import RankingChange
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck


def rows_of(frame: pd.DataFrame) -> list[Any]:
    """The rows, each with its columns as attributes."""
    return list(frame.itertuples())


@dataclass(frozen=True)
class ModelFacts:
    """A row of the comparison: its name, what it is, and where it is saved if it is."""

    name: str
    what: str
    version: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Counts:
    """Of a set of ratings; ``ratings`` is their distribution."""

    users: int
    items: int
    ratings: Histogram


@dataclass(frozen=True)
class DataFacts:
    """training, test : what the model learned from, and what it is judged by.

    overlap : test ratings dropped, as their pairs are in training too. unknown : test ratings left out, as a model
    knows their user or item not. per_user, per_item : how many have so many training ratings: low, high, n.
    """

    training: Counts
    test: Counts
    overlap: int
    unknown: int
    per_user: pd.DataFrame
    per_item: pd.DataFrame

    @property
    def density(self) -> float:
        """The share of all pairs that is rated in training."""
        return self.training.ratings.n / (self.training.users * self.training.items)


@dataclass(frozen=True)
class Stage:
    """A fit's objective after each iteration. rises : an ELBO does, a loss falls."""

    name: str
    objective: str
    rises: bool
    values: Sequence[float]
    tol: float
    max_iter: int


@dataclass(frozen=True)
class CheckFacts:
    """The predictive check, and how many users' p-values lie in each equal part of 0 to 1."""

    result: PredictiveCheck
    p_values: Sequence[int]
    share: float


@dataclass(frozen=True)
class MetricFacts:
    """estimates : model, measure, value, low, high, n. differences : of the first model from each other one, likewise.

    low, high : NaN where there is no interval. gain : what a rating is worth in NDCG. relevance : from where on an item
    is relevant.
    """

    estimates: pd.DataFrame
    differences: pd.DataFrame
    gain: str
    relevance: float
    confidence: float
    replications: int


@dataclass(frozen=True)
class GammaFacts:
    """values : of the users' confounder weights; None where there is none, or one for all: ``common``."""

    values: Histogram | None
    common: float | None
    negative: int = 0


@dataclass(frozen=True)
class ChangeFacts:
    """What the lists become, from those of the model called ``before``; titles : of the items in it, by id."""

    change: RankingChange
    before: str
    titles: Mapping[Any, str]


@dataclass(frozen=True)
class SampleUser:
    """rows : rank, title, score, preference, confounder, reasons_text (None where no reasons were asked for)."""

    user: str
    rows: pd.DataFrame


@dataclass(frozen=True)
class ReportFacts:
    """Everything that the report says.

    models : the first is the one that is judged. check, change : a sentence where there is none, which says why.
    listed : in how many users' first ``k`` places an item is: low, high, n. fit_timings : of the run that the model is
    of, None where it is of none. configuration : with secrets masked.
    unrated_are_zeros : whether predictions are scores below the scale of the ratings.
    """

    title: str
    run_id: str
    run_date: str
    models: Sequence[ModelFacts]
    data: DataFacts
    stages: Sequence[Stage]
    check: CheckFacts | str
    metrics: MetricFacts
    reliability: Reliability
    outcome: str
    adjustment: str
    gamma: GammaFacts
    change: ChangeFacts | str
    samples: Sequence[SampleUser]
    intercept: float
    k: int
    listed: pd.DataFrame
    timings: Mapping[str, float]
    fit_timings: Mapping[str, float] | None
    versions: Mapping[str, str]
    configuration: Mapping[str, Any]
    warnings: Sequence[str] = field(default_factory=tuple)
    unrated_are_zeros: bool = False
