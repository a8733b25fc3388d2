"""The key of an id, from which the noise of its row is drawn, as Spark's xxhash64 makes it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

_SEED_OF_SPARK = 42


def keys_of(ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the hash of each id's text, (n,): the same as Spark's ``xxhash64``, without a job."""
    hashes = (xxh64_intdigest(text.encode(), seed=_SEED_OF_SPARK) for text in ids)
    return np.fromiter(hashes, np.uint64, len(ids)).view(np.int64)
