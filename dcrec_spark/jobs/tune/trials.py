"""Trials: one row for each candidate that was fitted, their record on disk, and the choice among them.

<output>/trials/<search>/<token>.parquet    trials that finished together. Schema dcrec_spark.publish.schemas.TRIALS

A trial is recorded when it finishes, so that an interrupted search resumes. Its key is a hash of data, split, metric
and all its settings: another space reuses the same trials, and never those of other data.
"""

import io
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from dcrec_spark.errors import FitError
from dcrec_spark.evaluation.measures import Measure, MetricSettings
from dcrec_spark.evaluation.result import Estimate, Metrics, Score
from dcrec_spark.jobs.tune.candidates import Candidate
from dcrec_spark.local.attempts import Measured
from dcrec_spark.publish import schemas
from dcrec_spark.storage.protocol import Files

FOLDER = "trials"
_SCHEMA = to_arrow_schema(schemas.TRIALS)


@dataclass(frozen=True)
class TrialRow:
    """The columns of dcrec_spark.publish.schemas.TRIALS."""

    search: str
    key: str
    run_id: str
    trial: int
    parameters: str
    metric: str
    status: str = "done"
    error: str | None = None
    value: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    resampled: Sequence[float] = ()
    metrics: Mapping[str, float] | None = None
    sweeps: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, candidate: Candidate, search: str, run_id: str, metric: str, result: Measured | FitError) -> "TrialRow":
        parameters = json.dumps(dict(candidate.parameters), sort_keys=True)
        which = search, candidate.key(search), run_id, candidate.number, parameters, metric
        if isinstance(result, FitError):
            return cls(*which, "failed", str(result), resampled=[], metrics={})
        estimates = result.metrics.estimates()
        (scores,) = result.metrics.scores.values()
        resampled = scores[Measure.parse(metric)].resampled.tolist()
        values = {name: estimate.value for name, estimate in estimates.items() if not np.isnan(estimate.value)}
        return cls(*which, "done", None, *estimates[metric], resampled, values, result.sweeps, result.seconds)

    @property
    def done(self) -> bool:
        return self.status == "done"


@dataclass(frozen=True)
class Ledger:
    """The recorded trials of one search."""

    files: Files
    root: str
    search: str

    @property
    def _directory(self) -> str:
        return f"{self.root}/{FOLDER}/{self.search}"

    def read(self) -> dict[str, TrialRow]:
        """Key -> row of every recorded trial."""
        rows: list[dict[str, Any]] = []
        for entry in self.files.list(self._directory):
            if entry.name.endswith(".parquet"):
                content = io.BytesIO(self.files.read(f"{self._directory}/{entry.name}"))
                rows += pq.read_table(content, schema=_SCHEMA).to_pylist()
        return {row["key"]: TrialRow(**{**row, "metrics": dict(row["metrics"])}) for row in rows}

    def append(self, rows: Sequence[TrialRow]) -> None:
        """Record trials atomically, in one file."""
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], _SCHEMA), buffer)
        self.files.make_directory(self._directory)
        self.files.write(f"{self._directory}/{secrets.token_hex(8)}.parquet", buffer.getvalue())

    def count_others(self) -> int:
        return sum(of.is_directory and of.name != self.search for of in self.files.list(f"{self.root}/{FOLDER}"))


class SearchResult(NamedTuple):
    """Trials with a value, the best first. difference : of the first two, on the same resamples, if there are two."""

    trials: Sequence[TrialRow]
    difference: Estimate | None

    @property
    def best(self) -> TrialRow:
        return self.trials[0]

    def verdict(self) -> str:
        """Say in a sentence whether the best trial is better than the second by more than chance."""
        if self.difference is None:
            return "there is no second trial to compare the best one with"
        value, low, high, _ = self.difference
        one, other = f"trial {self.best.trial}", f"trial {self.trials[1].trial}, the next one"
        by = f"{self.best.metric} {value:+.4f}"
        if low is None or high is None:
            return f"{one} is ahead of {other}: {by}; one user or item alone has no interval"
        by += f" ({low:+.4f} to {high:+.4f}), paired"
        if low <= 0 <= high:
            return f"{one} is not shown to be better than {other}: {by}; the interval contains 0"
        return f"{one} is better than {other}: {by}; the interval excludes 0"


def choose(rows: Sequence[TrialRow], settings: MetricSettings) -> SearchResult:
    """Choose the best trial. rows : of one search, at least one of them done."""
    done = [row for row in rows if row.done]
    measure = Measure.parse(done[0].metric)
    sign = 1.0 if measure.is_small_good else -1.0
    ordered = sorted(done, key=lambda row: (sign * (row.value or 0.0), row.trial))
    if len(ordered) == 1:
        return SearchResult(ordered, None)
    scores = {f"{row.trial}": {measure: Score(np.array(row.resampled), row.n or 0, row.n or 0)} for row in ordered[:2]}
    return SearchResult(ordered, Metrics(settings, scores, {}).difference(*scores).estimates()[measure])
