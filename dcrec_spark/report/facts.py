"""What a report is made from: a few small frames and numbers, whatever the size of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pandas as pd

from dcrec_spark.evaluation.distributions import Histogram, Reliability
from dcrec_spark.evaluation.ranking_change import RankingChange
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck


def rows_of(frame: pd.DataFrame) -> list[Any]:
    """Rows of a small frame, each with its columns as attributes.

    Examples
    --------
    >>> [row.n for row in rows_of(pd.DataFrame({"low": [1, 2], "n": [30, 40]}))]
    [30, 40]
    """
    return list(frame.itertuples())


@dataclass(frozen=True)
class ModelFacts:
    """A row of the comparison: its name, what it is, and its version if it is saved."""

    name: str
    what: str
    version: str | None = None


@dataclass(frozen=True)
class Counts:
    """Size of a set of ratings; ``ratings`` is the distribution of their values."""

    users: int
    items: int
    ratings: Histogram


@dataclass(frozen=True)
class DataFacts:
    """Ratings that the model learned from, and ratings that it is judged by.

    Parameters
    ----------
    training, test : Counts
        Both sets.
    overlap : int
        Test ratings dropped, as their pairs are in training too.
    unknown : int
        Test ratings left out, as a model does not know their user or item.
    per_user, per_item : pandas.DataFrame
        How many users, or items, have so many training ratings: low, high, n.
    items_missing : int
        Test items left out with all of their ratings.
    """

    training: Counts
    test: Counts
    overlap: int
    unknown: int
    per_user: pd.DataFrame
    per_item: pd.DataFrame
    items_missing: int = 0

    @property
    def density(self) -> float:
        """Share of all pairs of a user and an item that is rated in training."""
        return self.training.ratings.n / (self.training.users * self.training.items)


@dataclass(frozen=True)
class Stage:
    """Objective of a fit after each iteration. rises : an ELBO rises, a loss falls."""

    name: str
    objective: str
    rises: bool
    values: Sequence[float]
    tol: float
    max_iter: int


@dataclass(frozen=True)
class CheckFacts:
    """Predictive check, with the number of users whose p-values lie in each equal part of 0 to 1.

    share : of the training exposures, held out for the check.
    """

    result: PredictiveCheck
    p_values: Sequence[int]
    share: float


@dataclass(frozen=True)
class MetricFacts:
    """Metrics of all models, and differences of the first model from each other one.

    Parameters
    ----------
    estimates, differences : pandas.DataFrame
        model, measure, value, low, high, n; low and high are NaN where there is no interval. In ``differences`` the
        model is the one that the first is compared with.
    gain : str
        Worth of a rating in NDCG.
    relevance : float
        Rating from which on an item is relevant.
    confidence, replications : float, int
        Of the bootstrap's intervals.
    """

    estimates: pd.DataFrame
    differences: pd.DataFrame
    gain: str
    relevance: float
    confidence: float
    replications: int


@dataclass(frozen=True)
class StrataFacts:
    """Differences of the first model from the one called ``other``, for users and for items by their training ratings.

    differences : side ("user" or "item"), ratings (their numbers, in words), members, measure, value, low, high, n.
    """

    other: str
    differences: pd.DataFrame


@dataclass(frozen=True)
class GammaFacts:
    """Users' confounder weights: ``values``, or ``common`` where there is one for all; both None where there is none.

    negative : users whose weight is below 0.
    """

    values: Histogram | None
    common: float | None
    negative: int = 0


@dataclass(frozen=True)
class CertaintyFacts:
    """How sure the lists are.

    Parameters
    ----------
    coverage : float
        What the intervals promise.
    widths : Histogram
        Of the intervals of all places.
    extrapolating : float or None
        Share of the places that extrapolate; None without an exposure model.
    odds : tuple of float
        The quarter, the half and three quarters of the users have lists whose first place takes more to change.
    effective : pandas.DataFrame or None
        Users by effective number of ratings: low, high, n; None without an exposure model.
    few : float
        Share of the users with an effective number below ``least``.
    """

    coverage: float
    widths: Histogram
    extrapolating: float | None
    odds: tuple[float, float, float]
    effective: pd.DataFrame | None
    few: float = 0.0
    least: ClassVar[int] = 5


@dataclass(frozen=True)
class LimitFacts:
    """What the audit found beside a limit that the settings draw.

    check : the setting, without ``audit.``. about : the sentence that says so. low, high : interval of what was found,
    where there is one. forced : whether it was published beyond the limit.
    """

    check: str
    found: float
    limit: float
    passed: bool
    about: str
    low: float | None = None
    high: float | None = None
    forced: bool = False


@dataclass(frozen=True)
class AuditFacts:
    """Audit of the run that fitted the model.

    limits : all that were looked at. metric : that models were compared by, on ratings held out of the fit; None where
    nothing was compared. compared : its value, and its interval, by model.
    """

    limits: Sequence[LimitFacts]
    metric: str | None = None
    compared: Mapping[str, tuple[float, float | None, float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangeFacts:
    """How lists change from those of the model called ``before``. titles : by id, of the items in ``change``."""

    change: RankingChange
    before: str
    titles: Mapping[Any, str]


@dataclass(frozen=True)
class SampleUser:
    """List of one user. rows : rank, title, score, preference, confounder, reasons_text (None: not asked for)."""

    user: str
    rows: pd.DataFrame


@dataclass(frozen=True)
class ReportFacts:
    """All that the report says.

    Parameters
    ----------
    run_id, run_date : str
        Of the evaluation; the date as 2026-01-31.
    models : sequence of ModelFacts
        The first is the one that is judged.
    check, change, strata, certainty, audit : CheckFacts, ChangeFacts, StrataFacts, CertaintyFacts, AuditFacts or str
        A sentence says why there is none.
    outcome, adjustment, intercept : str, str, float
        Of the model that is judged.
    unrated_are_zeros : bool
        Whether predictions are scores below the scale of the ratings.
    k : int
        The longest cut of the lists.
    listed : pandas.DataFrame
        In how many users' first ``k`` places an item is: low, high, n.
    timings, fit_timings : dict
        Seconds by step, of this run, and of the run that fitted the model, if one did.
    configuration : dict
        With secrets masked. Paths in it, and in ``warnings``, are shortened by the report.
    """

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
    strata: StrataFacts | str
    samples: Sequence[SampleUser]
    intercept: float
    k: int
    listed: pd.DataFrame
    timings: Mapping[str, float]
    fit_timings: Mapping[str, float] | None
    versions: Mapping[str, str]
    configuration: Mapping[str, Any]
    certainty: CertaintyFacts | str
    audit: AuditFacts | str
    warnings: Sequence[str] = field(default_factory=tuple)
    unrated_are_zeros: bool = False
