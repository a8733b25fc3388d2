"""Binary cells of NumPy arrays, as they travel between Spark and Python workers.

A binary cell crosses by a bulk copy, where an array column is written element by element. It is a header of JSON
(names, types, shapes, offsets), then the bytes of each array, aligned so that views need no copy. Two arrays,
``row_ptr`` = [0, 2, 3] and ``rating`` = [5.0, 1.0, 4.0], make a cell of 192 bytes::

    bytes   0 -   7     56, the length of the header
    bytes   8 -  63     [["row_ptr", "<i8", [3], 0], ["rating", "<f8", [3], 64]]
    bytes  64 -  87     0, 2, 3           at offset 0 of the arrays
    bytes 128 - 151     5.0, 1.0, 4.0     at offset 64

``docs/decisions/cells.md`` says why this is neither safetensors nor Arrow IPC.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Cell = bytes | memoryview

_ALIGN = 64
# A Spark binary cell is a Java byte array, indexed by a 32-bit integer.
MAX_CELL_BYTES = 2**31 - 2**20


def pack(arrays: Arrays, limit: int = MAX_CELL_BYTES) -> bytes:
    """Write arrays into one binary cell.

    arrays : name -> array of numbers or booleans, of any shape. limit : of bytes.

    Raises ValueError: the cell would exceed the limit, by default Spark's 2 GB. Use more blocks.

    Examples
    --------
    >>> cell = pack({"row_ptr": np.array([0, 2, 3]), "rating": np.array([5.0, 1.0, 4.0])})
    >>> unpack(cell)["rating"]
    array([5., 1., 4.])
    """
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    entries: list[tuple[str, str, tuple[int, ...], int]] = []
    offset = 0
    for name, array in contiguous.items():
        entries.append((name, array.dtype.str, array.shape, offset))
        offset += _aligned(array.nbytes)
    header = json.dumps(entries).encode()
    start = _aligned(8 + len(header))
    if start + offset > limit:
        raise ValueError(
            f"a block of {start + offset:,} bytes does not fit into one cell (at most {limit:,}): set numBlocks higher"
        )
    parts: list[bytes | memoryview] = [len(header).to_bytes(8, "little"), header, bytes(start - 8 - len(header))]
    for array in contiguous.values():
        parts += [array.reshape(-1).view(np.uint8).data, bytes(_aligned(array.nbytes) - array.nbytes)]
    return b"".join(parts)


def unpack(cell: Cell) -> dict[str, Array]:
    """Read the arrays of a cell made by :func:`pack`, as read-only views into it."""
    view = memoryview(cell)
    size = int.from_bytes(view[:8], "little")
    start = _aligned(8 + size)
    return {
        name: np.frombuffer(view, dtype, int(np.prod(shape)), start + at).reshape(shape)
        for name, dtype, shape, at in json.loads(bytes(view[8 : 8 + size]))
    }


def cells_in(column: pa.Array | pa.ChunkedArray) -> list[memoryview]:
    """Return the cells of a column of a batch or of a table, as views of it: reading a value, Arrow would copy it."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    cells: list[memoryview] = []
    for chunk in chunks:
        if len(chunk):
            _, offsets, data = chunk.buffers()
            wide = pa.types.is_large_binary(chunk.type)
            ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[chunk.offset :][: len(chunk) + 1].tolist()
            view = memoryview(data).cast("B")
            cells += [view[begin:end] for begin, end in pairwise(ends)]
    return cells


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
