"""Lowerings of pooling, and the windows that pooling and convolution share."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy
from tvm import te, tirx
from tvm.ir import Expr

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import (
    Scalar,
    absolute,
    cast,
    converted,
    is_float,
    is_nan,
    wide,
)
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call
from compiler.kernels.ops.reducers import (
    Reducer,
    in_runs,
    lowest,
    max_reducer,
    sum_reducer,
)
from compiler.kernels.ops.reduction import reduction
from compiler.kernels.ops.tables import table_element
from compiler.kernels.ops.windows import Window, padded, window_of
from compiler.kernels.sizes import extent_constant, is_number
from compiler.tensors.row_major import flatten_index


def _pooled(
    context: Context, data: te.Tensor, window: Window, reducer: Reducer,
    fill: Scalar, before: Callable[[Scalar], Scalar] = lambda x: x,
) -> te.Tensor:  # fmt: skip
    source = padded(data, window, fill)
    dtype = wide(context.output.dtype)
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(window.kernel)]

    def body(n: Any, c: Any, *place: Any) -> Any:
        value = cast(source(n, c, *window.at(place, offsets)), dtype)
        return reducer(before(value), axis=offsets)

    total = te.compute(context.output.shape, body, name=context.type)
    return in_runs(total) if reducer is sum_reducer else total


def _bounded(tensor: te.Tensor) -> te.Tensor:
    """A tensor of a type of which TVM knows the least value: bfloat16 becomes float32."""
    return converted(tensor, "float32") if str(tensor.dtype) == "bfloat16" else tensor


@lowering("MaxPool")
def lower_max_pool(context: Context) -> list[te.Tensor]:
    """The largest element of each window; its position as the second result."""
    window = window_of(context, context["kernel_shape"])
    data = _bounded(context.tensor(0))
    largest = _pooled(context, data, window, max_reducer, lowest(str(data.dtype)))
    results = [converted(largest, context.output.dtype)]
    if len(context.outputs) > 1 and context.outputs[1].dtype:
        results.append(_max_pool_positions(context, window))
    return results


def _max_pool_positions(context: Context, window: Window) -> te.Tensor:
    """The flat position in the source of each window's largest element."""
    shape = context.shape(0)
    # float16 is compared in float32: TVM widens a reduction of pairs wrongly itself
    data = converted(context.tensor(0), wide(context.operand(0).dtype))
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(window.kernel)]
    dtype = str(data.dtype)
    minus = tirx.const(-1, "int64")
    worst = lowest(dtype)

    def combine(a: Any, b: Any) -> Any:
        equal = wrapping.equal(b[1], a[1])
        better = wrapping.greater(b[1], a[1])
        if is_float(dtype):  # NaN is the largest, as in the first result
            equal = tirx.any(equal, tirx.all(is_nan(a[1]), is_nan(b[1])))
            better = tirx.any(better, tirx.all(tirx.Not(is_nan(a[1])), is_nan(b[1])))
        first = tirx.all(equal, tirx.any(b[0] < a[0], a[0] < 0))
        take = tirx.all(b[0] >= 0, tirx.any(a[0] < 0, better, first))
        return tirx.Select(take, b[0], a[0]), tirx.Select(take, b[1], a[1])

    reducer = te.comm_reducer(combine, lambda *_: (minus, worst), name="position")

    def body(n: Any, c: Any, *place: Any) -> Sequence[Expr]:
        at = [x - b for x, b in zip(window.at(place, offsets), window.before, strict=True)]
        inside = tirx.all(
            *[t for x, size in zip(at, shape[2:], strict=True) for t in (x >= 0, x < size)]
        )
        pixel = flatten_index(at, shape[2:])
        plane = (n * shape[1] + c) * prod(shape[2:])
        position = tirx.Select(inside, (plane + pixel).astype("int64"), minus)
        value = tirx.if_then_else(inside, data(n, c, *at), worst)
        return reducer((position, value), axis=offsets)

    positions, _ = te.compute(context.output.shape, body, name="positions")
    return positions


@lowering("AveragePool")
def lower_average_pool(context: Context) -> te.Tensor:
    """The mean of each window, over its elements inside the source, or inside the padding too."""
    window = window_of(context, context["kernel_shape"])
    dtype = wide(context.output.dtype)
    zero = tirx.const(0, context.operand(0).dtype)
    total = _pooled(context, context.tensor(0), window, sum_reducer, zero)
    counts = _window_counts(context, window)

    def body(n: Any, c: Any, *place: Any) -> Scalar:
        share = 1.0
        for axis, (count, position) in enumerate(zip(counts, place, strict=True)):
            if count is None:
                inside = _window_count(context, window, axis, position)
                share = share * (tirx.const(1.0, dtype) / inside.astype(dtype))
            elif (count == count[0]).all():
                share = share / float(count[0])
            else:
                share = share * table_element((1.0 / count).astype("float32"), position, dtype)
        return cast(total(n, c, *place) * share, context.output.dtype)

    return te.compute(context.output.shape, body, name="average")


def _window_counts(context: Context, window: Window) -> list[numpy.ndarray | None]:
    """For each spatial axis, how many elements count in the window at each position.

    None for an axis of a size that a run decides.
    """
    counts: list[numpy.ndarray | None] = []
    for axis, places in enumerate(context.output.shape[2:]):
        low, high = _counted(context, window, axis)
        if not (is_number(places) and is_number(low) and is_number(high)):
            counts.append(None)
            continue
        first = numpy.arange(places) * window.strides[axis]
        first -= window.before[axis]
        # counted, as all taps of all windows may be the square of the axis
        before, up_to = (
            numpy.clip(-((first - bound) // window.dilations[axis]), 0, window.kernel[axis])
            for bound in (low, high)
        )
        counts.append(numpy.maximum(1, up_to - before))
    return counts


def _counted(context: Context, window: Window, axis: int) -> tuple[int, int]:
    """The first position of an axis of the source that counts, and the one after the last."""
    size = context.shape(0)[2 + axis]
    if not context["count_include_pad"]:
        return 0, size
    return -window.before[axis], size + context["pads"][len(window.kernel) + axis]


def _window_count(context: Context, window: Window, axis: int, position: Any) -> Any:
    """How many elements count in the window at a position of an axis."""
    first = position * window.strides[axis] - window.before[axis]
    low, high = _counted(context, window, axis)
    dilation = window.dilations[axis]
    taps = tirx.const(window.kernel[axis], "int32")

    def before(bound: Any) -> Any:
        """The taps at positions below one."""
        below = tirx.floordiv(bound - first + (dilation - 1), dilation)
        return tirx.max(tirx.const(0, "int32"), tirx.min(taps, below))

    return tirx.max(tirx.const(1, "int32"), before(high) - before(low))


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
def lower_lp_pool(context: Context) -> te.Tensor:
    """The p-norm of each window."""
    window = window_of(context, context["kernel_shape"])
    order = context["p"]
    dtype = wide(context.output.dtype)
    zero = tirx.const(0, context.operand(0).dtype)
    data = context.tensor(0)
    total = _pooled(
        context, data, window, sum_reducer, zero, before=lambda x: _raise(x, order, dtype)
    )
    return te.compute(
        context.output.shape,
        lambda *i: cast(_root(total(*i), order, dtype), context.output.dtype),
        name="LpPool",
    )


lowering("GlobalMaxPool")(partial(reduction, reducer=max_reducer))


@lowering("GlobalAveragePool")
def lower_global_average(context: Context) -> te.Tensor:
    """The mean over all spatial axes."""
    count = extent_constant(prod(context.shape(0)[2:]), wide(context.output.dtype))
    return reduction(context, sum_reducer, after=lambda x: x / count)


@lowering("GlobalLpPool")
def lower_global_norm(context: Context) -> te.Tensor:
    """The p-norm over all spatial axes."""
    order = context["p"]
    dtype = wide(context.output.dtype)
    powers = partial(_raise, order=order, dtype=dtype)
    return reduction(context, sum_reducer, powers, partial(_root, order=order, dtype=dtype))
