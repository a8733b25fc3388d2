"""Cancellation of running Spark jobs, before somebody removes what they were writing.

A signal takes this process out of a call to the JVM, where the call goes on: its tasks would write on into directories
that are being deleted, and make them anew.
"""

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import FrameType

from py4j.protocol import Py4JError
from pyspark import SparkContext

from dcrec_spark.errors import interruption

_PAUSE_SECONDS = 0.05
# A query is several jobs, one after the other: between two of them nothing runs, and the next is to be cancelled too.
_QUIET_SECONDS = 0.5


def end_work(seconds: float = 10.0) -> None:
    """Cancel all jobs of this process, and wait until no task of them runs, but no longer than so many seconds.

    The session can still be used for clearing up. Its log is off, since it would only report the cancelled jobs.
    """
    # In a thread, which has a connection of its own: that of this one may be in the middle of a call.
    ending = Thread(target=_end_work, args=(time.monotonic() + seconds,), daemon=True)
    ending.start()
    ending.join(seconds)


def silence_bridge(record: logging.LogRecord) -> bool:
    """Filter the root logger: the bridge to the JVM raises what it logs there of a connection that a signal broke."""
    return Path(record.pathname).parent.name != "py4j"


@contextmanager
def stop_on_interrupt() -> Iterator[None]:
    """Have Ctrl-C end the jobs of a fit, and raise KeyboardInterrupt.

    Spark's own handler calls the JVM over the very connection that it interrupts, and ends as an error of that. One
    that somebody else has set stays.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or (
        before is not signal.default_int_handler and getattr(before, "__module__", "") != SparkContext.__module__
    ):
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        end_work()
        raise KeyboardInterrupt("the fit was stopped")

    bridge = logging.getLogger("py4j")
    level = bridge.level
    signal.signal(signal.SIGINT, stop)
    bridge.setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(silence_bridge)
    try:
        yield
    except BaseException as error:
        stopped = interruption(error)
        if stopped is None:
            raise
        if (context := SparkContext._active_spark_context) is not None:
            context.setLogLevel("WARN")
        raise stopped from None
    finally:
        signal.signal(signal.SIGINT, before)
        bridge.setLevel(level)
        logging.getLogger().removeFilter(silence_bridge)


def _end_work(deadline: float) -> None:
    context = SparkContext._active_spark_context
    if context is None:
        return
    try:
        context.setLogLevel("OFF")
        quiet_since = time.monotonic()
        while time.monotonic() < min(deadline, quiet_since + _QUIET_SECONDS):
            context.cancelAllJobs()
            if _is_at_work(context):
                quiet_since = time.monotonic()
            time.sleep(_PAUSE_SECONDS)
    except (Py4JError, OSError):  # the JVM was stopped too, as one of the same process group
        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None:  # else somebody else has started it
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))


def _is_at_work(context: SparkContext) -> bool:
    """Whether there is a job, or a task that still runs, by the schedulers: Spark's status tracker follows events."""
    spark = context._jsc.sc()
    running = spark.taskScheduler().runningTasksByExecutors().valuesIterator()
    while running.hasNext():
        if running.next() > 0:
            return True
    return not spark.dagScheduler().activeJobs().isEmpty()
