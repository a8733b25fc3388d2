"""Products of long, narrow matrices, added up in the registers of a processor: what a loop of numbers is not made into.

Four rows of a product and up to three vectors of its columns are worked on at a time. Their twelve sums stay in
registers however long the matrices are, and each number that is read counts three or four times. A vector is what 32
bytes hold; LLVM makes of it what the processor has.

Who changes this file removes what numba has cached of :mod:`dcrec_spark.kernels.loops.ridge`, of
:mod:`dcrec_spark.kernels.loops.poisson` and of :mod:`dcrec_spark.kernels.loops.pairs`: functions of other files are
part of that, and numba looks at its own file alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dcrec_spark.kernels.compiled import Numbers
from dcrec_spark.kernels.loops.compiling import compiled

ROWS, BYTES = 4, 32
# A vector of the last columns may reach so many numbers beyond them: matrices are as much wider.
BEYOND = 8
# Sums may be added up in any order, as in all loops.
_FAST = ("reassoc", "contract", "nsz")
_LINE = 64  # bytes that come from memory at once


@compiled
def add_products(target: Numbers, row: int, end: int, sign: float, left: Numbers, right: Numbers, length: int) -> None:
    """Add sign left' right to four rows of the target, from ``row`` on, in the columns from ``row`` to ``end``.

    Parameters
    ----------
    left, right : (at least length, as many columns as the target has), of the target's type. What stands in columns
        beyond ``end`` of the target is overwritten, as far as :data:`BEYOND`.
    """
    lanes = BYTES // target.itemsize
    col, vectors = row, (end - row + lanes - 1) // lanes
    while vectors > 4 or vectors == 3:
        _three(target, row, col, sign, left, right, length)
        col, vectors = col + 3 * lanes, vectors - 3
    while vectors > 1:  # four are twice two: one alone would wait for each of its sums
        _two(target, row, col, sign, left, right, length)
        col, vectors = col + 2 * lanes, vectors - 2
    if vectors == 1:
        _one(target, row, col, sign, left, right, length)


@compiled
def whole_lines(columns: int, size: int) -> int:
    """Return a width of so many columns or more, of so many bytes each: rows begin at the same place of a cache line.

    An odd number of lines: else numbers of a column would meet in the same places of the cache.
    """
    lines = (columns * size + _LINE - 1) // _LINE
    return (lines | 1) * _LINE // size


@intrinsic
def _fetch(typing: Any, matrix: Any, row: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        rows = _Matrix(context, builder, signature.args[0], arguments[0])
        byte, flag, zero = ir.IntType(8).as_pointer(), ir.IntType(32), ir.Constant(arguments[1].type, 0)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        start = builder.bitcast(rows.at(arguments[1], zero), byte)
        to_be_read = [ir.Constant(flag, n) for n in (0, 3, 1)]
        size = builder.mul(rows.width, ir.Constant(rows.width.type, rows.bytes))
        with cgutils.for_range_slice(builder, zero, size, ir.Constant(zero.type, _LINE)) as (offset, _):
            builder.call(prefetch, [builder.gep(start, [offset]), *to_be_read])
        return context.get_dummy_value()

    return (types.void(matrix, types.intp), generate) if matrix.layout == "C" else None


# Ask for a row of a matrix, so that it is there when it is read.
fetch: Any = _fetch


def _adding(vectors: int) -> Callable[..., None]:
    """Return ``add(target, row, col, sign, left, right, length)``, for four rows and so many vectors of columns."""

    @intrinsic
    def add(
        typing: Any, target: Any, row: Any, col: Any, sign: Any, left: Any, right: Any, length: Any
    ) -> tuple[Any, Any] | None:
        if not (target.mutable and target.layout == left.layout == right.layout == "C"):
            return None

        def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            kinds, (_, first, start, factor, *_, end) = signature.args, arguments
            sums, lefts, rights = (_Matrix(context, builder, kinds[n], arguments[n]) for n in (0, 4, 5))
            _generate(builder, sums, lefts, rights, (first, start, end), factor, vectors)
            return context.get_dummy_value()

        place = types.intp
        return types.void(target, place, place, target.dtype, left, right, place), generate

    function: Callable[..., None] = add
    return function


_three, _two, _one = (_adding(vectors) for vectors in (3, 2, 1))


class _Matrix:
    """A matrix in row order in code that is being written, and where its numbers and vectors stand."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder, self.data = builder, array.data
        self.width = cgutils.unpack_tuple(builder, array.shape)[1]
        self.bytes = kind.dtype.bitwidth // 8
        self.lanes = BYTES // self.bytes
        self.vector = ir.VectorType(context.get_data_type(kind.dtype), self.lanes)

    def at(self, row: Any, col: Any) -> Any:
        """Point to a number."""
        return self.builder.gep(self.data, [self.builder.add(self.builder.mul(row, self.width), col)])

    def vectors_at(self, row: Any, col: Any, vectors: int) -> list[Any]:
        """Point to so many vectors, one after the other."""
        first = self.builder.bitcast(self.at(row, col), self.vector.as_pointer())
        return [self.builder.gep(first, [ir.Constant(col.type, number)]) for number in range(vectors)]

    def load(self, pointer: Any) -> Any:
        """Read a vector, wherever it stands."""
        return self.builder.load(pointer, align=self.bytes)

    def filled_with(self, number: Any) -> Any:
        """Return a vector of one number."""
        undefined, place = ir.Constant(self.vector, ir.Undefined), ir.IntType(32)
        one = self.builder.insert_element(undefined, number, ir.Constant(place, 0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(place, self.lanes), None))


def _generate(
    builder: Any, target: _Matrix, left: _Matrix, right: _Matrix, where: Sequence[Any], sign: Any, vectors: int
) -> None:
    """Write the loop over the rows of left and right, the sums before it, and what becomes of them after it."""
    row, col, length = where
    nothing = ir.Constant(target.vector, None)
    sums = [[cgutils.alloca_once_value(builder, nothing) for _ in range(vectors)] for _ in range(ROWS)]
    with cgutils.for_range(builder, length) as loop:
        columns = [right.load(pointer) for pointer in right.vectors_at(loop.index, col, vectors)]
        for r, of_row in enumerate(sums):
            number = builder.load(left.at(loop.index, builder.add(row, ir.Constant(row.type, r))))
            factor = left.filled_with(number)
            for total, column in zip(of_row, columns, strict=True):
                product = builder.fmul(factor, column, flags=_FAST)
                builder.store(builder.fadd(builder.load(total), product, flags=_FAST), total)
    signs = target.filled_with(sign)
    for r, of_row in enumerate(sums):
        pointers = target.vectors_at(builder.add(row, ir.Constant(row.type, r)), col, vectors)
        for total, pointer in zip(of_row, pointers, strict=True):
            signed = builder.fmul(signs, builder.load(total), flags=_FAST)
            builder.store(builder.fadd(target.load(pointer), signed, flags=_FAST), pointer, align=target.bytes)
