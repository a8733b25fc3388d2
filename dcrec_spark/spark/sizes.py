"""How many rows a frame has, as far as Spark knows without running anything."""

from pyspark.sql import DataFrame

# What leaves rows out, or leaves them as they are.
_NO_MORE_ROWS = ("Project", "Filter")
_CACHE = "InMemoryRelation"


def rows_at_most(frame: DataFrame) -> int | None:
    """Bound the number of rows, without a job: of a cache that has been computed, or of what picks from it.

    None where Spark does not know. Parts that were computed again, after a loss, may have been counted twice.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    while plan.nodeName() in _NO_MORE_ROWS:
        plan = plan.child()
    # Of a cache that is yet to be computed Spark estimates, where it is told to; and estimates are no bounds.
    if plan.nodeName() != _CACHE or not plan.cacheBuilder().isCachedColumnBuffersLoaded():
        return None
    known = plan.stats().rowCount()
    return int(known.get()) if known.isDefined() else None
