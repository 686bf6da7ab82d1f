"""Lowerings of operators that move elements, by their maps."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy
from tvm import te, tirx

from compiler.kernels.group import TensorInfo
from compiler.kernels.ops.common import cast, clamped, safe_index
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.tables import table_element
from compiler.kernels.sizes import extent_constant, is_number
from compiler.net.maps import Algebra, AxisRead, Index, Map, affine_indices, axis_reads, covered
from compiler.net.operators import KINDS, Kind
from compiler.net.operators.movement import MOVEMENT, maps_of
from compiler.tensors.extents import Extent

_IN_TURN = 64
"""Up to so many parts of a result are compared with in turn, more by bisection."""


class _Expressions(Algebra):
    """Indices as expressions of TVM; those that data hold are kept inside."""

    def __init__(self, context: Context) -> None:
        self._operands = {
            i: context.tensor(i) for i in range(len(context.inputs)) if context.has(i)
        }

    def element(self, operand: int, at: Sequence[Index]) -> Any:
        return self._operands[operand](*at)

    def index_at(self, operand: int, at: Sequence[Index], extent: int) -> Index:
        return safe_index(self.element(operand, at), extent)

    def length_at(self, operand: int, at: Sequence[Index], most: int) -> Index:
        return clamped(self.element(operand, at), most)

    def entry(self, table: numpy.ndarray, position: Index) -> Index:
        return table_element(table, position, "int32")

    def select(self, condition: Any, then: Index, otherwise: Index) -> Index:
        return tirx.Select(condition, then, otherwise)

    def smaller(self, left: Index, right: Index) -> Index:
        return tirx.min(left, right)

    def larger(self, left: Index, right: Index) -> Index:
        return tirx.max(left, right)


@lowering(*(name for name in sorted(MOVEMENT) if KINDS[name] is Kind.INJECTIVE))
def lower_moved(context: Context) -> list[te.Tensor]:
    """Each element of each result, read where its map says."""
    maps = maps_of(context, [output.shape for output in context.outputs])
    algebra = _Expressions(context)

    def result(maps: Sequence[Map], output: TensorInfo) -> te.Tensor:
        def body(*indices: Any) -> Any:
            if len(maps) > 1:
                return _of_parts(context, algebra, maps, indices)
            return _element(context, algebra, maps[0], indices)

        empty = not maps or context.operand(maps[0].operand).elements == 0
        if output.elements == 0 or (empty and not maps[0].partial):
            return te.compute(output.shape, lambda *_: tirx.const(0, output.dtype), name="zeros")
        return te.compute(output.shape, body, name=context.type)

    return [result(own, output) for own, output in zip(maps, context.outputs, strict=True)]


def _element(context: Context, algebra: _Expressions, map: Map, indices: Sequence[Any]) -> Any:
    """The element of a result that has one map."""
    dtype = context.output.dtype
    at = map.at(algebra, indices)
    element = algebra.element(map.operand, at)
    if map.where is not None:
        return tirx.Select(map.where(indices), element, tirx.const(0, dtype))
    tests = _tests(context, map, at) if map.partial else []
    if not tests:
        return element
    fill = tirx.const(0, dtype) if map.fill is None else context.element(map.fill, (0,))
    return tirx.if_then_else(tirx.all(*tests), element, cast(fill, dtype))


def _tests(context: Context, map: Map, at: Sequence[Any]) -> list[Any]:
    """The conditions of an index inside the operand, without those that always hold."""
    affine = affine_indices(map, context.output.shape)
    assert affine is not None, "a partial map is affine"
    tests: list[Any] = []
    for index, bounds, extent in zip(at, affine, context.shape(map.operand), strict=True):
        tests += [index >= 0] if bounds.low < 0 else []
        tests += [index < extent] if bounds.high >= extent else []
    return tests


def _of_parts(
    context: Context, algebra: _Expressions, maps: Sequence[Map], indices: Sequence[Any]
) -> Any:
    """The element of a result whose parts along an axis are of several operands."""
    boxes: list[list[tuple[Extent, Extent]]] = []
    for map in maps:
        reads = axis_reads(map, context.output.shape)
        assert reads is not None, "a partial map is affine, with steps of 1"
        boxes.append(_box(reads, context.shape(map.operand), context.output.shape))
    pairs = [*enumerate(zip(*boxes[:2], strict=True))]
    # Along other axes they have one size, of which a condition may say so, and not its extents.
    starts = [axis for axis, (x, y) in pairs if x[0] != y[0]]
    axis = starts[0] if starts else next(axis for axis, (x, y) in pairs if x != y)
    assert all(x[axis][1] == y[axis][0] for x, y in pairwise(boxes)), "parts in order"

    def part(first: int, last: int) -> Any:
        if first == last:
            return algebra.element(maps[first].operand, maps[first].at(algebra, indices))
        cut = first if last - first < _IN_TURN else (first + last) // 2
        before = indices[axis] < boxes[cut][axis][1]
        return tirx.if_then_else(before, part(first, cut), part(cut + 1, last))

    return part(0, len(maps) - 1)


def _box(
    reads: Sequence[AxisRead], operand: tuple[int, ...], shape: tuple[int, ...]
) -> list[tuple[Extent, Extent]]:
    """The first index on each axis of a result that a map reads, and the one after the last."""
    if all(is_number(extent) for extent in (*operand, *shape)):
        return [(inside.start, inside.stop) for inside in covered(reads, operand, shape)]
    box: list[tuple[Extent, Extent]] = [(0, extent) for extent in shape]
    for read, extent in zip(reads, operand, strict=True):
        if read.axis is not None and -read.start >= 0:
            box[read.axis] = (-read.start, extent - read.start)
    return box


@lowering("OneHot")
def lower_one_hot(context: Context) -> te.Tensor:
    """`on` where the index equals the position along a new axis, else `off`."""
    indices, values = context.tensor(0), context.tensor(1)
    axis: int = context["axis"]
    depth = context.output.shape[axis]

    def body(*i: Any) -> Any:
        index = indices(*i[:axis], *i[axis + 1 :])
        index = index.astype("int64")
        index = tirx.Select(
            index < tirx.const(0, "int64"), index + extent_constant(depth, "int64"), index
        )
        return tirx.Select(tirx.EQ(index, i[axis].astype("int64")), values(1), values(0))

    return te.compute(context.output.shape, body, name="OneHot")
