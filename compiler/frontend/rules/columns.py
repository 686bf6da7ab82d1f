"""Rules for operators that put windows back into an image: Col2Im and MaxUnpool."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.frontend.semantics.table import MAX_UNPOOL_OUTPUT_SHAPE
from compiler.frontend.semantics.windows import Windows
from compiler.frontend.unsupported import NeedsHost
from compiler.net.graph import Value
from compiler.net.operators import ShapeMismatch


@dataclass(frozen=True, slots=True)
class WindowTaps:
    """The taps of windows at as many places as `output` has, and the positions that they read."""

    windows: Windows
    output: Sequence[int]

    @property
    def kernel(self) -> Sequence[int]:
        """The taps along each axis."""
        return self.windows.kernel

    def along(self, axis: int) -> np.ndarray:
        """The positions on an axis that its taps read for its results: [taps, results]."""
        windows = self.windows
        results = np.arange(self.output[axis])
        taps = np.arange(self.kernel[axis]).reshape(-1, 1)
        starts = results * windows.strides[axis] - windows.pads[axis]
        return taps * windows.dilations[axis] + starts

    def positions(self) -> list[np.ndarray]:
        """For each axis the positions of all taps at all results: [taps, results]."""
        taps, results = np.indices(self.kernel), np.indices(self.output)
        return [
            self.along(axis)[taps[axis].reshape(-1, 1), results[axis].reshape(1, -1)]
            for axis in range(len(self.kernel))
        ]


@rule("Col2Im")
def rewrite_columns_to_image(call: Call) -> list[Value]:
    """The sum of the columns' elements that each pixel has, by a table of their places."""
    image, block = (tuple(int(n) for n in call.content(i)) for i in (1, 2))
    x = in_float32(call, call.data)
    batch, rows, columns = x.shape
    channels = rows // prod(block)
    taps = prod(block)
    windows = Windows.of(call, block)
    table = _places(call, WindowTaps(windows, windows.counts(image)), image)
    if 0 in (*x.shape, *table.shape):
        return [call.filled(0, (batch, channels, *image), call.data.dtype)]
    flat = call.reshaped(x, [batch, channels, taps * columns])
    zero = call.builder.constant(0, x.dtype)
    padded = call.one("Pad", flat, zero, pads=[0, 0, 0, 0, 0, 1])
    terms = call.one("Gather", padded, call.builder.constant(table, "int64"), axis=2)
    total = call.one("ReduceSum", terms, axes=[2], keepdims=0)
    return [in_type(call, call.reshaped(total, [batch, channels, *image]), call.data.dtype)]


def _places(call: Call, taps: WindowTaps, image: Sequence[int]) -> np.ndarray:
    """For each pixel the elements of the flat columns that it sums, and then their end.

    A pixel is read by a tap at a result if each of its indices is, so that the table is put
    together from one of each axis and nothing is larger than itself. Raises NeedsHost if a few
    pixels sum so many that the table would be many times the columns.
    """
    rank = len(image)
    end = prod(taps.kernel) * prod(taps.output)
    parts = [_elements_along(taps, axis, size) for axis, size in enumerate(image)]
    counts = [int(number.max(initial=-1)) + 1 for number, *_ in parts]
    if not call.builder.folds(8 * prod(counts) * prod(image), 8 * end):
        reason = f"its {prod(image):,} pixels need a table of {prod(counts):,} elements each"
        raise NeedsHost(reason, "use blocks whose strides and dilations differ less")
    table: np.ndarray = np.zeros((*counts, *image), np.int64)
    for axis, (number, index, share) in enumerate(parts):
        part = np.full((counts[axis], image[axis]), end)
        part[number, index] = share
        table += part.reshape([n if i % rank == axis else 1 for i, n in enumerate(table.shape)])
    table = np.minimum(table, end, out=table).reshape(prod(counts), prod(image))
    table.sort(axis=0)
    return table


def _elements_along(
    taps: WindowTaps, axis: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The shares of an axis in the elements that each of its indices sums.

    Each has a number among those of its index, the index, and its place in the flat columns.
    """
    positions = taps.along(axis)
    inside: np.ndarray = (positions >= 0) & (positions < size)
    tap, result = np.nonzero(inside)
    index = positions[inside]
    order = np.argsort(index, kind="stable")
    index, tap, result = index[order], tap[order], result[order]
    number: np.ndarray = np.arange(len(index)) - np.searchsorted(index, index)
    per_tap = prod(taps.kernel[axis + 1 :]) * prod(taps.output)
    return number, index, tap * per_tap + result * prod(taps.output[axis + 1 :])


@rule("MaxUnpool")
def rewrite_max_unpool(call: Call) -> list[Value]:
    """Elements scattered into zeros, which may be padded at their ends."""
    x = call.data
    index = call.operand(1)
    windows = Windows.of(call, call.attributes["kernel_shape"])
    wanted = call.known(2)
    own = windows.unpooled(x.shape)
    if MAX_UNPOOL_OUTPUT_SHAPE in call.onnxruntime and wanted is not None:
        own = tuple(int(size) for size in wanted)
    call.check_indices(1, 0, prod(own) - 1)
    zeros = call.filled(0, [prod(own)], x.dtype)
    flat = [call.reshaped(value, [-1]) for value in (index, x)]
    result = call.reshaped(call.one("ScatterElements", zeros, *flat, axis=0), own)
    if wanted is None:
        return [result]
    after = [int(n) - o for n, o in zip(wanted, own, strict=True)]
    if min(after, default=0) < 0:
        raise ShapeMismatch(f"its output {wanted.tolist()} is smaller than {own}")
    return [call.one("Pad", result, call.scalar(0), pads=[*[0] * len(after), *after])]
