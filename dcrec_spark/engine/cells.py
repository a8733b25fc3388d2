"""NumPy arrays as one binary cell: the form in which they travel between Spark and Python workers.

A binary cell crosses by a bulk copy, where an array column is written element by element. The layout is a JSON
header (names, types, shapes, offsets), then the bytes of each array, aligned so that views need no copy::

    pack({"row_ptr": np.array([0, 2, 3]), "rating": np.array([5.0, 1.0, 4.0])}) -> b"..."
    unpack(cell)["rating"]                                                      -> array([5., 1., 4.])
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_ALIGN = 64
# A Spark binary cell is a Java byte array, indexed by a 32-bit integer.
MAX_CELL_BYTES = 2**31 - 2**20


def pack(arrays: Mapping[str, Array]) -> bytes:
    """One binary cell that holds ``arrays``.

    Raises
    ------
    ValueError : the cell would not fit into Spark's 2 GB; use more blocks.
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    entries: list[tuple[str, str, tuple[int, ...], int]] = []
    offset = 0
    for name, array in contiguous.items():
        entries.append((name, array.dtype.str, array.shape, offset))
        offset += -(-array.nbytes // _ALIGN) * _ALIGN
    header = json.dumps(entries).encode()
    start = -(-(8 + len(header)) // _ALIGN) * _ALIGN
    if start + offset > MAX_CELL_BYTES:
        raise ValueError(
            f"a block of {start + offset:,} bytes does not fit into one cell (at most {MAX_CELL_BYTES:,}): "
            "set numUserBlocks and numItemBlocks higher"
        )
    cell = bytearray(start + offset)
    cell[:8] = len(header).to_bytes(8, "little")
    cell[8 : 8 + len(header)] = header
    for (_, _, _, at), array in zip(entries, contiguous.values(), strict=True):
        cell[start + at : start + at + array.nbytes] = array.reshape(-1).view(np.uint8).data
    return bytes(cell)


def unpack(cell: bytes | memoryview) -> dict[str, Array]:
    """The arrays of a cell made by :func:`pack`, as read-only views into it."""
    view = memoryview(cell)
    size = int.from_bytes(view[:8], "little")
    start = -(-(8 + size) // _ALIGN) * _ALIGN
    return {
        name: np.frombuffer(view, dtype, int(np.prod(shape)), start + at).reshape(shape)
        for name, dtype, shape, at in json.loads(bytes(view[8 : 8 + size]))
    }
