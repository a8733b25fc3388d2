"""The command line, but it gets a signal as it begins a step of a run.

python -m tests.faults.at_a_step audit SIGTERM retrain --set input.path=...
"""

import os
import signal
import sys
from typing import Any

from dcrec_spark.jobs import job, retrain
from dcrec_spark.jobs.command import main
from dcrec_spark.publish.parquet import ParquetSink

# What a run calls as it begins a step, in the order of the steps.
STEPS: dict[str, tuple[Any, str]] = {
    "after-validation": (retrain, "check_exposures"),
    "after-the-fit": (retrain, "note_catalogue"),
    "audit": (job, "audit_lists"),
    "commit": (ParquetSink, "commit"),
    "verify": (ParquetSink, "verify"),
    "after-the-commit": (job, "_prune"),
}


def signalled(step: str, number: int) -> None:
    place, name = STEPS[step]
    begin = getattr(place, name)

    def begin_with_a_signal(*given: Any, **named: Any) -> Any:
        os.kill(os.getpid(), number)
        return begin(*given, **named)

    setattr(place, name, begin_with_a_signal)


if __name__ == "__main__":
    signalled(sys.argv.pop(1), signal.Signals[sys.argv.pop(1)])
    main()
