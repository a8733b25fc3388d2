"""What an estimator asks of the layout of its ratings: where, in how many blocks, in which precision."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.ml.param import Params

from dcrec_spark.errors import ConfigError

# Below this many bytes of factors a side's results are held by the driver and broadcast; above they stay placed.
HELD_BYTES = 64 * 2**20
LARGEST_HELD_BYTES = 512 * 2**20
# Up to so many ratings auto fits in the driver's process, as many as one block of the cluster holds; up to so many
# where the driver's machine is all the cluster there is. More than the largest number are refused there, for all of
# them are collected.
LOCAL_ROWS = 2_000_000
LOCAL_ROWS_WITHOUT_CLUSTER = 10_000_000
LARGEST_LOCAL_ROWS = 20_000_000


@dataclass(frozen=True)
class LayoutSettings:
    """What is wanted of a layout; None leaves a number of blocks to the size of the data."""

    user_blocks: int | None
    item_blocks: int | None
    exchange: str
    precision: str
    width: int

    def bytes_of(self, rows: Mapping[str, int]) -> float:
        """Return about how large the tables of so many rows of each side are: two arrays of each stage."""
        return 4.0 * 8 * self.width * sum(rows.values())

    @property
    def may_be_local(self) -> bool:
        """Whether it depends on the number of rows alone, if at all, that they are laid out in the driver's process."""
        is_free = self.exchange == "auto" and self.user_blocks is None and self.item_blocks is None
        return self.exchange == "local" or is_free

    def is_local(self, rows: int, has_cluster: bool) -> bool:
        """Whether so many rows, ratings and ids that are given, are laid out in the driver's process.

        has_cluster : whether other processes than the driver's could share the work.

        Raises
        ------
        ConfigError : exchange=local was asked for, and there are too many.
        """
        if self.exchange == "local" and rows > LARGEST_LOCAL_ROWS:
            raise ConfigError(
                f"exchange=local: {rows:,} rows would be collected to the driver (at most {LARGEST_LOCAL_ROWS:,}): "
                "use auto, broadcast or blocks"
            )
        most = LOCAL_ROWS if has_cluster else LOCAL_ROWS_WITHOUT_CLUSTER
        return self.exchange == "local" or (self.may_be_local and rows <= most)

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


def layout_settings(estimator: Params, width: int) -> LayoutSettings:
    """Return what an estimator's parameters ask for; ``width`` numbers a row at most."""
    get = estimator.getOrDefault
    return LayoutSettings(get("numUserBlocks"), get("numItemBlocks"), get("exchange"), get("precision"), width)
