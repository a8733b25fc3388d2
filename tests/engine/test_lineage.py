"""The session's settings while fits run, alone and side by side."""

from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.engine.lineage import fixed_placement

ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.mark.parametrize("before", [None, "true", "false"])
def test_fits_that_overlap_leave_the_session_as_it_was(spark: SparkSession, before: str | None) -> None:
    """The first one in is the first one out, as it happens with threads."""
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
        spark.conf.unset(ADAPTIVE)


def test_a_fit_that_fails_leaves_the_session_as_it_was(spark: SparkSession) -> None:
    before = spark.conf.get(ADAPTIVE)
    with pytest.raises(ValueError, match="astray"), fixed_placement(spark):
        raise ValueError("astray")
    assert spark.conf.get(ADAPTIVE) == before
