"""Contents of a report: numbers, short texts and small frames, whatever the size of the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import pandas as pd

from dcrec_spark.evaluation.distributions import Histogram
from dcrec_spark.evaluation.measures import MetricSettings
from dcrec_spark.evaluation.result import Estimate
from dcrec_spark.evaluation.strata import Stratum
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck


class PartFacts(NamedTuple):
    """One set of ratings: training or test."""

    users: int
    items: int
    ratings: Histogram


class Stage(NamedTuple):
    """Objective of one stage of the fit after each iteration."""

    name: str
    objective: str
    values: Sequence[float]
    tol: float
    max_iter: int

    @property
    def changes(self) -> list[float]:
        """Relative change by each iteration but the first. At least 1e-16, for a logarithmic axis."""
        pairs = zip(self.values, self.values[1:], strict=False)
        return [max(abs(new - old) / abs(old), 1e-16) for old, new in pairs]

    @property
    def converged(self) -> bool:
        """Whether the last iteration changed the objective by less than the tolerance."""
        return len(self.values) > 1 and self.changes[-1] < self.tol


class CertaintyFacts(NamedTuple):
    """Uncertainty of the lists."""

    coverage: float  # nominal, of the intervals
    widths: Histogram  # of the intervals of all listed items
    extrapolating: float | None  # share of the listed items. None without an exposure model
    odds: Sequence[float]  # quartiles over users of the odds ratio that would change the first item
    few: float | None  # share of users with an effective number of ratings below 5. None without exposures


@dataclass(frozen=True)
class ReportFacts:
    """All that a report shows."""

    run_id: str  # of the evaluation
    run_date: date
    version: str | None  # of the saved model
    models: Mapping[str, str]  # name -> description; the first is evaluated, the others are compared with it
    outcome: str  # of the evaluated model, as adjustment and intercept
    adjustment: str
    intercept: float
    unrated_are_zeros: bool  # whether predictions are scores below the rating scale
    problems: Sequence[str]  # sentences that a reader has to see first
    training: PartFacts
    test: PartFacts  # those that were used
    overlap: int  # test ratings whose pair is in training
    unknown: int  # test ratings of users or items that a model lacks
    items_missing: int  # test items that lost all of their ratings
    per_user: pd.DataFrame  # low, high, n: how many users have how many training ratings
    per_item: pd.DataFrame  # the same of items
    stages: Sequence[Stage]
    check: PredictiveCheck | str  # or a sentence on why there is none
    p_values: Sequence[int]  # users in each of equal bins of the p-value
    settings: MetricSettings  # variants of the metrics, and the bootstrap
    estimates: Mapping[str, Mapping[str, Estimate]]  # model -> measure -> estimate
    differences: Mapping[str, Mapping[str, Estimate]]  # evaluated model minus the named one
    # With differences of the model from the one it is compared with. Or a sentence on why there are none.
    strata: Sequence[tuple[Stratum, Mapping[str, Estimate]]] | str
    certainty: CertaintyFacts | str  # or a sentence on why there is none
    gamma: Histogram | None  # confounder weights of the users. None without a confounder
    negative_gammas: int  # how many of them are below 0
    samples: Mapping[str, Sequence[Any]]  # user -> rows: rank, title, score, preference, confounder, reasons_text
    no_reasons: str  # why the samples have no reasons; empty where they have some
    k: int  # the longest cut
    listed: pd.DataFrame  # low, high, n: in how many users' first k places an item is
    timings: Mapping[str, float]  # seconds by step of this run
    fit_timings: Mapping[str, float]  # of the run that fitted the model
    versions: Mapping[str, str]  # package -> version
