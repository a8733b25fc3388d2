"""The rounds of a search: all candidates at once, or rounds with ever more sweeps for ever fewer of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from dcrec_spark.config import TuneConfig
from dcrec_spark.errors import ConfigError, DataError, FitError
from dcrec_spark.jobs.tune.candidates import Candidate
from dcrec_spark.jobs.tune.choice import is_better_small, ranked
from dcrec_spark.jobs.tune.entry import Entry, Place
from dcrec_spark.jobs.tune.fits import Attempt, Fits
from dcrec_spark.jobs.tune.ledger import Ledger

Counter = Callable[[str, int], Callable[[str], None]]


@dataclass(frozen=True)
class Schedule:
    """Rounds of a search.

    sweeps : of stage 2, at most, in each round; the last one's are those of the configuration, None: of the candidate.
    reduction : one candidate in so many goes on to the next round.
    """

    sweeps: tuple[int | None, ...]
    reduction: int = 1


def schedule(config: TuneConfig) -> Schedule:
    """One round; or successive halving, each round with ``reduction_factor`` times the sweeps of the one before.

    Every candidate of a round ends before the next begins. Optuna's pruners decide about each trial as it reports,
    by those that came before it, so that what they prune would depend on which of many tasks ends first.

    Raises
    ------
    ConfigError : the first round would be as long as the last.
    """
    tuning, most = config.tuning, config.outcome.max_iter
    if tuning.search != "halving":
        return Schedule((None,))
    if tuning.min_iter >= most:
        raise ConfigError(
            f"setting tuning.min_iter: found {tuning.min_iter}, expected less than outcome.max_iter, which is {most}"
        )
    sweeps: list[int | None] = []
    least = tuning.min_iter
    while least < most:
        sweeps.append(least)
        least *= tuning.reduction_factor
    return Schedule((*sweeps, most), tuning.reduction_factor)


@dataclass(frozen=True)
class Search:
    """Fits what is not recorded yet, and records it.

    counter : as Reporter.counter has it.
    """

    fits: Fits
    ledger: Ledger
    run_id: str
    metric: str
    counter: Counter

    def run(self, candidates: Sequence[Candidate], plan: Schedule) -> list[Entry]:
        """All trials of all rounds.

        Raises
        ------
        FitError : none of them came to an end. DataError : the metric is undefined.
        """
        known = self.ledger.read()
        alive, entries = {candidate.number: candidate for candidate in candidates}, list[Entry]()
        rung, last = 0, len(plan.sweeps) - 1
        while True:
            of_round = self._round(list(alive.values()), rung, plan.sweeps[rung], known, last=rung == last)
            entries += of_round
            best = self._best(of_round, plan.reduction)
            if rung == last:
                return entries
            alive = {entry.trial: alive[entry.trial] for entry in best}
            rung = last if len(alive) == 1 else rung + 1  # a lone survivor has none to be compared with

    def _round(
        self, alive: list[Candidate], rung: int, sweeps: int | None, known: dict[str, Entry], last: bool
    ) -> list[Entry]:
        place = Place(self.ledger.search, self.run_id, rung, self.metric)
        candidates = alive if sweeps is None else [candidate.limited_to(sweeps) for candidate in alive]
        keys = {candidate.key(place.search): candidate for candidate in candidates}
        # A recorded trial has the number and the round of the search that it was first in.
        entries = [replace(known[k], trial=c.number, rung=rung) for k, c in keys.items() if k in known]
        missing = [candidate for key, candidate in keys.items() if key not in known]
        count = self.counter("trials" if sweeps is None else f"trials of {sweeps} sweeps", len(missing))
        for wave in _waves(self.fits.run(missing, last), self.fits.wave):
            recorded = [Entry.of(candidate, place, result) for candidate, result in wave]
            self._require_values(recorded)
            self.ledger.append(recorded)
            entries += recorded
            for entry in recorded:
                count(f"{self.metric} {entry.value:.4f}" if entry.value is not None else f"failed: {entry.error}")
        return sorted(entries, key=lambda entry: entry.trial)

    def _require_values(self, entries: Sequence[Entry]) -> None:
        if any(entry.value != entry.value for entry in entries):
            raise DataError(
                f"setting tuning.metric: {self.metric} is undefined for the ratings held out: no user has one that is "
                "relevant, or worth any gain; choose another metric, or a larger tuning.validation_share"
            )

    def _best(self, entries: Sequence[Entry], reduction: int) -> list[Entry]:
        done = ranked([entry for entry in entries if entry.done], is_better_small(self.metric))
        if not done:
            raise FitError(f"all {len(entries)} trials failed, the first with: {entries[0].error}")
        return done[: max(1, len(done) // reduction)]


def _waves(attempts: Iterator[Attempt], size: int) -> Iterator[list[Attempt]]:
    while wave := list(islice(attempts, size)):
        yield wave
