"""Planes of a convolution whose image's sizes a run decides, and the launch that fills them."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.ir import Var
from tvm.tirx import Stmt

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import Convolution, Planes
from compiler.kernels.cpu.operands import ConvOperands
from compiler.kernels.cpu.planes import UNROLLED_PHASES
from compiler.kernels.sizes import as_size, expression, is_number
from compiler.kernels.tir.loops import loop_over, sequence, vector_loop
from compiler.tensors.arithmetic import maximum, minimum
from compiler.tensors.inequalities import least


class SizedPlanes(Planes):
    """One input channel as planes whose rows and columns are extents."""

    @cached_property
    def shared(self) -> int:
        """Zero columns that rows have in common, whatever the sizes are."""
        (stride, pad, width), columns = self._axis(1), self._extent(1)
        spare = columns - self.conv.output[1]
        if not is_number(pad):
            return 0
        for phase in self.column_phases:
            left = max(0, ceil_div(pad - phase, stride))
            right = least(columns - ceil_div(width + pad - phase, stride))
            spare = min(spare, left, int(right) if right > 0 else 0)
        return spare

    def _axis(self, axis: int) -> tuple[int, int, int]:
        return self.conv.strides[axis], self.conv.pads[axis], self.conv.image[axis]

    @cached_property
    def plane(self) -> int:
        """Elements from one plane to the next."""
        return self.rows * self.pitch + self.shared

    def inside(self, axis: int, phase: Any, extent: Any) -> tuple[Any, Any]:
        """The range of a phase's rows or columns, of which there are `extent`, in the image."""
        stride, pad, size = self._axis(axis)
        if isinstance(phase, int):
            first = as_size(minimum(extent, maximum(0, ceil_div(pad - phase, stride))))
            last = as_size(minimum(extent, ceil_div(size + pad - phase, stride)))
            return first, last
        zero, most = tirx.const(0, "int32"), expression(extent)
        first = tirx.floordiv(expression(pad) - phase + (stride - 1), stride)
        last = tirx.floordiv(expression(size + pad) - phase + (stride - 1), stride)
        return tirx.max(zero, tirx.min(first, most)), tirx.min(last, most)


def fill_sized_channel(
    planes: SizedPlanes,
    source: ConvOperands,
    target: Var,
    lead: Sequence[Any],
    base: Any,
    lanes: int,
) -> Stmt:
    """Write the planes of one slice of a channel, which `lead` names, from `base` on."""

    def plane(a: Any, b: Any, start: Any) -> Stmt:
        return _fill_plane(planes, source, target, lead, (a, b), start, lanes)

    count = len(planes.column_phases)
    if planes.phases > UNROLLED_PHASES and planes.regular:
        return loop_over(
            "phase",
            planes.phases,
            lambda phase: plane(phase // count, phase % count, base + phase * planes.plane),
        )
    pairs = [(a, b) for a in planes.row_phases for b in planes.column_phases]
    return sequence([plane(a, b, base + i * planes.plane) for i, (a, b) in enumerate(pairs)])


def _fill_plane(
    planes: SizedPlanes,
    source: ConvOperands,
    target: Var,
    lead: Sequence[Any],
    phase: tuple[Any, Any],
    base: Any,
    lanes: int,
) -> Stmt:
    """Write a plane: rows of the image between columns of padding, and rows of padding."""
    conv: Convolution = planes.conv
    top, bottom = planes.inside(0, phase[0], planes.rows)
    left, right = planes.inside(1, phase[1], planes.pitch)

    def store(place: Any, value: Any) -> Stmt:
        return tirx.BufferStore(target, value, [place])

    def padding(first: Any, count: Any) -> list[Stmt]:
        if isinstance(count, int) and count <= 0:
            return []
        return [vector_loop(count, lanes, lambda x: store(first + x, source.padding))]

    def row(y: Any) -> Stmt:
        start = base + y * planes.pitch
        own = y * conv.strides[0] + phase[0] - conv.pads[0]

        def copy(x: Any) -> Stmt:
            column = (x + left) * conv.strides[1] + phase[1] - conv.pads[1]
            return store(start + left + x, source.element(lead, own, column))

        inner = loop_over("column", right - left, copy)
        whole = [*padding(start, left), inner, *padding(start + right, planes.pitch - right)]
        empty = padding(start, planes.pitch)
        inside = tirx.all(y >= expression(top), y < expression(bottom))
        return tirx.IfThenElse(inside, sequence(whole), sequence(empty))

    rows = loop_over("row", planes.rows, row)
    return sequence([rows, *padding(base + planes.rows * planes.pitch, planes.shared)])
