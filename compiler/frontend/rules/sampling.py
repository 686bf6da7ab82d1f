"""Rules for operators that read an image at computed positions: gathers weighted by distances.

Positions are float tensors, one for each spatial axis, which broadcast to [batch, 1, positions];
an image is flat, [batch, channels, pixels]. Reads outside it are clamped, then masked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.frontend.semantics.table import AFFINE_GRID_ONE_PIXEL
from compiler.frontend.unsupported import NeedsHost, Unsupported
from compiler.net.graph import Value

_CUBIC = -0.75
"""The coefficient of cubic interpolation."""

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Old names of modes."""


@dataclass(frozen=True)
class Image:
    """A flat image of `sizes`, and how positions outside of it are read."""

    call: Call
    pixels: Value
    sizes: tuple[int, ...]
    padding: str = "zeros"
    align_corners: bool = False

    def number(self, value: float) -> Value:
        """A constant of the type that is computed in."""
        return self.call.builder.constant(value, self.pixels.dtype)

    def op(self, type: str, *operands: Value | float) -> Value:
        """An operator on tensors and numbers."""
        given = [o if isinstance(o, Value) else self.number(o) for o in operands]
        return self.call.one(type, *given)

    def inside(self, position: Value, size: int) -> Value:
        """A position moved into the image if it is to be read there."""
        if self.padding == "border":
            return self.clamped(position, size)
        if self.padding == "reflection":
            # A position reflected at the borders until it is between them.
            low, high = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
            if high <= low:
                return self.op("Mul", self.clamped(position, 1), 0.0)
            distance = self.op("Abs", self.op("Sub", position, low))
            period = self.number(2 * (high - low))
            rest = self.call.one("Mod", distance, period, fmod=1)
            return self.op("Add", self.op("Min", rest, self.op("Sub", period, rest)), low)
        return position

    def clamped(self, position: Value, size: int) -> Value:
        """A position between the first pixel and the last; NaN is the first."""
        positive = self.op("GreaterOrEqual", position, 0.0)
        return self.op("Where", positive, self.op("Min", position, size - 1), 0.0)

    def read(self, positions: Sequence[Value]) -> Value:
        """The pixels at whole positions, zeros outside the image: [batch, channels, positions]."""
        places = [self.inside(p, n) for p, n in zip(positions, self.sizes, strict=True)]
        index: Value | None = None
        outside: Value | None = None
        for place, size in zip(places, self.sizes, strict=True):
            whole = in_type(self.call, self.clamped(place, size), "int64")
            index = whole if index is None else self._next(index, whole, size)
            if self.padding == "zeros":
                held = self.op("Equal", place, self.clamped(place, size))
                outside = held if outside is None else self.op("And", outside, held)
        assert index is not None
        read = gathered(self.call, self.pixels, index)
        return read if outside is None else self.op("Where", outside, read, 0.0)

    def _next(self, index: Value, place: Value, size: int) -> Value:
        rows = self.call.one("Mul", index, self.call.builder.constant(size, "int64"))
        return self.call.one("Add", rows, place)

    def interpolated(self, positions: Sequence[Value], mode: str) -> Value:
        """The image at any positions."""
        if mode == "nearest":
            return self.read([self.op("Round", position) for position in positions])
        taps = [self.taps(position, mode) for position in positions]
        return self.summed(taps)

    def summed(self, taps: Sequence[Sequence[tuple[Value, Value]]]) -> Value:
        """The sum over all combinations of the axes' pixels and weights."""
        total: Value | None = None
        for choice in product(*taps):
            value = self.read([place for place, _ in choice])
            for _, weight in choice:
                value = self.op("Mul", value, weight)
            total = value if total is None else self.op("Add", total, value)
        assert total is not None
        return total

    def taps(self, position: Value, mode: str) -> list[tuple[Value, Value]]:
        """Pixels along an axis, and their weights."""
        first = self.op("Floor", position)
        far = self.op("Sub", position, first)
        near = self.op("Sub", 1.0, far)
        if mode == "linear":
            return [(first, near), (self.op("Add", first, 1.0), far)]
        weights = [self._outer(self.op("Add", far, 1.0)), self._inner(far)]
        weights += [self._inner(near), self._outer(self.op("Add", near, 1.0))]
        places = [self.op("Add", first, float(step)) for step in (-1, 0, 1, 2)]
        return list(zip(places, weights, strict=True))

    def _inner(self, x: Value) -> Value:
        """The cubic weight of a pixel less than one away: ((a + 2) x - (a + 3)) x^2 + 1."""
        slope = self.op("Sub", self.op("Mul", x, _CUBIC + 2), _CUBIC + 3)
        return self.op("Add", self.op("Mul", self.op("Mul", slope, x), x), 1.0)

    def _outer(self, x: Value) -> Value:
        """The cubic weight of a pixel one to two away: ((a x - 5 a) x + 8 a) x - 4 a."""
        sum = self.op("Sub", self.op("Mul", x, _CUBIC), 5 * _CUBIC)
        sum = self.op("Add", self.op("Mul", sum, x), 8 * _CUBIC)
        return self.op("Sub", self.op("Mul", sum, x), 4 * _CUBIC)


def gathered(call: Call, pixels: Value, index: Value) -> Value:
    """Elements of [batch, channels, pixels] at [batch, 1, positions], the same of all channels."""
    shape = [*pixels.shape[:-1], index.shape[-1]]
    return call.one("GatherElements", pixels, call.expanded(index, shape), axis=len(shape) - 1)


def floating(call: Call, value: Value) -> Value:
    """A tensor of floats in at least 32 bits; integers become floats on the host only."""
    if "float" in value.dtype:
        return in_float32(call, value)
    if "int" not in value.dtype and value.dtype != "bool":
        raise Unsupported(f"its input is {value.dtype}", "cast it to float32")
    if value.array is None:
        raise NeedsHost(f"its input is {value.dtype}", "cast it to float32")
    return in_type(call, value, "float64")


def component(call: Call, value: Value, number: int, axis: int) -> Value:
    """The tensor at one index of an axis, without that axis."""
    return call.one("Gather", value, call.builder.constant(number, "int64"), axis=axis)


@rule("GridSample")
def rewrite_grid_sample(call: Call) -> list[Value]:
    """Positions from -1 to 1, the last axis first, nearest, linear or cubic."""
    x = floating(call, call.data)
    sizes = call.data.shape[2:]
    named = str(call["mode"])
    mode = _MODES.get(named, named)
    align = bool(call["align_corners"])
    grid = in_type(call, call.operand(1), x.dtype)
    batch, channels, *_ = x.shape
    outer = grid.shape[1:-1]
    if 0 in (*x.shape, *grid.shape):
        return [call.filled(0, (batch, channels, *outer), call.data.dtype)]
    padding = call["padding_mode"]
    flat = call.reshaped(x, [batch, channels, prod(sizes)])
    image = Image(call, flat, sizes, padding, align)
    positions: list[Value] = []
    for axis, size in enumerate(sizes):
        own = component(call, grid, len(sizes) - 1 - axis, grid.rank - 1)
        above = image.op("Add", call.reshaped(own, [batch, 1, prod(outer)]), 1.0)
        if image.align_corners:
            position = image.op("Mul", image.op("Div", above, 2.0), size - 1.0)
        else:
            position = image.op(
                "Div", image.op("Sub", image.op("Mul", above, float(size)), 1.0), 2.0
            )
        if mode == "nearest":
            position = image.op("Round", position)
        # PyTorch and onnxruntime move only the pixels of a polynomial, onnx's reference its middle.
        positions.append(position if mode == "cubic" else image.inside(position, size))
    result = call.reshaped(image.interpolated(positions, mode), [batch, channels, *outer])
    return [in_type(call, result, call.data.dtype)]


@rule("AffineGrid")
def rewrite_affine_grid(call: Call) -> list[Value]:
    """A GEMM of the positions of all pixels, the last axis first, by the transformations."""
    theta = floating(call, call.data)
    size = [int(n) for n in call.content(1)]
    batch = size[0]
    spatial = size[2:]
    align = bool(call["align_corners"])
    lines = [_line(n, align) for n in spatial]
    if AFFINE_GRID_ONE_PIXEL in call.onnxruntime:
        lines = [np.ones(1) if n == 1 else line for n, line in zip(spatial, lines, strict=True)]
    # Operators on the positions of each axis: they are folded as far as the result is small.
    columns = [
        call.builder.constant(line.reshape(-1, *[1] * (len(spatial) - axis)), theta.dtype)
        for axis, line in enumerate(lines)
    ]
    columns = [*columns[::-1], call.builder.constant(np.ones(1), theta.dtype)]
    full = (call.expanded(column, [*spatial, 1]) for column in columns)
    whole = call.one("Concat", *full, axis=-1)
    base = call.reshaped(whole, [prod(spatial), len(spatial) + 1])
    turned = call.one("Transpose", theta, perm=[0, 2, 1])
    grid = call.reshaped(call.one("MatMul", base, turned), [batch, *spatial, len(spatial)])
    return [in_type(call, grid, call.data.dtype)]


def _line(size: int, align_corners: bool) -> np.ndarray:
    """The positions of an axis's pixels from -1 to 1."""
    if align_corners:
        return np.linspace(-1, 1, size)
    return (2 * np.arange(size) + 1) / max(size, 1) - 1
