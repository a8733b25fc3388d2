"""When loops are compiled: where the work is large, and numba is there."""

import json
import subprocess
import sys

import numpy as np
import pytest

from dcrec_spark.kernels import compiled
from dcrec_spark.kernels.compiled import pays, plain

# A fit of 40,000 ratings in NumPy, in a process that has no numba; what it finds.
PROGRAM = """
import json, sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == "numba":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
from dcrec_spark.kernels.poisson import CountBlock, update_shape
from tests.kernels.loops.problems import counts_of, factors_of
block = counts_of(0, 400, 300, 0.3)
shape = update_shape(0.3, block, factors_of(1, 400, 64), factors_of(2, 300, 64))
print(json.dumps([float(shape.sum()), float(block.counts.sum() + 0.3 * shape.size)]))
"""


def test_large_work_pays_where_numba_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pays(compiled.LEAST_WORK)
    assert not pays(compiled.LEAST_WORK - 1)
    monkeypatch.setattr(compiled, "has_numba", lambda: False)
    assert not pays(1 << 60)


def test_without_numba_large_work_is_done_in_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    total, expected = json.loads(done.stdout)
    assert total == pytest.approx(expected, rel=1e-10)


def test_plain_arrays_are_contiguous_and_cannot_be_written_to() -> None:
    matrix = np.arange(12.0).reshape(3, 4)
    for array in (matrix, matrix.T, matrix[:, 1:], matrix[::2]):
        result = plain(array, np.float32)
        assert (result.dtype, result.flags.c_contiguous, result.flags.writeable) == (np.float32, True, False)
        np.testing.assert_array_equal(result, array)
    assert plain(matrix).base is not None
    assert matrix.flags.writeable
