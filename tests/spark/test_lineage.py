"""The session's settings while fits run, alone and side by side, and its cache after them."""

from contextlib import ExitStack
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.spark import lineage
from dcrec_spark.spark.lineage import cache_while_used, fixed_placement

ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.mark.parametrize("before", [None, "true", "false"])
def test_fits_that_overlap_leave_the_session_as_it_was(spark: SparkSession, before: str | None) -> None:
    """The first one in is the first one out, as it happens with threads."""
    of_tests = str(spark.conf.get(ADAPTIVE))
    spark.conf.unset(ADAPTIVE)
    default = spark.conf.get(ADAPTIVE)
    if before is not None:
        spark.conf.set(ADAPTIVE, before)
    try:
        one, other = ExitStack(), ExitStack()
        one.enter_context(fixed_placement(spark))
        other.enter_context(fixed_placement(spark))
        one.close()
        assert spark.conf.get(ADAPTIVE) == "false"
        other.close()
        assert spark.conf.get(ADAPTIVE) == (before or default)
    finally:
        spark.conf.set(ADAPTIVE, of_tests)


def persisted(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())


def test_a_frame_is_cached_until_nobody_refers_to_it(spark: SparkSession) -> None:
    """Nor to one of the same plan, which shares its cache. It goes when the next one comes, and what was made from it
    stays right. Of a stopped context nothing is asked.
    """
    stopped = Mock()
    lineage._ABANDONED.put((Mock(_jsc=None), stopped))
    frame = cache_while_used(spark.range(3))
    before = persisted(spark)
    frame.count()
    (own,) = persisted(spark) - before
    doubled, equal = frame.selectExpr("2 * id"), cache_while_used(spark.range(3))
    del frame
    cache_while_used(spark.range(4)).unpersist()
    assert own in persisted(spark)
    del equal
    assert own in persisted(spark)
    cache_while_used(spark.range(5)).unpersist()
    assert own not in persisted(spark)
    assert [row[0] for row in doubled.collect()] == [0, 2, 4]
    stopped.unpersist.assert_not_called()
