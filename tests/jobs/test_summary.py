"""What people read when a run has ended."""

import io
from datetime import UTC, datetime

from rich.console import Console

from dcrec_spark.config import RetrainConfig
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.jobs.settled import StageFit
from dcrec_spark.jobs.summary import run_summary


def test_counts_fits_times_and_warnings_are_shown() -> None:
    run = Run("r1", "retrain", RetrainConfig(), datetime.now(UTC), {}, {"fit": 1.25})
    run.counts |= {"rows_in": 1000, "accepted": 990, "rejected": 10, "users": 30, "items": 20}
    run.fits |= {"exposure": StageFit("ELBO", [-9.0, -8.0], True), "outcome": StageFit("J", [5.0], False)}
    run.since = "r0"
    run.counts |= {"new_pairs": 1200, "changed_pairs": 3, "gone_pairs": 0}
    run.warnings.append("outcome stopped after 1 iteration, too few to see")
    printed = io.StringIO()
    Console(file=printed, width=100).print(run_summary(run, "file:///tables/run_id=r1"))
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    assert lines[0].startswith("run r1 published")
    for fact in (
        "ratings  990 of 1,000 rows, 10 rejected",
        "pairs  1,200 new, 3 changed, 0 gone since run r0",
        "users x items  30 x 20",
        "exposure  2 iterations, ELBO -9 -> -8",
        "outcome  1 iterations, J 5 -> 5",
        "time  fit 1.2 s",
        "note  outcome stopped after 1 iteration, too few to see",
        "tables  /tables/run_id=r1",
    ):
        assert fact in lines
