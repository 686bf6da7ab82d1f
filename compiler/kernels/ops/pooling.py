"""Lowerings of pooling, and the windows that pooling and convolution share."""

from collections.abc import Callable, Sequence
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
    finished,
    in_runs,
    lowest,
    max_reducer,
    reduce_axes,
    sum_reducer,
)
from compiler.kernels.ops.tables import table_element
from compiler.kernels.ops.windows import Window, padded, window_of
from compiler.tensors.row_major import flatten_index


def _pooled(
    context: Context, data: te.Tensor, window: Window, fill: Scalar,
    before: Callable[[Scalar], Scalar], reducer: Reducer, dtype: str,
) -> te.Tensor:  # fmt: skip
    source = padded(data, window, fill)
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(window.kernel)]

    def body(n: Any, c: Any, *place: Any) -> Any:
        value = cast(source(n, c, *window.at(place, offsets)), dtype)
        return reducer(before(value), axis=offsets)

    total = te.compute(context.output.shape, body, name=context.operator.type)
    return in_runs(total) if reducer is sum_reducer else total


def _bounded(tensor: te.Tensor) -> te.Tensor:
    """A tensor of a type of which TVM knows the least value: bfloat16 becomes float32."""
    return converted(tensor, "float32") if str(tensor.dtype) == "bfloat16" else tensor


@lowering("MaxPool")
def lower_max_pool(context: Context) -> list[te.Tensor]:
    """The largest element of each window; its position as the second result."""
    window = window_of(context, context.attribute("kernel_shape"))
    dtype = wide(context.output.dtype)
    data = _bounded(context.tensor(0))
    fill = lowest(str(data.dtype))
    largest = _pooled(context, data, window, fill, lambda x: x, max_reducer, dtype)
    results = [converted(largest, context.output.dtype)]
    if len(context.outputs) > 1 and context.outputs[1].dtype:
        results.append(_max_pool_positions(context, window))
    return results


def _max_pool_positions(context: Context, window: Window) -> te.Tensor:
    """The flat position in the source of each window's largest element."""
    shape = context.info(0).shape
    # float16 is compared in float32: TVM widens a reduction of pairs wrongly itself
    data = converted(context.tensor(0), wide(context.info(0).dtype))
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(window.kernel)]
    dtype = str(data.dtype)
    minus, worst = tirx.const(-1, "int64"), lowest(dtype)

    def combine(a: Any, b: Any) -> Any:
        equal, better = wrapping.equal(b[1], a[1]), wrapping.greater(b[1], a[1])
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
    window = window_of(context, context.attribute("kernel_shape"))
    dtype = wide(context.output.dtype)
    zero = tirx.const(0, context.info(0).dtype)
    total = _pooled(context, context.tensor(0), window, zero, lambda x: x, sum_reducer, dtype)
    # For each spatial axis, how many elements count in the window at each position.
    counts: list[numpy.ndarray] = []
    include = context.attribute("count_include_pad")
    pads = context.attribute("pads")
    for axis, size in enumerate(context.info(0).shape[2:]):
        first = numpy.arange(context.output.shape[2 + axis]) * window.strides[axis]
        first -= window.before[axis]
        low, high = 0, size
        if include:
            low = -window.before[axis]
            high = size + pads[len(window.kernel) + axis]
        # counted, as all taps of all windows may be the square of the axis
        before, up_to = (
            numpy.clip(-((first - bound) // window.dilations[axis]), 0, window.kernel[axis])
            for bound in (low, high)
        )
        counts.append(numpy.maximum(1, up_to - before))

    def body(n: Any, c: Any, *place: Any) -> Scalar:
        share = 1.0
        for count, position in zip(counts, place, strict=True):
            if (count == count[0]).all():
                share = share / float(count[0])
            else:
                share = share * table_element((1.0 / count).astype("float32"), position, dtype)
        return cast(total(n, c, *place) * share, context.output.dtype)

    return te.compute(context.output.shape, body, name="average")


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
    window = window_of(context, context.attribute("kernel_shape"))
    order, dtype = context.attribute("p"), wide(context.output.dtype)
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
def lower_global_pool(context: Context) -> te.Tensor:
    """Mean, maximum or p-norm over all spatial axes."""
    data, shape = context.tensor(0), context.info(0).shape
    axes, dtype = list(range(2, len(shape))), wide(context.output.dtype)
    count, kind = tirx.const(prod(shape[2:]), dtype), context.operator.type
    order: int = context.attribute("p") if kind == "GlobalLpPool" else 1

    def before(x: Scalar) -> Scalar:
        return _raise(x, order, dtype) if kind == "GlobalLpPool" else x

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
