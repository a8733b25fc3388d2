"""Arrays in a binary cell: what goes in comes out, without a copy, and never more than Spark can carry."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dcrec_spark.engine import cells
from dcrec_spark.engine.cells import pack, unpack

DTYPES = st.sampled_from(["float64", "float32", "int64", "int32", "int8", "bool", "uint64"]).map(np.dtype)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))


@given(st.dictionaries(st.text(max_size=8), ARRAYS, max_size=5))
def test_what_is_packed_is_unpacked(contents: dict[str, cells.Array]) -> None:
    found = unpack(pack(contents))
    assert list(found) == list(contents)
    for name, array in contents.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_unpacked_arrays_are_aligned_read_only_views_of_the_cell() -> None:
    cell = pack({"odd": np.ones(3, np.int8), "floats": np.arange(5.0), "single": np.ones(3, np.float32)})
    address = np.frombuffer(cell, np.uint8).ctypes.data
    for array in unpack(cell).values():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert address <= array.ctypes.data < address + len(cell)
        assert (array.ctypes.data - address) % 64 == 0


def test_cell_that_is_too_large_is_refused() -> None:
    assert cells.MAX_CELL_BYTES < 2**31
    contents = {"rows": np.zeros(1000)}
    size = len(pack(contents))
    assert len(pack(contents, size)) == size
    with pytest.raises(ValueError, match=rf"{size:,} bytes.*at most {size - 1:,}.*numBlocks"):
        pack(contents, size - 1)


def test_python_objects_are_refused() -> None:
    """Their bytes would be addresses in the process that wrote them."""
    with pytest.raises(TypeError):
        pack({"ids": np.array(["anna", None], dtype=object)})


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_cells_of_a_column_are_views_of_it(type_: pa.DataType) -> None:
    packed = [pack({"rows": np.arange(n)}) for n in range(5)]
    column = pa.chunked_array([pa.array(packed, type_)[1:4], pa.array([], type_), pa.array(packed[:1], type_)])
    found = cells.cells_in(column)
    assert found == [*packed[1:4], packed[0]]
    assert cells.cells_in(column.chunk(0)) == found[:3]
    buffer = column.chunk(0).buffers()[2]
    begin = np.frombuffer(found[0], np.uint8).ctypes.data
    assert begin == buffer.address + len(packed[0])
