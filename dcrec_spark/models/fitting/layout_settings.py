"""Settings of a layout: in which process, in how many blocks, in which precision."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from pyspark.ml.param import Params
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from dcrec_spark.engine.sizing import pairs_of_a_row
from dcrec_spark.errors import ConfigError
from dcrec_spark.settings.tables import OF_RATED_PAIRS

# Up to so many ratings, as many as one block of the cluster holds, auto fits in the driver's process. Without a cluster
# it does so up to the larger number, if the machine has room for them. exchange=local refuses more.
LOCAL_ROWS = 2_000_000
LARGEST_LOCAL_ROWS = 200_000_000
# Of an id that is a string, as a UUID is.
STRING_BYTES = 40
# On top of the collected data: 100M ratings of 750,000 rows, 32 bytes each, took 12 GB at rank 50 in both stages, with
# the factors; 10M of 80,000 took 1.6 GB.
BYTES_OF_A_RATING = 70
# Up to so many ratings, both sides are sorted at the same time, which takes so many more bytes of each.
AT_ONCE, BYTES_AT_ONCE = 1 << 25, 20
# The share of the JVM's heap for data collected at once: the heap has it twice, and twice while it is sent.
PORTION_OF_HEAP = 1 / 8


class Driver(NamedTuple):
    """The driver's resources in bytes.

    memory : of its machine. heap : of its JVM. results : the most that Spark collects at once. has_cluster : whether
    other processes can share the work.
    """

    memory: float
    heap: float
    results: float
    has_cluster: bool

    def room_for(self, width: int) -> int:
        """Return how many pairs of so many bytes may be collected at once, and processed here."""
        through_spark = min(self.heap / 4, self.results) / width
        return int(min(through_spark, self.memory / 2 / (BYTES_OF_A_RATING + width)))

    def portions(self, number: int, width: int) -> int:
        """Return in how many portions ratings pass through the JVM: half of the limit, as none is even."""
        at_once = min(self.heap * PORTION_OF_HEAP, self.results / 2)
        return max(1, ceil(number * width / at_once))


@dataclass(frozen=True)
class LayoutSettings:
    """Settings of a layout. blocks : of each side. None: it depends on the size of the data.

    heavy_pairs : more pairs make an item heavy, on the cluster (:mod:`dcrec_spark.engine.heavy_items`). None: none is.
    signed : whether ratings may be below 0. a_hats : that a pair has in a block.
    local_rows, largest_local_rows : of ratings that one process fits, with and without a cluster.
    """

    blocks: int | None
    exchange: str
    precision: str
    width: int
    heavy_pairs: int | None = None
    signed: bool = False
    a_hats: int = 1
    local_rows: int = LOCAL_ROWS
    largest_local_rows: int = LARGEST_LOCAL_ROWS

    def bytes_of(self, rows: int) -> float:
        """Return about how large the tables of so many rows of both sides are: two arrays of each stage."""
        return 4.0 * 8 * self.width * rows

    @property
    def may_be_local(self) -> bool:
        """Whether the fit may run in the driver's process, if the ratings are few enough."""
        return self.exchange == "local" or (self.exchange == "auto" and self.blocks is None)

    def is_local(self, number: int, width: int, rows: Callable[[], int], driver: Driver) -> bool:
        """Whether the fit runs in the driver's process. ConfigError: it has to, and the ratings have no room.

        number, width : of ratings and given ids that it would collect, and the bytes of each.
        rows : counts those of both sides. It may collect the ratings, and is called only if these have room.
        """
        if not self.may_be_local:
            return False
        is_requested = self.exchange == "local"
        most = self.local_rows if driver.has_cluster and not is_requested else self.largest_local_rows
        if number <= self.local_rows:
            return True
        # Tables pass through the JVM twice: 6 GB of them did not pass through a heap of 6 GB.
        if number <= most and self.bytes_in_process(number, width, 0) <= driver.memory / 2:
            count = rows()
            in_process = self.bytes_in_process(number, width, count)
            if self.bytes_of(count) <= driver.heap / 2 and in_process <= driver.memory / 2:
                return True
        if is_requested:
            memory, heap = driver.memory / 2**30, driver.heap / 2**30
            raise ConfigError(
                f"exchange=local: {number:,} ratings would be collected to the driver; expected "
                f"{self.largest_local_rows:,} at most, and no more than its memory ({memory:,.1f} GB, of which half), "
                f"its JVM's heap ({heap:,.1f} GB) and spark.driver.maxResultSize have room for, with the factors of "
                "their users and items: use auto, broadcast or blocks"
            )
        return False

    def bytes_in_process(self, number: int, width: int, rows: int) -> float:
        """Return the bytes of a fit in this process: of its ratings, and of the factors of so many rows."""
        return (BYTES_OF_A_RATING + BYTES_AT_ONCE * (number <= AT_ONCE) + width) * number + self.bytes_of(rows)

    def broadcasts(self, name: str, n_rows: int, limits: tuple[int, int]) -> bool:
        """Whether the driver collects and broadcasts the results of a side of so many rows.

        limits : of bytes, with exchange=auto and with exchange=broadcast.
        """
        size, (few, most) = n_rows * self.width * 8, limits
        if self.exchange == "auto":
            return size <= few
        if self.exchange == "broadcast" and size > most:
            raise ConfigError(
                f"exchange=broadcast: the factors of {n_rows:,} {name}s take {size / 2**20:,.0f} MB, which would pass "
                f"through the driver at every half-step (at most {most / 2**20:,.0f}): use auto or "
                "blocks"
            )
        return self.exchange == "broadcast"


def layout_settings(estimator: Params, width: int, splits: bool = False, a_hats: int = 1) -> LayoutSettings:
    """Return the settings of an estimator. ``width`` : the most numbers of a row."""
    get = estimator.getOrDefault
    heavy_pairs = pairs_of_a_row(width, a_hats) if splits else None
    signed = estimator.hasParam("outcome") and get("outcome") in OF_RATED_PAIRS
    where = get("numBlocks"), get("exchange"), get("precision")
    return LayoutSettings(*where, width, heavy_pairs, signed, a_hats)


def width_of(rows: DataFrame) -> int:
    """Return about how many bytes a collected row takes. The length of its strings is not known."""
    return sum(STRING_BYTES if isinstance(field.dataType, StringType) else 8 for field in rows.schema)
