"""Sums over users and over items of a frame that lies by user, in one Spark job.

    partition of users -> its users' metrics -> sums, resampled                         ┐ added up
                       -> errors of its ratings, shown items -> by item, one exchange   │
                          -> its items' metrics -> sums, resampled                      ┘

Only sums reach the driver: their size depends on the number of metrics and replications, not on users or items.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from dcrec_spark.engine.cells import Array
from dcrec_spark.evaluation.measures import Measure, MetricSettings
from dcrec_spark.kernels.bootstrap import Cells, Pooled, resampled_sums
from dcrec_spark.kernels.csr import rows_of
from dcrec_spark.kernels.metrics import PerRow, error_means
from dcrec_spark.spark.compat import apply_in_arrow, collect_arrow
from dcrec_spark.spark.lineage import cores
from dcrec_spark.spark.preflight import require_workers

GROUP = "group"
_CELLS = "group int, bucket int, part long, data binary"
_USERS = -1


class OfModel(NamedTuple):
    """A measure of one model, by the model's number."""

    model: int
    measure: Measure


class Sums(NamedTuple):
    """All that an evaluation needs to know of its rows.

    measures : (1 + replications, 2) each: total and weight, as they are and in each replication. Of coverage (1, 2):
    how many items were shown, and 0. counts : plain numbers by name, or an array of them.
    """

    measures: Mapping[OfModel, Array]
    counts: Mapping[str, Any]


class Tally(NamedTuple):
    """What one partition knows: test ratings, or entries of lists, by user."""

    cells: Cells  # its users, and their entries' items
    per_user: Mapping[OfModel, PerRow | Pooled]  # metrics of the users, or of their ratings together
    per_item: Mapping[OfModel, Array]  # errors of the entries, to be averaged over each item's
    shown: Mapping[OfModel, Array]  # (I,) whether the item is in the list of one of these users
    tested: Array  # (T,) hashes of the items that have test ratings, usable or not
    counts: Mapping[str, int | Array]  # plain numbers by name, or an array of them


NOTHING = Sums({}, {})
MakeTally = Callable[[pa.Table, MetricSettings], Tally]


class _Entries(NamedTuple):
    """What a partition knows of some items: their hashes, and of each entry the hashes of its user and of its item."""

    key: Array
    tested: Array
    user: Array
    item: Array
    errors: dict[OfModel, Array]
    shown: dict[OfModel, Array]


def add_up(by_user: DataFrame, tally: MakeTally, settings: MetricSettings) -> dict[int, Sums]:
    """Add up the tallies of all partitions, for each group of rows (column GROUP of whole numbers).

    by_user : All rows of a group's user lie in one partition. tally : of one partition's rows, at least one.
    Returns the sums of ``per_user`` over users, of ``per_item`` and ``shown`` over items (each item counts once), of
    ``counts`` over partitions.
    """
    require_workers(by_user.sparkSession)
    n_buckets = cores(by_user.sparkSession)

    def to_cells(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = [batch for batch in batches if batch.num_rows]
        for group, rows in _split_by_group(pa.Table.from_batches(filled)) if filled else []:
            cells = _cells(tally(rows, settings), settings, n_buckets)
            yield cells.add_column(0, GROUP, pa.array([group] * cells.num_rows, pa.int32()))

    def merge(cells: pa.Table) -> pa.Table:
        group, bucket = cells[GROUP][0].as_py(), cells["bucket"][0].as_py()
        parts = _read(cells.sort_by("part"))
        sums = _add(parts) if bucket == _USERS else _item_sums(parts, settings)
        places = {GROUP: pa.array([group], pa.int32()), "bucket": pa.array([bucket], pa.int32())}
        return pa.table({**places, "data": pa.array([pickle.dumps(sums)], pa.binary())})

    schema = "group int, bucket int, data binary"
    grouped = by_user.mapInArrow(to_cells, _CELLS).groupBy(GROUP, "bucket")
    merged = collect_arrow(apply_in_arrow(grouped, merge, schema))
    return {group: _add(_read(rows.sort_by("bucket"))) for group, rows in _split_by_group(merged)}


def _read(cells: pa.Table) -> list[Any]:
    return [pickle.loads(cell) for cell in cells["data"].to_pylist()]


def _split_by_group(rows: pa.Table) -> list[tuple[int, pa.Table]]:
    groups = sorted(pc.unique(rows[GROUP]).to_pylist())
    return [(group, rows.filter(pc.field(GROUP) == group).drop_columns([GROUP])) for group in groups]


def add_up_here(tally: Tally, settings: MetricSettings) -> Sums:
    """Add up a tally that has everything, without Spark."""
    sums, *of_items = _read(pa.Table.from_batches([_cells(tally, settings, 1)]))
    return _add([sums, *(_item_sums([entries], settings) for entries in of_items)])


def _resampled(
    cells: Cells, metrics: Mapping[OfModel, PerRow | Pooled], settings: MetricSettings, are_users: bool
) -> dict[OfModel, Array]:
    """Total and weight of metrics of rows, as they are and in each replication. (1 + replications, 2) each.

    are_users : else the rows are items. Users and items have the same draws as rows and as columns.
    """
    of_users, of_items = settings.seed, settings.seed + 1
    seeds = (of_users, of_items) if are_users else (of_items, of_users)
    sums = resampled_sums(cells, list(metrics.values()), seeds, settings.replications)
    return {name: sums[:, number] for number, name in enumerate(metrics)}


def _cells(tally: Tally, settings: MetricSettings, n_buckets: int) -> pa.RecordBatch:
    """Return the sums over users, and then the entries of each bucket of items."""
    of = tally.cells
    of_users = Sums(_resampled(of, tally.per_user, settings, are_users=True), tally.counts)
    cells: dict[int, Sums | _Entries] = {_USERS: of_users}
    bucket, user = of.col_key % n_buckets, of.row_key[rows_of(of.row_ptr)]
    for number in np.union1d(bucket, tally.tested % n_buckets).tolist():
        here = bucket == number
        entry = here[of.col] if tally.per_item else np.zeros(len(of.col), np.bool_)
        tested = tally.tested[tally.tested % n_buckets == number]
        errors = {name: error[entry] for name, error in tally.per_item.items()}
        shown = {name: flags[here] for name, flags in tally.shown.items()}
        cells[number] = _Entries(of.col_key[here], tested, user[entry], of.col_key[of.col[entry]], errors, shown)
    # Sums are added in the order of the users, whichever partition is there first.
    part = int(of.row_key.min(initial=np.iinfo(np.int64).max))
    return pa.RecordBatch.from_pydict(
        {
            "bucket": pa.array(cells.keys(), pa.int32()),
            "part": pa.array([part] * len(cells), pa.int64()),
            "data": pa.array(map(pickle.dumps, cells.values()), pa.binary()),
        }
    )


def _item_sums(parts: list[_Entries], settings: MetricSettings) -> Sums:
    """Put the ratings of each item of a bucket together, and measure every item once."""
    key, tested, user, item = (np.concatenate(arrays) for arrays in zip(*(part[:4] for part in parts), strict=True))
    errors, shown = (
        {of: np.concatenate([each[of] for each in arrays]) for of in arrays[0]}
        for arrays in ([part.errors for part in parts], [part.shown for part in parts])
    )
    sums = {of: np.array([[len(np.unique(key[flags])), 0.0]]) for of, flags in shown.items()}
    if errors:
        order = np.lexsort((user, item))
        item_key, counts = np.unique(item, return_counts=True)
        user_key, place = np.unique(user[order], return_inverse=True)
        cells = Cells(np.concatenate([[0], np.cumsum(counts)]), place, item_key, user_key)
        means = {of: error_means(cells.row_ptr, error[order]) for of, error in errors.items()}
        sums |= _resampled(cells, means, settings, are_users=False)
    return Sums(sums, {"items": len(np.unique(tested)), "items_measured": len(np.unique(item))})


def _add(parts: Sequence[Sums]) -> Sums:
    measures, counts = (reduce(_add_mapped, each) for each in zip(*parts, strict=True))
    return Sums(measures, counts)


def _add_mapped(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    return {**one, **{name: one[name] + value if name in one else value for name, value in other.items()}}
