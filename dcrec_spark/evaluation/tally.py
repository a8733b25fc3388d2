"""Sums over users and over items of a frame that lies by user, in one Spark job.

    partition of users -> values of its users -> sums, resampled                        ┐ added up
                       -> sums and list places of its items -> by item, one exchange,   │
                          a few numbers for each item -> means -> sums, resampled       ┘

Only sums reach the driver: their size depends on the number of metrics and replications, not on users or items.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from dcrec_spark.engine.cells import Array, pack, unpack
from dcrec_spark.kernels.bootstrap import resampled_sums
from dcrec_spark.kernels.metrics import PerRow, row_means, sums_by
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.preflight import require_workers
from dcrec_spark.spark.worker import forget_zip_importers

# name -> (1 + replications, 2): total and weight of a metric; or (): a plain count.
Sums = dict[str, Array]

_CELLS = "bucket int, part long, data binary"
_USERS = -1


@dataclass(frozen=True)
class Resampling:
    """Of users; items have another seed, so that a user and an item of the same name have nothing in common."""

    replications: int
    seed: int

    def sums(self, key: Array, metrics: Mapping[str, PerRow]) -> Sums:
        """Each metric's total and weight, as they are and in each replication."""
        values = np.column_stack([part for metric in metrics.values() for part in metric])
        sums = resampled_sums(self.seed, key, values, self.replications)
        return {name: sums[:, 2 * number : 2 * number + 2] for number, name in enumerate(metrics)}

    def of_items(self) -> "Resampling":
        """The same for items."""
        return Resampling(self.replications, self.seed + 1)


class Tally(NamedTuple):
    """What one partition knows.

    user_key : (U,) hashes of its users' ids. per_user : name -> metric of each user.
    item_key : (I,) hashes of its items' ids. per_item : name -> sums over the item's ratings here.
    shown : name -> (I,) whether the item is in the list of one of these users.
    counts : name -> a plain number.
    """

    user_key: Array
    per_user: Mapping[str, PerRow]
    item_key: Array
    per_item: Mapping[str, PerRow]
    shown: Mapping[str, Array]
    counts: Mapping[str, int]


def add_up(by_user: DataFrame, tally: Callable[[pa.Table], Tally], resampling: Resampling) -> Sums:
    """The sums of all partitions.

    Parameters
    ----------
    by_user : all rows of a user lie in one partition.
    tally : of one partition's rows, at least one.

    Returns
    -------
    ``per_user`` and ``per_item`` names with (1 + replications, 2) sums, where each item counts with its mean;
    ``shown`` names with (1, 2): how many items were shown, and 0; ``counts`` names with a number.
    """
    require_workers(by_user.sparkSession)
    n_buckets = cores(by_user.sparkSession)

    def to_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zip_importers()
        filled = [batch for batch in batches if batch.num_rows]
        if filled:
            yield _cells(tally(pa.Table.from_batches(filled)), resampling, n_buckets)

    def merge(cells: pa.Table) -> pa.Table:
        forget_zip_importers()
        bucket = cells["bucket"][0].as_py()
        parts = [unpack(cell) for cell in cells.sort_by("part")["data"].to_pylist()]
        sums = _added(parts) if bucket == _USERS else _item_sums(parts, resampling.of_items())
        return pa.table({"bucket": pa.array([bucket], pa.int32()), "data": pa.array([pack(sums)], pa.binary())})

    merged = by_user.mapInArrow(to_cells, _CELLS).groupBy("bucket").applyInArrow(merge, "bucket int, data binary")
    return _added([unpack(cell) for cell in merged.toArrow().sort_by("bucket")["data"].to_pylist()])


def add_up_here(tally: Tally, resampling: Resampling) -> Sums:
    """The sums of a tally that has everything, without Spark."""
    cells = _cells(tally, resampling, 1)
    parts = {cell["bucket"]: unpack(cell["data"]) for cell in cells.to_pylist()}
    users = parts.pop(_USERS)
    return _added([users, *(_item_sums([part], resampling.of_items()) for part in parts.values())])


def _cells(tally: Tally, resampling: Resampling, n_buckets: int) -> pa.RecordBatch:
    sums = resampling.sums(tally.user_key, tally.per_user)
    cells = {_USERS: sums | {name: np.array(count) for name, count in tally.counts.items()}}
    bucket = tally.item_key % n_buckets
    for number in np.unique(bucket).tolist():
        here = bucket == number
        metrics = {f"per_item {name}": np.stack([m.total[here], m.weight[here]]) for name, m in tally.per_item.items()}
        shown = {f"shown {name}": flags[here] for name, flags in tally.shown.items()}
        cells[number] = {"key": tally.item_key[here], **metrics, **shown}
    # Sums are added in the order of the users, whichever partition is there first.
    part = int(tally.user_key.min(initial=np.iinfo(np.int64).max))
    return pa.RecordBatch.from_pydict(
        {
            "bucket": pa.array(cells.keys(), pa.int32()),
            "part": pa.array([part] * len(cells), pa.int64()),
            "data": pa.array(map(pack, cells.values()), pa.binary()),
        }
    )


def _item_sums(parts: list[dict[str, Array]], resampling: Resampling) -> Sums:
    """The items of one bucket: each partition's sums for an item added up, then every item counted once."""
    key, item = np.unique(np.concatenate([part["key"] for part in parts]), return_inverse=True)
    metrics: dict[str, PerRow] = {}
    sums: Sums = {}
    for name in parts[0]:
        kind, _, measure = name.partition(" ")
        if kind == "per_item":
            parts_of_it = np.concatenate([part[name] for part in parts], axis=1)
            metrics[measure] = row_means(PerRow(*(sums_by(item, row, len(key)) for row in parts_of_it)))
        elif kind == "shown":
            shown = np.concatenate([part[name] for part in parts])
            sums[measure] = np.array([[len(np.unique(item[shown])), 0.0]])
    return sums | (resampling.sums(key, metrics) if metrics else {})


def _added(parts: list[dict[str, Array]]) -> Sums:
    total: Sums = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total[name] + value if name in total else value
    return total
