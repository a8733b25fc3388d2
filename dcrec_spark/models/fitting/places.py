"""Positions of ids among those of a side, in Arrow."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dcrec_spark.kernels.csr import index_type
from dcrec_spark.kernels.threads import make_in_pieces

Indices = npt.NDArray[np.integer]
# Ids are looked up in an array over all numbers between them, if it is at most so many times as long as the look-ups.
_SPARSE = 4


def places(wanted: pa.Array | pa.ChunkedArray, ids: pa.Array | pa.ChunkedArray) -> Indices:
    """Return the position of each wanted id among ``ids``, -1 if it is absent. Integers of all widths are alike."""
    if pa.types.is_integer(ids.type):
        if len(ids) and pa.types.is_integer(wanted.type) and not wanted.null_count:
            span = pc.min_max(ids).as_py()
            if span["max"] - span["min"] < _SPARSE * (len(ids) + len(wanted)):
                return _places_by_table(wanted.to_numpy(), ids.to_numpy())
        wanted, ids = wanted.cast(pa.int64()), ids.cast(pa.int64())
    found = pc.fill_null(pc.index_in(wanted, value_set=ids), -1)
    return np.asarray(found.to_numpy(), index_type(len(ids)))


def _places_by_table(wanted: npt.NDArray[np.integer], ids: npt.NDArray[np.integer]) -> Indices:
    low, high = int(ids.min()), int(ids.max())
    index = index_type(len(ids))
    table = np.full(high - low + 2, -1, index)  # the last is for all numbers outside
    table[ids.astype(np.int64) - low] = np.arange(len(ids))

    def look_up(at: slice) -> Indices:
        number = wanted[at].astype(np.int64)
        return np.asarray(table[np.where((number < low) | (number > high), len(table) - 1, number - low)])

    return make_in_pieces(look_up, len(wanted), index)
