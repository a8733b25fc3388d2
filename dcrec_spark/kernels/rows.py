"""Walking over the rows of a CSR block in pieces that stay in the processor's cache."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# A heavy row is taken in pieces of this many nonzeros, so that the gathered source rows stay small.
PIECE = 1 << 15


def pieces(row_ptr: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(row, start, end) of each piece of each row, in order; a row without nonzeros has none."""
    pointer = row_ptr.tolist()
    for row in range(len(pointer) - 1):
        start, end = pointer[row], pointer[row + 1]
        while start < end:
            piece_end = min(end, start + PIECE)
            yield row, start, piece_end
            start = piece_end
