"""What a run that was stopped has left: what readers find, and where the same command goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dcrec_spark.errors import DcrecError, InterruptedRun, interruption
from dcrec_spark.jobs.fit_checkpoints import kept_sweeps
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.publish.current import run_id_in
from dcrec_spark.spark.failures import SPARK_FAILURES
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.protocol import Files


@contextmanager
def stops_named(context: Context[Any]) -> Iterator[None]:
    """Turn a signal that stops the run inside into an error that says what state was left."""
    try:
        yield
    except BaseException as error:
        stop = interruption(error)
        if stop is None:
            raise
        raise InterruptedRun(f"{stop}; nothing was published{_state(context)}") from error


def _state(context: Context[Any]) -> str:
    try:
        files, root = open_files(context.output, context.spark)
        return f": {_readers(files, root)}. {_next_run(files, root, context.run)}"
    except (OSError, DcrecError, *SPARK_FAILURES):  # a store behind the JVM, whose bridge the signal has cut off
        return ". Run the same command again"


def _readers(files: Files, root: str) -> str:
    run_id = run_id_in(files, root)
    return f"there is no run under {root}" if run_id is None else f"readers of {root} have run {run_id}, as before"


def _next_run(files: Files, root: str, run: Run) -> str:
    sweeps = kept_sweeps(files, root, run)
    where = f"goes on from the checkpoint {sweeps[-1]} of its fit" if sweeps else "begins anew"
    return f"Run the same command again: it {where}"
