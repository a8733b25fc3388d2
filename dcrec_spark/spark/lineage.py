"""Keeping plans and lineage short without losing the means to recompute: the one place for classic-only calls.

A half-step's plan refers to earlier results, so that an uncut plan doubles with every half-step. ``keep`` persists a
frame and hands back one whose plan is a single scan. Behind it the lineage stays, so that a lost executor costs a
recomputation and not the job. ``checkpoint`` writes the frame reliably and ends the lineage.

Spark Connect can't cut a plan and keep its lineage. There the results of a fit are local checkpoints, made at once. On
a cluster two executors hold each piece. If one of them is lost, Spark copies the piece to a third, where there is one.
"""

import atexit
import gc
import logging
import re
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakSet, finalize

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import Broadcast, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.compat import is_classic, same_frame
from dcrec_spark.spark.planning import borrow

_log = logging.getLogger(__name__)

# A range of so many rows has a partition for each core.
_MANY = 1 << 20
# Spark computes a row of constants where it plans, in the server's own JVM.
_COLLECT_GARBAGE = "SELECT java_method('java.lang.System', 'gc') FROM VALUES (1)"
# Adaptive execution merges the small shuffles of a fit into one partition and forgets where blocks lie when it plans
# a cache; a fit lays its blocks itself.
_PLANNING = {"spark.sql.adaptive.enabled": "false"}
# A server of Spark Connect remembers the last plans, and with each the rows of the checkpoints that it reads.
_PLANS_OF_SERVER = "spark.connect.session.planCache.enabled"


def fixed_placement(spark: SparkSession) -> AbstractContextManager[None]:
    """Plan so that blocks stay where they are. The session's settings are restored afterwards."""
    can_forget = not is_classic(spark) and spark.conf.isModifiable(_PLANS_OF_SERVER)
    return borrow(spark, {**_PLANNING, **({_PLANS_OF_SERVER: "false"} if can_forget else {})})


def cores(spark: SparkSession) -> int:
    """Count the tasks that the cluster runs side by side."""
    if not is_classic(spark):
        return max(1, spark.range(_MANY).select(F.spark_partition_id()).distinct().count())
    return max(1, spark.sparkContext.defaultParallelism)


def task_memory(spark: SparkSession) -> tuple[float, int]:
    """Return the bytes that each task may take of its executor's heap, for data on its way and cached; and its tasks.

    Of the executor with the least for each. (0, 1) if unknown.
    """
    if not is_classic(spark):
        return _declared_memory(spark)
    store: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    executors = [store.apply(number) for number in range(store.size())]
    # The driver of a cluster has no cores for tasks.
    counts = [(each.maxMemory(), each.totalCores()) for each in executors if each.totalCores()]
    return min(((memory / tasks, tasks) for memory, tasks in counts), default=(0.0, 1))


def _declared_memory(spark: SparkSession) -> tuple[float, int]:
    """Return :func:`task_memory` by a server's settings: Spark Connect doesn't tell what executors have."""
    conf, master = spark.conf, str(spark.conf.get("spark.master", None))
    name = "spark.driver.memory" if _has_one_process(spark) else "spark.executor.memory"
    found = re.fullmatch(r"(\d+)([bkmgt]?)b?", str(conf.get(name, None) or "1g").strip().lower())
    if found is None:
        return 0.0, 1
    heap = int(found[1]) * 1024 ** ("bkmgt".index(found[2]) if found[2] else 2)
    # Without the setting an executor has one core on YARN and Kubernetes, and elsewhere all of its machine.
    tasks = int(conf.get("spark.executor.cores", None) or (1 if master.startswith(("yarn", "k8s")) else cores(spark)))
    return max(0.0, (heap - 300 * 2**20) * data_share(spark) / tasks), tasks


def data_share(spark: SparkSession) -> float:
    """Return the share of a heap, without what Spark keeps for itself, that data may take."""
    # A running classic session takes other settings, but its executors keep those they were started with.
    conf: Any = spark.sparkContext.getConf() if is_classic(spark) else spark.conf
    return float(conf.get("spark.memory.fraction", None) or 0.6)


def is_local(spark: SparkSession) -> bool:
    """Whether this process, the driver and the executors are one, so that nothing is lost but all at once."""
    return is_classic(spark) and _has_one_process(spark)


def _has_one_process(spark: SparkSession) -> bool:
    """Whether driver and executors share one process, be it this one or a server's."""
    master = str(spark.sparkContext.master if is_classic(spark) else spark.conf.get("spark.master", None))
    return master.startswith("local") and not master.startswith("local-cluster")


def require_checkpoint_directory(spark: SparkSession) -> None:
    """Refuse to fit on a cluster that has no place for reliable checkpoints.

    Raises ConfigError: names the setting. MLlib goes on in silence, and its users meet stack overflows or a lost job.
    """
    # On Spark Connect executors hold each other's copies.
    if not is_classic(spark) or is_local(spark) or spark.sparkContext.getCheckpointDir():
        return
    raise ConfigError(
        f"no checkpoint directory is set, and this session runs on a cluster ({spark.sparkContext.master}): a lost "
        "executor would cost the whole fit. Set spark.checkpoint_dir in the job's configuration, or call "
        "spark.sparkContext.setCheckpointDir(path), with a path that every executor can read and write"
    )


def checkpoint_directory(spark: SparkSession) -> str | None:
    """Return where reliable checkpoints go. None without such a place."""
    return spark.sparkContext.getCheckpointDir() if is_classic(spark) else None


def set_checkpoint_directory(spark: SparkSession, path: str) -> None:
    """Choose where reliable checkpoints go, until this process ends. Raises ConfigError: the place can't be used."""
    if not is_classic(spark):
        _log.warning("spark.checkpoint_dir is not used on Spark Connect: executors hold each other's copies")
        return
    try:
        spark.sparkContext.setCheckpointDir(path)
    except Py4JJavaError as error:
        raise ConfigError(
            f"setting spark.checkpoint_dir: {path!r} cannot be used ({error.java_exception}); expected a directory "
            "that the driver and all executors can read and write"
        ) from error
    place = str(spark.sparkContext.getCheckpointDir())

    def delete_at_exit() -> None:
        with suppress(Py4JError, OSError):  # the JVM was stopped with this process
            _delete(spark, place)

    atexit.register(delete_at_exit)


def keep(frame: DataFrame, on_disk: bool = False, is_result: bool = False) -> "Kept":
    """Persist a frame, whose rows are read by plans of one scan. The lineage stays complete.

    on_disk : only there, else in memory as far as that has room.
    is_result : whether it is made of another that was kept, and the next will be made of it. On Spark Connect it
        becomes a local checkpoint, without a lineage. Other frames have their whole plan there.
    """
    spark = frame.sparkSession
    if is_classic(spark) or not is_result:
        frame.persist(StorageLevel.DISK_ONLY if on_disk else StorageLevel.MEMORY_AND_DISK)
        return Kept(frame, frame)
    copies = 1 if _has_one_process(spark) else 2
    rows = frame.localCheckpoint(storageLevel=StorageLevel(True, not on_disk, False, False, copies))
    return Kept(rows, rows)


def _cut(frame: DataFrame) -> DataFrame:
    session = frame.sparkSession
    if not is_classic(session):  # a result is one scan already
        return frame
    rows = frame._jdf.queryExecution().toRdd()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)


@dataclass(frozen=True)
class Kept:
    """Persisted rows, and the frame that frees them."""

    rows: DataFrame
    cached: DataFrame

    @property
    def frame(self) -> DataFrame:
        """All rows, by a plan of one scan."""
        return _cut(self.rows)

    def where(self, condition: Column) -> DataFrame:
        """Return some of the rows by a plan of one scan, which skips cached pieces without any of them."""
        return _cut(self.rows.where(condition))

    def release(self) -> None:
        """Free the cached rows. A server of Spark Connect frees a checkpoint when nothing refers to it any more."""
        self.cached.unpersist()

    def checkpoint(self) -> "tuple[Kept, Checkpoint]":
        """Write the rows where they survive the loss of an executor, and end their lineage there."""
        spark = self.rows.sparkSession
        if not is_classic(spark):  # it is one
            return self, Checkpoint(self.rows)
        reliable = checkpoint_directory(spark) is not None
        rows = self.rows.checkpoint(eager=True) if reliable else self.rows.localCheckpoint(eager=True)
        return Kept(rows, rows), Checkpoint(rows)


# Cached frames that are in use; and copies of those that nobody refers to any more.
_IN_USE: WeakSet[DataFrame] = WeakSet()
_ABANDONED: SimpleQueue[DataFrame] = SimpleQueue()
_CACHE_LOCK = Lock()


def cache_while_used(frame: DataFrame) -> DataFrame:
    """Cache a frame for as long as somebody refers to it. ``unpersist`` still frees it at once.

    What is left behind is freed when the next frame is cached: a finalizer may run in the middle of another call to
    the JVM, and ``fit(...).transform(...)`` drops its model before the answer is read. Frames that were made from it
    stay right, but compute its rows a second time.
    """
    with _CACHE_LOCK:
        unpersist_abandoned()
        frame.persist()
        _IN_USE.add(frame)
    finalize(frame, _ABANDONED.put, same_frame(frame)).atexit = False
    return frame


def unpersist_abandoned() -> None:
    """Unpersist the frames that nobody refers to, but for those that share the cache of one in use."""
    with suppress(Empty):
        while True:
            frame = _ABANDONED.get_nowait()
            session: Any = frame.sparkSession
            # A session that was stopped caches nothing.
            stopped = session.sparkContext._jsc is None if is_classic(session) else session.is_stopped
            if not stopped and not any(frame.sameSemantics(used) for used in _IN_USE):
                frame.unpersist()


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Rows whose lineage begins here: in reliable storage, or on the disk of a local session without a directory."""

    frame: DataFrame

    def destroy(self) -> None:
        """Delete the rows, when no recomputation will read them again. Spark would keep them for good."""
        spark = self.frame.sparkSession
        if not is_classic(spark):  # the server frees what its clients no longer refer to
            return
        rows = self.frame._jdf.queryExecution().logical().rdd()
        file = rows.getCheckpointFile()
        if file.isDefined():
            _delete(spark, file.get())
        else:
            rows.unpersist(False)


def delete_unreachable_shuffles(spark: SparkSession) -> None:
    """Have Spark delete the shuffles of results that nothing refers to any more, soon after.

    It hears of them from the driver's garbage collector, which a driver that holds little hardly ever wakes (Spark
    itself does so every half hour). Until then the files of all past sweeps lie on the executors' disks.
    """
    gc.collect()  # Python's own garbage refers to the JVM's
    if not is_classic(spark):
        try:
            spark.sql(_COLLECT_GARBAGE).collect()
        except PySparkException as error:
            _log.info("the server frees past results later, when it collects garbage by itself: %s", error)
        return
    jvm: Any = spark._jvm
    jvm.System.gc()


def _delete(spark: SparkSession, path: str) -> None:
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    place.getFileSystem(spark._jsc.hadoopConfiguration()).delete(place, True)


@dataclass(frozen=True, eq=False)
class Carried:
    """What takes the place of a broadcast on Spark Connect: it travels with each function that reads it."""

    value: Any

    def destroy(self) -> None:
        """Do nothing: it goes with the function."""


Broadcasted: TypeAlias = Broadcast[Any] | Carried


def broadcast_bytes(spark: SparkSession) -> tuple[int, int]:
    """Return how large a side's factors may be that the driver broadcasts: by default, and on request."""
    # On Spark Connect they would travel with each plan, beside the rows of the other side: 128 MB at most.
    return (64 * 2**20, 512 * 2**20) if is_classic(spark) else (0, 48 * 2**20)


def broadcast(spark: SparkSession, value: Any) -> Broadcasted:
    """Send a value to each executor, once. Destroy it when nothing will read it again, recomputation included.

    Never unpersist it while something might: that deletes the file that Python workers read, and an executor which
    still remembers where that file was does not fetch it again.
    """
    if not is_classic(spark):
        return Carried(value)
    return spark.sparkContext.broadcast(value)
