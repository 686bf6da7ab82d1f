"""Rules for operators that put windows back into an image: Col2Im and MaxUnpool."""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler.frontend.graph import NeedsHost, Value
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.frontend.sources.sampling import unpooled
from compiler.net.operators import ShapeMismatch


class WindowTaps:
    """The taps of a convolution's kernel, and the positions that they read."""

    def __init__(self, call: Call, kernel: Sequence[int], output: Sequence[int]) -> None:
        self.kernel, self.output = tuple(kernel), tuple(output)
        rank = len(self.kernel)
        self.strides = call.attributes.get("strides") or [1] * rank
        self.dilations = call.attributes.get("dilations") or [1] * rank
        self.pads = (call.attributes.get("pads") or [0] * 2 * rank)[:rank]

    def positions(self) -> list[np.ndarray]:
        """For each axis the positions of all taps at all results: [taps, results]."""
        taps, places = np.indices(self.kernel), np.indices(self.output)
        return [
            taps[axis].reshape(-1, 1) * self.dilations[axis]
            + places[axis].reshape(1, -1) * self.strides[axis]
            - self.pads[axis]
            for axis in range(len(self.kernel))
        ]


@rule("Col2Im")
def rewrite_columns_to_image(call: Call) -> list[Value]:
    """The sum of the columns' elements that each pixel has, by a table of their places."""
    image, block = (tuple(int(n) for n in call.content(i)) for i in (1, 2))
    x = in_float32(call, call.data)
    batch, rows, columns = x.shape
    channels, taps = rows // prod(block), prod(block)
    table = _places(call, WindowTaps(call, block, _counts(call, image, block)), image)
    if 0 in (*x.shape, *table.shape):
        return [call.filled(0, (batch, channels, *image), call.data.dtype)]
    flat = call.reshaped(x, [batch, channels, taps * columns])
    zero = call.builder.constant(0, x.dtype)
    padded = call.one("Pad", flat, call.vector([0, 0, 0, 0, 0, 1]), zero)
    terms = call.one("Gather", padded, call.builder.constant(table, "int64"), axis=2)
    total = call.one("ReduceSum", terms, call.vector([2]), keepdims=0)
    return [in_type(call, call.reshaped(total, [batch, channels, *image]), call.data.dtype)]


def _counts(call: Call, image: Sequence[int], block: Sequence[int]) -> list[int]:
    """The blocks along each axis."""
    rank = len(image)
    pads = call.attributes.get("pads") or [0] * 2 * rank
    strides = call.attributes.get("strides") or [1] * rank
    dilations = call.attributes.get("dilations") or [1] * rank
    full = [n + pads[i] + pads[rank + i] for i, n in enumerate(image)]
    sizes = zip(full, block, strides, dilations, strict=True)
    return [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in sizes]


def _places(call: Call, taps: WindowTaps, image: Sequence[int]) -> np.ndarray:
    """For each pixel the elements of the flat columns that it sums, and then their end.

    Raises NeedsHost if a few pixels sum so many that the table would be many times the columns.
    """
    # Several arrays of all taps at all results are held at once, whatever table comes of them.
    held = 8 * (2 * len(image) + 6) * prod(taps.kernel) * prod(taps.output)
    if not call.builder.folds(held, 0):
        raise NeedsHost(f"its table takes {held:,} bytes to make", "use fewer or smaller blocks")
    positions: np.ndarray = np.stack([p.reshape(-1) for p in taps.positions()])
    sizes = np.array(image).reshape(-1, 1)
    inside: np.ndarray = np.all((positions >= 0) & (positions < sizes), axis=0, keepdims=True)[0]
    elements: np.ndarray = np.nonzero(inside)[0]
    chosen = tuple(np.asarray(line)[inside] for line in positions)
    pixels = np.asarray(np.ravel_multi_index(chosen, tuple(image)))
    order = np.argsort(pixels, kind="stable")
    pixels, elements = pixels[order], elements[order]
    number: np.ndarray = np.arange(len(pixels)) - np.searchsorted(pixels, pixels)
    most = int(number.max()) + 1 if number.size else 0
    if not call.builder.folds(8 * most * prod(image), 8 * positions.shape[1]):
        reason = f"its {prod(image):,} pixels need a table of {most:,} elements each"
        raise NeedsHost(reason, "use blocks whose strides and dilations differ less")
    table = np.full((most, prod(image)), positions.shape[1])
    table[number, pixels] = elements
    return table


@rule("MaxUnpool")
def rewrite_max_unpool(call: Call) -> list[Value]:
    """Elements scattered into zeros, which may be padded at their ends."""
    x, index = call.data, call.operand(1)
    kernel = call.attributes["kernel_shape"]
    strides = call.attributes.get("strides") or [1] * len(kernel)
    pads = call.attributes.get("pads") or [0] * 2 * len(kernel)
    own = unpooled(x.shape, kernel, strides, pads)
    zeros = call.filled(0, [prod(own)], x.dtype)
    flat = [call.reshaped(value, [-1]) for value in (index, x)]
    result = call.reshaped(call.one("ScatterElements", zeros, *flat, axis=0), own)
    wanted = call.known(2)
    if wanted is None:
        return [result]
    after = [int(n) - o for n, o in zip(wanted, own, strict=True)]
    if min(after, default=0) < 0:
        raise ShapeMismatch(f"its output {wanted.tolist()} is smaller than {own}")
    pads = call.vector([*[0] * len(after), *after])
    return [call.one("Pad", result, pads, call.builder.constant(0, x.dtype))]
