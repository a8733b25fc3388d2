"""What an estimator asks of the layout of its ratings: where, in how many blocks, in which precision."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from pyspark.ml.param import Params

from dcrec_spark.engine.sizing import most_heavy, pairs_of_a_row
from dcrec_spark.errors import ConfigError

# Below this many bytes of factors a side's results are held by the driver and broadcast; above they stay placed.
HELD_BYTES = 64 * 2**20
LARGEST_HELD_BYTES = 512 * 2**20
# Up to so many ratings auto fits in the driver's process, as many as one block of the cluster holds; up to so many
# where the driver's machine is all the cluster there is, and has room for them. More are refused there, for all of them
# are collected.
LOCAL_ROWS = 2_000_000
LARGEST_LOCAL_ROWS = 200_000_000
# Beside what is collected: 100M ratings of 750,000 rows, 32 bytes each, took 12 GB at rank 50 in both stages, with what
# is known of rows; 10M of 80,000 took 1.6.
BYTES_OF_A_RATING = 65
# Up to so many both sides are put in order at once, which takes so much more of each.
AT_ONCE, BYTES_AT_ONCE = 1 << 25, 20
# Of the JVM's heap, what is collected at once may take this part: it is there twice, and so is what is on its way.
PORTION_OF_HEAP = 1 / 8


class Driver(NamedTuple):
    """What there is at the driver, in bytes; of the JVM's heap results and tables take their part.

    memory : of its machine. heap : of its JVM. results : that Spark collects at once. has_cluster : whether other
    processes could share the work.
    """

    memory: float
    heap: float
    results: float
    has_cluster: bool

    def room_for(self, width: int) -> int:
        """Return how many pairs of so many bytes may be collected at once, and worked on here."""
        through_spark = min(self.heap / 4, self.results) / width
        return int(min(through_spark, self.memory / 2 / (BYTES_OF_A_RATING + width)))

    def portions(self, collected: "Collected") -> int:
        """Return in how many portions ratings pass through the JVM; half of what Spark allows, for none is even."""
        at_once = min(self.heap * PORTION_OF_HEAP, self.results / 2)
        return max(1, ceil(collected.number * collected.width / at_once))


class Collected(NamedTuple):
    """What a fit in the driver's process would begin with: ratings and given ids, of so many bytes each."""

    number: int
    width: int


@dataclass(frozen=True)
class LayoutSettings:
    """What is wanted of a layout; None leaves a number of blocks to the size of the data.

    heavy_pairs : an item with more pairs on the cluster is heavy, see :mod:`dcrec_spark.engine.heavy`; None: none is.
    """

    user_blocks: int | None
    item_blocks: int | None
    exchange: str
    precision: str
    width: int
    heavy_pairs: int | None = None

    @property
    def most_heavy(self) -> int:
        """How many items may be heavy: the largest of them."""
        return most_heavy(self.width)

    def bytes_of(self, rows: int) -> float:
        """Return about how large the tables of so many rows of both sides are: two arrays of each stage."""
        return 4.0 * 8 * self.width * rows

    @property
    def may_be_local(self) -> bool:
        """Whether it depends on the numbers of ratings and rows alone, if at all, that all is laid out here."""
        is_free = self.exchange == "auto" and self.user_blocks is None and self.item_blocks is None
        return self.exchange == "local" or is_free

    def is_local(self, collected: Collected, rows: Callable[[], int], driver: Driver) -> bool:
        """Whether all is laid out in the driver's process.

        rows : counts those of both sides; it may collect the ratings to do so, and is called where these have room.

        Raises
        ------
        ConfigError : exchange=local was asked for, and there is too much.
        """
        if not self.may_be_local:
            return False
        is_asked, number = self.exchange == "local", collected.number
        most = LOCAL_ROWS if driver.has_cluster and not is_asked else LARGEST_LOCAL_ROWS
        if number <= LOCAL_ROWS or (number <= most and self._has_room(collected, rows, driver)):
            return True
        if is_asked:
            memory, heap = driver.memory / 2**30, driver.heap / 2**30
            raise ConfigError(
                f"exchange=local: {number:,} ratings would be collected to the driver; expected {LARGEST_LOCAL_ROWS:,} "
                f"at most, and no more than its memory ({memory:,.1f} GB, of which half), its JVM's heap ({heap:,.1f} "
                "GB) and spark.driver.maxResultSize have room for, with the factors of their users and items: use "
                "auto, broadcast or blocks"
            )
        return False

    def _has_room(self, collected: Collected, rows: Callable[[], int], driver: Driver) -> bool:
        """Whether it fits; tables go through the JVM twice, and 6 GB of them did not go through a heap of 6."""
        if self.bytes_here(collected, 0) > driver.memory / 2:
            return False
        number = rows()
        return self.bytes_of(number) <= driver.heap / 2 and self.bytes_here(collected, number) <= driver.memory / 2

    def bytes_here(self, collected: Collected, rows: int) -> float:
        """Return how much a fit takes in this process: its ratings and, of so many rows of both sides, the factors."""
        at_once = BYTES_AT_ONCE if collected.number <= AT_ONCE else 0
        return (BYTES_OF_A_RATING + at_once + collected.width) * collected.number + self.bytes_of(rows)

    def holds(self, name: str, n_rows: int) -> bool:
        """Whether the driver holds the results of a side of so many rows.

        Raises
        ------
        ConfigError : broadcast was asked for, and the driver would have to hold too much.
        """
        size = n_rows * self.width * 8
        if self.exchange == "auto":
            return size <= HELD_BYTES
        if self.exchange == "broadcast" and size > LARGEST_HELD_BYTES:
            raise ConfigError(
                f"exchange=broadcast: the factors of {n_rows:,} {name}s take {size / 2**20:,.0f} MB, which would pass "
                f"through the driver at every half-step (at most {LARGEST_HELD_BYTES / 2**20:,.0f}): use auto or blocks"
            )
        return self.exchange == "broadcast"


def layout_settings(estimator: Params, width: int, splits: bool = False) -> LayoutSettings:
    """Return what an estimator's parameters ask for; ``width`` numbers a row at most.

    splits : whether items may be heavy; how many pairs make them so, its attribute ``heavyPairs`` says, else their
        bytes.
    """
    get = estimator.getOrDefault
    heavy_pairs = (getattr(estimator, "heavyPairs", None) or pairs_of_a_row(width)) if splits else None
    blocks = get("numBlocks")
    return LayoutSettings(blocks, blocks, get("exchange"), get("precision"), width, heavy_pairs)
