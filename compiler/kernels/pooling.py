"""Lowerings of pooling, and the windows that pooling and convolution share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy
from tvm import te, tirx

from compiler.kernels.elementwise import absolute, cast, is_float, wide
from compiler.kernels.injective import constant_padded
from compiler.kernels.lowering import Context, flatten_index, lowering
from compiler.kernels.mathematics import call
from compiler.kernels.reduction import (
    Reducer,
    Scalar,
    finished,
    lowest,
    max_reducer,
    reduce_axes,
    sum_reducer,
)
from compiler.kernels.tables import table_element


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial axes of an operator."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def at(self, place: Sequence[Any], offset: Sequence[Any]) -> list[Any]:
        """The position in the padded source of a window's element."""
        steps = zip(place, self.strides, offset, self.dilations, strict=True)
        return [p * s + o * d for p, s, o, d in steps]


def window_of(context: Context, kernel: Sequence[int]) -> Window:
    """The window of a convolution or pooling, `auto_pad` and `ceil_mode` resolved.

    The padding behind reaches as far as the last window, which may be beyond the model's.
    """
    spatial, places = context.info(0).shape[2:], context.output.shape[2:]
    rank = len(spatial)
    strides = tuple(context.attribute("strides") or [1] * rank)
    dilations = tuple(context.attribute("dilations") or [1] * rank)
    reach = [
        (p - 1) * s + (k - 1) * d + 1
        for p, s, k, d in zip(places, strides, kernel, dilations, strict=True)
    ]
    missing = [max(0, r - n) for r, n in zip(reach, spatial, strict=True)]
    mode = context.attribute("auto_pad", "NOTSET")
    before = [0] * rank
    if mode == "SAME_UPPER":
        before = [m // 2 for m in missing]
    elif mode == "SAME_LOWER":
        before = [m - m // 2 for m in missing]
    elif mode in ("NOTSET", ""):
        before = list((context.attribute("pads") or [0] * rank)[:rank])
    after = [max(0, r - n - b) for r, n, b in zip(reach, spatial, before, strict=True)]
    return Window(tuple(kernel), strides, dilations, tuple(before), tuple(after))


def padded(tensor: te.Tensor, window: Window, fill: Scalar) -> te.Tensor:
    """The source with its window's padding on the spatial axes."""
    shape = [int(n) for n in tensor.shape]
    lead = len(shape) - len(window.kernel)
    before = [0] * lead + list(window.before)
    after = [0] * lead + list(window.after)
    if not any(before) and not any(after):
        return tensor
    full = [b + n + a for b, n, a in zip(before, shape, after, strict=True)]
    return te.compute(
        tuple(full),
        lambda *i: constant_padded(tensor, i, before, shape, full, fill),
        name="padded",
        attrs={"keep": 1},
    )


def _pooled(
    context: Context, data: te.Tensor, window: Window, fill: Scalar,
    before: Callable[[Scalar], Scalar], reducer: Reducer, dtype: str,
) -> te.Tensor:  # fmt: skip
    source = padded(data, window, fill)
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(window.kernel)]

    def body(n: Any, c: Any, *place: Any) -> Any:
        value = cast(source(n, c, *window.at(place, offsets)), dtype)
        return reducer(before(value), axis=offsets)

    return te.compute(context.output.shape, body, name=context.operator.type)


def _converted(tensor: te.Tensor, dtype: str) -> te.Tensor:
    if str(tensor.dtype) == dtype:
        return tensor
    return te.compute(tensor.shape, lambda *i: cast(tensor(*i), dtype), name="converted")


def _bounded(tensor: te.Tensor) -> te.Tensor:
    """A tensor of a type of which TVM knows the least value: bfloat16 becomes float32."""
    return _converted(tensor, "float32") if str(tensor.dtype) == "bfloat16" else tensor


@lowering("MaxPool")
def max_pool(context: Context) -> list[te.Tensor]:
    """The largest element of each window; its position as the second result."""
    window = window_of(context, context.attribute("kernel_shape"))
    dtype = wide(context.output.dtype)
    data = _bounded(context.tensor(0))
    fill = lowest(str(data.dtype))
    largest = _pooled(context, data, window, fill, lambda x: x, max_reducer, dtype)
    results = [_converted(largest, context.output.dtype)]
    if len(context.outputs) > 1 and context.outputs[1].dtype:
        results.append(_max_pool_positions(context, window))
    return results


def _max_pool_positions(context: Context, window: Window) -> te.Tensor:
    """The flat position in the source of each window's largest element."""
    data, shape = _bounded(context.tensor(0)), context.info(0).shape
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(window.kernel)]
    dtype = str(data.dtype)
    minus, worst = tirx.const(-1, "int64"), lowest(dtype)

    def combine(a: Any, b: Any) -> Any:
        first = tirx.all(tirx.EQ(b[1], a[1]), tirx.any(b[0] < a[0], a[0] < 0))
        take = tirx.all(b[0] >= 0, tirx.any(a[0] < 0, b[1] > a[1], first))
        return tirx.Select(take, b[0], a[0]), tirx.Select(take, b[1], a[1])

    reducer = te.comm_reducer(combine, lambda *_: (minus, worst), name="position")
    order = list(range(len(window.kernel)))
    if context.attribute("storage_order", 0):
        order = order[::-1]

    def body(n: Any, c: Any, *place: Any) -> Any:
        at = [x - b for x, b in zip(window.at(place, offsets), window.before, strict=True)]
        inside = tirx.all(
            *[t for x, size in zip(at, shape[2:], strict=True) for t in (x >= 0, x < size)]
        )
        pixel = flatten_index([at[i] for i in order], [shape[2 + i] for i in order])
        plane = (n * shape[1] + c) * prod(shape[2:])
        position = tirx.Select(inside, (plane + pixel).astype("int64"), minus)
        value = tirx.if_then_else(inside, data(n, c, *at), worst)
        return reducer((position, value), axis=offsets)

    positions, _ = te.compute(context.output.shape, body, name="positions")
    return positions


@lowering("AveragePool")
def average_pool(context: Context) -> te.Tensor:
    """The mean of each window, over its elements inside the source, or inside the padding too."""
    window = window_of(context, context.attribute("kernel_shape"))
    dtype = wide(context.output.dtype)
    zero = tirx.const(0, context.info(0).dtype)
    total = _pooled(context, context.tensor(0), window, zero, lambda x: x, sum_reducer, dtype)
    counts = _window_counts(context, window)

    def body(n: Any, c: Any, *place: Any) -> Scalar:
        share = 1.0
        for count, position in zip(counts, place, strict=True):
            if (count == count[0]).all():
                share = share / float(count[0])
            else:
                share = share * table_element((1.0 / count).astype("float32"), position, dtype)
        return cast(total(n, c, *place) * share, context.output.dtype)

    return te.compute(context.output.shape, body, name="average")


def _window_counts(context: Context, window: Window) -> list[numpy.ndarray]:
    """For each spatial axis, how many elements count in the window at each position."""
    counts: list[numpy.ndarray] = []
    include = context.attribute("count_include_pad", 0)
    pads = context.attribute("pads") or [0] * 2 * len(window.kernel)
    for axis, size in enumerate(context.info(0).shape[2:]):
        places = numpy.arange(context.output.shape[2 + axis]) * window.strides[axis]
        offsets = numpy.arange(window.kernel[axis]) * window.dilations[axis]
        at = places[:, None] + offsets[None, :] - window.before[axis]
        low, high = 0, size
        if include:
            low = -window.before[axis]
            declared = context.attribute("auto_pad", "NOTSET") in ("NOTSET", "")
            high = size + (pads[len(window.kernel) + axis] if declared else window.after[axis])
        counts.append(numpy.maximum(1, ((at >= low) & (at < high)).sum(axis=1)))
    return counts


def _root(x: Scalar, order: int, dtype: str) -> Scalar:
    if order in (1, 2):
        return x if order == 1 else tirx.sqrt(x)
    return call("pow", x, tirx.const(1.0 / order, dtype))


def _raise(x: Scalar, order: int, dtype: str) -> Scalar:
    size = absolute(x)
    if order in (1, 2, 3):
        return (size, size * size, size * size * size)[order - 1]
    return call("pow", size, tirx.const(order, dtype))


@lowering("LpPool")
def lp_pool(context: Context) -> te.Tensor:
    """The p-norm of each window."""
    window = window_of(context, context.attribute("kernel_shape"))
    order, dtype = context.attribute("p", 2), wide(context.output.dtype)
    zero = tirx.const(0, context.info(0).dtype)
    total = _pooled(
        context,
        context.tensor(0),
        window,
        zero,
        lambda x: _raise(x, order, dtype),
        sum_reducer,
        dtype,
    )
    return te.compute(
        context.output.shape,
        lambda *i: cast(_root(total(*i), order, dtype), context.output.dtype),
        name="LpPool",
    )


@lowering("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(context: Context) -> te.Tensor:
    """Mean, maximum or p-norm over all spatial axes."""
    data, shape = context.tensor(0), context.info(0).shape
    axes, dtype = list(range(2, len(shape))), wide(context.output.dtype)
    count, order = tirx.const(prod(shape[2:]), dtype), context.attribute("p", 2)
    kind = context.operator.type
    before = (lambda x: _raise(x, order, dtype)) if kind == "GlobalLpPool" else (lambda x: x)
    total = reduce_axes(
        lambda *i: before(cast(data(*i), dtype)),
        shape,
        axes,
        max_reducer if kind == "GlobalMaxPool" else sum_reducer,
        kind,
    )
    after: dict[str, Callable[[Scalar], Scalar]] = {
        "GlobalAveragePool": lambda x: x / count if is_float(dtype) else tirx.truncdiv(x, count),
        "GlobalMaxPool": lambda x: x,
        "GlobalLpPool": lambda x: _root(x, order, dtype),
    }
    return finished(context, total, axes, after[kind])
