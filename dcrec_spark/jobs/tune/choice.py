"""The best of the trials, and whether more than luck makes it better than the next one."""

from collections.abc import Sequence
from dataclasses import dataclass

from dcrec_spark.evaluation.measures import Measure
from dcrec_spark.evaluation.result import Estimate, Metrics
from dcrec_spark.evaluation.settings import MetricSettings
from dcrec_spark.jobs.tune.entry import Entry


@dataclass(frozen=True)
class Choice:
    """entries : of each trial that has a value its last round, the best one first.

    difference : of the best and the second, on the same resamples; None without a second.
    """

    entries: list[Entry]
    difference: Estimate | None

    @property
    def best(self) -> Entry:
        """The chosen trial."""
        return self.entries[0]

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        difference = self.difference
        return (
            difference is not None
            and difference.ci_low is not None
            and difference.ci_high is not None
            and (difference.ci_low > 0 or difference.ci_high < 0)
        )

    def verdict(self) -> str:
        """One sentence on how sure the choice is."""
        if self.difference is None:
            return "there is no second trial to compare the best one with"
        value, low, high, _ = self.difference
        one, other = f"trial {self.best.trial}", f"trial {self.entries[1].trial}, the next one"
        interval = "" if low is None or high is None else f" ({low:+.4f} to {high:+.4f})"
        by = f"{self.best.metric} {value:+.4f}{interval}, paired"
        if not interval:
            return f"{one} is ahead of {other}: {by}; how much of it is luck was not asked (evaluation.bootstrap=0)"
        if self.is_clear:
            return f"{one} is better than {other}: {by}; the interval leaves out 0"
        return f"{one} cannot be told from {other}: {by}; the interval contains 0"


def is_better_small(metric: str) -> bool:
    """Whether it is an error."""
    return metric.endswith(("mse", "mae"))


def ranked(entries: Sequence[Entry], small: bool) -> list[Entry]:
    """By round, the last first; within it the best first, equal ones by their numbers.

    small : whether small values are good.
    """
    sign = 1.0 if small else -1.0
    return sorted(entries, key=lambda e: (-e.rung, sign * (e.value if e.value is not None else 0.0), e.trial))


def choose(entries: Sequence[Entry], settings: MetricSettings) -> Choice:
    """Choose the best trial of the last round. entries : of one search, one or more of them done."""
    done = [entry for entry in entries if entry.done]
    ordered = ranked(done, is_better_small(done[0].metric))
    latest = list({entry.trial: entry for entry in reversed(ordered)}.values())  # the last round of each wins
    final = ranked(latest, is_better_small(done[0].metric))
    if len(final) == 1:
        return Choice(final, None)
    metric = final[0].metric
    both = Metrics(settings, {str(e.trial): {Measure.parse(metric): e.score()} for e in final[:2]}, {})
    difference = both.difference(*(str(e.trial) for e in final[:2])).estimates()[metric]
    return Choice(final, difference)
