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
from dcrec_spark.evaluation.measures import Measure
from dcrec_spark.kernels.bootstrap import resampled_sums
from dcrec_spark.kernels.metrics import PerRow, row_means, sums_by
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.preflight import require_workers
from dcrec_spark.spark.worker import forget_zip_importers

_CELLS = "bucket int, part long, data binary"
_USERS = -1


class OfModel(NamedTuple):
    """A measure of one model, by the model's number."""

    model: int
    measure: Measure


class Sums(NamedTuple):
    """All that an evaluation needs to know of its rows.

    measures : (1 + replications, 2) each: total and weight, as they are and in each replication; of coverage (1, 2):
    how many items were shown, and 0. counts : plain numbers by name, or an array of them.
    """

    measures: Mapping[OfModel, Array]
    counts: Mapping[str, Array]


class Tally(NamedTuple):
    """What one partition knows.

    user_key : (U,) hashes of its users' ids. per_user : the measures of each user.
    item_key : (I,) hashes of its items' ids. per_item : sums over the item's ratings here.
    shown : (I,) whether the item is in the list of one of these users.
    counts : plain numbers by name, or an array of them.
    """

    user_key: Array
    per_user: Mapping[OfModel, PerRow]
    item_key: Array
    per_item: Mapping[OfModel, PerRow]
    shown: Mapping[OfModel, Array]
    counts: Mapping[str, int | Array]


@dataclass(frozen=True)
class Resampling:
    """Bootstrap of users; items have another seed, so that a user and an item of the same name share no weights."""

    replications: int
    seed: int

    def sums(self, key: Array, metrics: Mapping[OfModel, PerRow]) -> dict[OfModel, Array]:
        """Each metric's total and weight, as they are and in each replication."""
        values = np.column_stack([part for metric in metrics.values() for part in metric])
        sums = resampled_sums(self.seed, key, values, self.replications)
        return {name: sums[:, 2 * number : 2 * number + 2] for number, name in enumerate(metrics)}

    def of_items(self) -> "Resampling":
        """Return the resampling of items that goes with this one of users."""
        return Resampling(self.replications, self.seed + 1)


# ---- the arrays of a cell: names of the three kinds of measures, and of counts


_PER_ITEM, _SHOWN, _SUM, _COUNT = "per_item", "shown", "sum", "count"


def _name(kind: str, of: OfModel) -> str:
    return f"{kind} {of.model} {of.measure}"


def _of(name: str) -> OfModel:
    _, model, measure = name.split(" ")
    return OfModel(int(model), Measure.parse(measure))


def _named(sums: Mapping[OfModel, Array], counts: Mapping[str, int | Array]) -> dict[str, Array]:
    named = {_name(_SUM, of): array for of, array in sums.items()}
    return named | {f"{_COUNT} {name}": np.asarray(count) for name, count in counts.items()}


def _read(named: Mapping[str, Array]) -> Sums:
    counts = {name.partition(" ")[2]: array for name, array in named.items() if name.startswith(_COUNT)}
    return Sums({_of(name): array for name, array in named.items() if name.startswith(_SUM)}, counts)


def add_up(by_user: DataFrame, tally: Callable[[pa.Table], Tally], resampling: Resampling) -> Sums:
    """Add up the tallies of all partitions.

    Parameters
    ----------
    by_user : DataFrame
        All rows of a user lie in one partition.
    tally : callable
        Makes the tally of one partition's rows, at least one.
    resampling : Resampling
        Of users, and from it of items.

    Returns
    -------
    Sums
        Of ``per_user`` over users; of ``per_item`` over items, where each item counts with its mean; of ``shown`` over
        items; of ``counts`` over partitions.
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
    return _read(_added([unpack(cell) for cell in merged.toArrow().sort_by("bucket")["data"].to_pylist()]))


def add_up_here(tally: Tally, resampling: Resampling) -> Sums:
    """Add up a tally that has everything, without Spark."""
    cells = _cells(tally, resampling, 1)
    parts = {cell["bucket"]: unpack(cell["data"]) for cell in cells.to_pylist()}
    users = parts.pop(_USERS)
    return _read(_added([users, *(_item_sums([part], resampling.of_items()) for part in parts.values())]))


def _cells(tally: Tally, resampling: Resampling, n_buckets: int) -> pa.RecordBatch:
    cells = {_USERS: _named(resampling.sums(tally.user_key, tally.per_user), tally.counts)}
    bucket = tally.item_key % n_buckets
    for number in np.unique(bucket).tolist():
        here = bucket == number
        sums = {_name(_PER_ITEM, of): np.stack([m.total[here], m.weight[here]]) for of, m in tally.per_item.items()}
        shown = {_name(_SHOWN, of): flags[here] for of, flags in tally.shown.items()}
        cells[number] = {"key": tally.item_key[here], **sums, **shown}
    # Sums are added in the order of the users, whichever partition is there first.
    part = int(tally.user_key.min(initial=np.iinfo(np.int64).max))
    return pa.RecordBatch.from_pydict(
        {
            "bucket": pa.array(cells.keys(), pa.int32()),
            "part": pa.array([part] * len(cells), pa.int64()),
            "data": pa.array(map(pack, cells.values()), pa.binary()),
        }
    )


def _item_sums(parts: list[dict[str, Array]], resampling: Resampling) -> dict[str, Array]:
    """Add up the sums for each item of a bucket, then count every item once."""
    key, item = np.unique(np.concatenate([part["key"] for part in parts]), return_inverse=True)
    metrics: dict[OfModel, PerRow] = {}
    sums: dict[OfModel, Array] = {}
    for name in parts[0]:
        if name.startswith(_PER_ITEM):
            both = np.concatenate([part[name] for part in parts], axis=1)
            metrics[_of(name)] = row_means(PerRow(*(sums_by(item, row, len(key)) for row in both)))
        elif name.startswith(_SHOWN):
            shown = np.concatenate([part[name] for part in parts])
            sums[_of(name)] = np.array([[len(np.unique(item[shown])), 0.0]])
    return _named(sums | (resampling.sums(key, metrics) if metrics else {}), {})


def _added(parts: list[dict[str, Array]]) -> dict[str, Array]:
    total: dict[str, Array] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total[name] + value if name in total else value
    return total
