"""Figures beside their limits: refused, or published all the same and recorded."""

import pytest

from dcrec_spark.errors import AuditError, DataError
from dcrec_spark.jobs.verdicts import Verdict, Verdicts

GOOD = Verdict("max_churn", 0.1, 0.2, True, "10 places changed")
BAD = Verdict("min_coverage", 0.1, 0.2, False, "2 of 20 items are in some list")


def test_a_failure_names_its_setting_and_the_way_out() -> None:
    verdicts = Verdicts()
    with pytest.raises(AuditError, match=r"2 of 20 items are in some list \(setting audit.min_coverage=0.2\).*--force"):
        verdicts.enforce([GOOD, BAD], force=False)
    assert verdicts.all == [GOOD, BAD]
    assert verdicts.forced == []
    with pytest.raises(DataError):
        verdicts.enforce([BAD], force=False, error=DataError)


def test_what_is_forced_is_kept_and_told() -> None:
    verdicts = Verdicts()
    (warning,) = verdicts.enforce([GOOD, BAD], force=True)
    assert warning.startswith("published all the same (--force): 2 of 20 items")
    assert verdicts.forced == ["min_coverage"]
    assert verdicts.enforce([GOOD], force=True) == []
