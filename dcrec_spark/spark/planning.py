"""Plans of a session: its settings, borrowed while tables of the package are made, and the rows of a planned frame.

A session plans each shuffle for the largest job that it may see: 200 partitions, unless configured otherwise. Spark
merges those of a small table when it reads them, but not when it caches them, and a plan with fixed placement is not
adapted at all. A small model would be cached, read and saved as 200 nearly empty pieces, one task each: on a hundred
thousand ratings that is nine tenths of the time of a fit.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from dcrec_spark.spark.compat import is_classic

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# Lets adaptive execution merge the small partitions of what is cached, too.
ADAPTIVE_CACHE = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
# A task over so many bytes takes some tenths of a second, a hundred times what starting it costs.
PARTITION_BYTES = 16 * 2**20
FEWEST_PARTITIONS = 2
# What leaves rows out, or leaves them as they are.
_NO_MORE_ROWS = ("Project", "Filter")
_CACHE = "InMemoryRelation"


@dataclass
class _Loan:
    """A setting of a session: as it was set (None: it was not), what held then, and the values it is lent for."""

    before: str | None
    original: str
    values: list[str] = field(default_factory=list)


# Settings belong to the session, so that fits side by side in threads share them: the first one in switches a setting,
# the last one out brings back what was there, and the largest of their values holds meanwhile.
_LOANS: WeakKeyDictionary[SparkSession, dict[str, _Loan]] = WeakKeyDictionary()
_LOCK = Lock()


@contextmanager
def borrow(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session for plans made inside. Its own values come back afterwards.

    Fits that run side by side may borrow the same settings. Of two numbers borrowed at a time the larger one holds.
    """
    lent: list[str] = []
    try:
        with _LOCK:
            loans = _LOANS.setdefault(spark, {})
            for key, value in settings.items():
                if key not in loans:
                    loans[key] = _Loan(spark.conf.get(key, None), str(spark.conf.get(key)))
                loan = loans[key]
                loan.values.append(value)
                lent.append(key)
                spark.conf.set(key, _largest(loan.values))
        yield
    finally:
        with _LOCK:
            for key in lent:
                loan = _LOANS[spark][key]
                loan.values.remove(settings[key])
                holds = _largest(loan.values) if loan.values else loan.before
                if holds is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, holds)
                if not loan.values:
                    del _LOANS[spark][key]


def _largest(values: list[str]) -> str:
    return max(values, key=lambda value: int(value) if value.isdigit() else 0)


@contextmanager
def few_partitions(spark: SparkSession, n_bytes: float | None = None) -> Iterator[None]:
    """Plan shuffles and caches inside for tables of a known size, never with more partitions than the session has.

    n_bytes : About how large they are. None where that is not known yet: then only adaptive execution, where the
    session has it, merges what is cached.
    """
    settings = {ADAPTIVE_CACHE: "true"}
    if n_bytes is not None:
        with _LOCK:
            loan = _LOANS.get(spark, {}).get(SHUFFLE_PARTITIONS)
            most = int(loan.original if loan else str(spark.conf.get(SHUFFLE_PARTITIONS)))
        wanted = max(FEWEST_PARTITIONS, -int(-n_bytes // PARTITION_BYTES))
        settings[SHUFFLE_PARTITIONS] = str(min(most, wanted))
    with borrow(spark, settings):
        yield


def rows_at_most(frame: DataFrame) -> int | None:
    """Bound the number of rows, without a job: of a cache that has been computed, or of what picks from it.

    None where Spark does not know. Parts that were computed again, after a loss, may have been counted twice.
    """
    if not is_classic(frame.sparkSession):
        return None
    plan = frame._jdf.queryExecution().optimizedPlan()
    while plan.nodeName() in _NO_MORE_ROWS:
        plan = plan.child()
    # Of a cache that is yet to be computed Spark estimates, if configured so; and estimates are no bounds.
    if plan.nodeName() != _CACHE or not plan.cacheBuilder().isCachedColumnBuffersLoaded():
        return None
    known = plan.stats().rowCount()
    return int(known.get()) if known.isDefined() else None
