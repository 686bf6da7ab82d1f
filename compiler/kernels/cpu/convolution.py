"""Geometry of a convolution for code generation: padded planes in which every stride is one.

An output row-major position p of a plane of `pitch` columns reads input position p + shift for
each kernel tap, whatever the strides: a stride of s splits the padded input into s x s phases.
Rows share their zero columns where the padding allows (the right border of a row is the left
border of the next), so that nearly every computed position is wanted.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any

from tvm import tirx

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.sizes import as_size, at_hint, expression, is_number
from compiler.tensors.arithmetic import maximum, minimum
from compiler.tensors.inequalities import least

LINE = 16
"""Elements of a cache line."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The axis of a convolution before its rows: every slice of the result is an image.

    A result adds up what the taps along the depth give, those outside the image left out.
    """

    image: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    output: int

    def first_tap(self, slice: Any) -> Any:
        """The first tap that is inside the image, of a slice of the result."""
        return self._taps_before(slice, self.pad)

    def last_tap(self, slice: Any) -> Any:
        """The tap after the last one that is inside the image."""
        return self._taps_before(slice, self.pad + self.image)

    def _taps_before(self, slice: Any, position: int) -> Any:
        """The taps at positions of the padded depth below one; at most all."""
        below = (position - slice * self.stride + self.dilation - 1) // self.dilation
        zero, all_ = (tirx.const(n, "int32") for n in (0, self.kernel))
        return tirx.max(zero, tirx.min(all_, below))

    def place(self, slice: Any, tap: Any) -> Any:
        """The slice of the image that a tap of a slice of the result reads."""
        return slice * self.stride + tap * self.dilation - self.pad

    @property
    def live_taps(self) -> int:
        """The taps inside the image, of all slices of the result."""
        places = (self.place(z, k) for z in range(self.output) for k in range(self.kernel))
        return sum(0 <= place < self.image for place in places)


@dataclass(frozen=True)
class Convolution:
    """A two-dimensional convolution; `kernel`, `strides` and the like are (vertical, horizontal).

    `pads` are those before the first row and column; how much follows the last ones is decided by
    `output`, the spatial extents of the result. In three dimensions there is a `depth` besides.
    """

    batch: int
    groups: int
    channels: int  # input channels of one group
    filters: int  # output channels of one group
    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    output: tuple[int, int]
    depth: Depth | None = None

    @property
    def multiplications(self) -> int:
        """Multiply-adds of the whole convolution."""
        filters = self.batch * self.groups * self.filters
        taps = self.depth.live_taps if self.depth else 1
        return filters * self.channels * taps * prod(self.kernel) * prod(self.output)

    @property
    def slices(self) -> int:
        """Slices of a channel of the input."""
        return self.depth.image if self.depth else 1

    @property
    def images(self) -> int:
        """Images of the result, every slice being one."""
        return self.batch * self.depth.output if self.depth else self.batch

    @property
    def depth_taps(self) -> int:
        """Kernel taps along the depth."""
        return self.depth.kernel if self.depth else 1

    @property
    def summands(self) -> int:
        """Slices of channels of one group that a result reads at most."""
        return self.channels * self.depth_taps

    @property
    def pointwise(self) -> bool:
        """Whether each output element reads slices of the input at its own position only."""
        return (
            self.kernel == (1, 1)
            and self.strides == (1, 1)
            and self.pads == (0, 0)
            and self.output == self.image
        )

    @cached_property
    def example(self) -> "Convolution":
        """The convolution of the example sizes, for costs."""

        def pair(extents: tuple[int, int]) -> tuple[int, int]:
            return at_hint(extents[0]), at_hint(extents[1])

        depth = self.depth
        if depth is not None:
            hints = {field.name: at_hint(getattr(depth, field.name)) for field in fields(depth)}
            depth = replace(depth, **hints)
        return replace(
            self,
            batch=at_hint(self.batch),
            image=pair(self.image),
            pads=pair(self.pads),
            output=pair(self.output),
            depth=depth,
        )

    @cached_property
    def planes(self) -> "Planes":
        """The padded, phase-split form of one input channel."""
        return Planes(self, _phases(self, 0), _phases(self, 1))


def _phases(conv: Convolution, axis: int) -> tuple[int, ...]:
    """The remainders modulo the stride of the input positions that the kernel's taps read."""
    offsets = (k * conv.dilations[axis] for k in range(conv.kernel[axis]))
    return tuple(sorted({offset % conv.strides[axis] for offset in offsets}))


@dataclass(frozen=True)
class Planes:
    """One input channel as `phases` planes of `rows` x `pitch` elements, which may be extents.

    Element (y, x) of phase (a, b) is input element (y * stride + a - pad, x * stride + b - pad),
    zero outside the image.
    """

    conv: Convolution
    row_phases: tuple[int, ...]
    column_phases: tuple[int, ...]

    def _extent(self, axis: int) -> int:
        conv = self.conv
        reach = (conv.kernel[axis] - 1) * conv.dilations[axis] // conv.strides[axis]
        return conv.output[axis] + reach

    @cached_property
    def shared(self) -> int:
        """Zero columns that the end of a row has in common with the beginning of the next, whatever
        the sizes are."""
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

    @property
    def pitch(self) -> int:
        """Columns of a plane."""
        return self._extent(1) - self.shared

    @property
    def rows(self) -> int:
        """Rows of a plane."""
        return self._extent(0)

    @property
    def phases(self) -> int:
        """Planes of one channel."""
        return len(self.row_phases) * len(self.column_phases)

    @property
    def regular(self) -> bool:
        """Whether the phases are the first remainders, without a gap."""
        rows, columns = self.row_phases, self.column_phases
        return rows == tuple(range(len(rows))) and columns == tuple(range(len(columns)))

    @cached_property
    def plane(self) -> int:
        """Elements from one plane to the next. Numbers are whole cache lines, but no memory pages,
        which would map a position of every plane to one cache set."""
        elements = self.rows * self.pitch + self.shared
        if not is_number(elements):
            return elements
        elements = LINE * ceil_div(elements, LINE)
        return elements + LINE if elements % 1024 == 0 else elements

    def inside(self, axis: int, phase: Any, extent: Any) -> tuple[Any, Any]:
        """The range of a phase's rows or columns, of which there are `extent`, in the image."""
        stride, pad, size = self._axis(axis)
        if isinstance(phase, int):
            first = as_size(minimum(extent, maximum(0, ceil_div(pad - phase, stride))))
            last = as_size(minimum(extent, ceil_div(size + pad - phase, stride)))
            return first, max(first, last) if is_number(first) and is_number(last) else last
        zero = tirx.const(0, "int32")
        most = expression(extent)
        first = tirx.floordiv(expression(pad) - phase + (stride - 1), stride)
        last = tirx.floordiv(expression(size + pad) - phase + (stride - 1), stride)
        return tirx.max(zero, tirx.min(first, most)), tirx.min(last, most)

    def shift(self, row: Any, column: int, dilations: tuple[int, int]) -> Any:
        """The position, relative to a result's, that a kernel tap reads in its channel's planes.

        The row may be symbolic if the row phases are one, or all remainders modulo the stride.
        """
        (down, right), (stride, _) = dilations, self.conv.strides
        phase = row * down % stride
        if isinstance(row, int) or len(self.row_phases) == 1:
            phase = self.row_phases.index(phase) if isinstance(row, int) else 0
        step, column_phase = divmod(column * right, self.conv.strides[1])
        plane = phase * len(self.column_phases) + self.column_phases.index(column_phase)
        return plane * self.plane + row * down // stride * self.pitch + step


def transposed_phases(
    stride: int, dilation: int, kernel: int, pad: int, extent: int
) -> list["TransposedPhase"]:
    """The output phases of a transposed convolution along one axis.

    Output element q * stride + phase sums input elements q + offset + j * dilation' times taps
    first + j * step, which is a convolution of stride one.
    """
    phases: list[TransposedPhase] = []
    for phase in range(min(stride, extent)):
        taps = [k for k in range(kernel) if (phase + pad - k * dilation) % stride == 0][::-1]
        offsets = [(phase + pad - k * dilation) // stride for k in taps]
        spacing = offsets[1] - offsets[0] if len(taps) > 1 else 1
        step = taps[1] - taps[0] if len(taps) > 1 else 1
        first, offset = (taps[0], offsets[0]) if taps else (0, 0)
        count = -((phase - extent) // stride)
        phases.append(
            TransposedPhase(
                phase=phase,
                count=count,
                taps=len(taps),
                first=first,
                step=step,
                offset=offset,
                spacing=spacing,
            )
        )
    return phases


@dataclass(frozen=True, slots=True)
class TransposedPhase:
    """Output elements of one remainder modulo the stride; see `transposed_phases`."""

    phase: int
    count: int
    taps: int
    first: int
    step: int
    offset: int
    spacing: int
