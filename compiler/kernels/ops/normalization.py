"""Lowerings of softmax and normalisations: statistics of a row or a window, then a map."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import te, tirx

from compiler.kernels.ops.common import Scalar, absolute, cast, converted, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call
from compiler.kernels.ops.reducers import max_reducer, reduce_axes, sum_reducer
from compiler.kernels.sizes import extent_constant

RowSource = Callable[..., Scalar]


def widened_rows(tensor: te.Tensor, dtype: str) -> RowSource:
    """Read a tensor's elements converted to a dtype."""
    return lambda *indices: cast(tensor(*indices), dtype)


def pinned(indices: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """An index with 0 at the reduced axes."""
    return [0 if axis in axes else i for axis, i in enumerate(indices)]


def moments(
    source: RowSource, shape: Sequence[int], axes: Sequence[int], dtype: str
) -> tuple[te.Tensor, te.Tensor]:
    """Mean and variance over some axes, which stay with one element; two passes, for accuracy."""
    count = extent_constant(prod(shape[axis] for axis in axes), dtype)
    total = reduce_axes(source, shape, axes, sum_reducer, "total")
    mean = te.compute(total.shape, lambda *i: total(*i) / count, name="mean")

    def deviation(*i: Any) -> Scalar:
        difference = source(*i) - mean(*pinned(i, axes))
        return difference * difference

    squares = reduce_axes(deviation, shape, axes, sum_reducer, "squares")
    return mean, te.compute(squares.shape, lambda *i: squares(*i) / count, name="variance")


def inverse_deviation(variance: te.Tensor, epsilon: float, dtype: str) -> te.Tensor:
    """1 / sqrt(variance + epsilon)."""
    one, small = tirx.const(1, dtype), tirx.const(epsilon, dtype)
    return te.compute(
        variance.shape, lambda *i: one / tirx.sqrt(variance(*i) + small), name="inverse"
    )


@lowering("Softmax", "LogSoftmax")
def lower_softmax(context: Context) -> te.Tensor:
    """e**x over its sum along an axis, or the logarithm of that."""
    shape = context.shape(0)
    dtype = wide(context.output.dtype)
    axis = [context["axis"]]
    source = widened_rows(context.tensor(0), dtype)
    top = reduce_axes(source, shape, axis, max_reducer, "largest")

    def power(*i: Any) -> Scalar:
        return call("exp", source(*i) - top(*pinned(i, axis)))

    if context.type == "LogSoftmax":
        total = reduce_axes(power, shape, axis, sum_reducer, "total")
        logarithm = te.compute(total.shape, lambda *i: call("log", total(*i)), name="logarithm")

        def difference(*i: Any) -> Scalar:
            at = pinned(i, axis)
            below = source(*i) - top(*at)  # first: the largest may be far larger than the logarithm
            return cast(below - logarithm(*at), context.output.dtype)

        return te.compute(context.output.shape, difference, name="LogSoftmax")
    powers = te.compute(shape, power, name="powers", attrs={"keep": 1})
    total = reduce_axes(lambda *i: powers(*i), shape, axis, sum_reducer, "total")
    one = tirx.const(1, dtype)
    share = te.compute(total.shape, lambda *i: one / total(*i), name="share")
    return te.compute(
        context.output.shape,
        lambda *i: cast(powers(*i) * share(*pinned(i, axis)), context.output.dtype),
        name="Softmax",
    )


@lowering("LayerNormalization")
def lower_layer_normalization(context: Context) -> list[te.Tensor]:
    """Normalise over the last axes, from `axis` on; mean and inverse deviation are results too."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    first: int = context["axis"]
    axes = list(range(first, len(shape)))
    source = widened_rows(context.tensor(0), dtype)
    mean, variance = moments(source, shape, axes, dtype)
    inverse = inverse_deviation(variance, context["epsilon"], dtype)

    def body(*i: Any) -> Scalar:
        at = pinned(i, axes)
        value = (source(*i) - mean(*at)) * inverse(*at) * cast(context.element(1, i), dtype)
        if context.has(2):
            value = value + cast(context.element(2, i), dtype)
        return cast(value, context.output.dtype)

    results = [te.compute(context.output.shape, body, name="LayerNormalization")]
    statistics = zip(context.outputs[1:], (mean, inverse), strict=False)
    return [*results, *(converted(tensor, info.dtype) for info, tensor in statistics if info.dtype)]


@lowering("RMSNormalization")
def lower_rms_normalization(context: Context) -> te.Tensor:
    """Divide by the root of the mean square over the last axes, then scale."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    axes = list(range(context["axis"], len(shape)))
    source = widened_rows(context.tensor(0), dtype)
    count = extent_constant(prod(shape[axis] for axis in axes), dtype)
    squares = reduce_axes(lambda *i: source(*i) * source(*i), shape, axes, sum_reducer, "squares")
    mean = te.compute(squares.shape, lambda *i: squares(*i) / count, name="mean_square")
    inverse = inverse_deviation(mean, context["epsilon"], dtype)

    def body(*i: Any) -> Scalar:
        scale = cast(context.element(1, i), dtype)
        return cast(source(*i) * inverse(*pinned(i, axes)) * scale, context.output.dtype)

    return te.compute(context.output.shape, body, name="RMSNormalization")


@lowering("InstanceNormalization")
def lower_instance_normalization(context: Context) -> te.Tensor:
    """Normalise each channel of each instance, then scale and shift by channel."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    axes = list(range(2, len(shape)))
    source = widened_rows(context.tensor(0), dtype)
    scale, bias = widened_rows(context.tensor(1), dtype), widened_rows(context.tensor(2), dtype)
    mean, variance = moments(source, shape, axes, dtype)
    inverse = inverse_deviation(variance, context["epsilon"], dtype)

    def body(*i: Any) -> Scalar:
        at = pinned(i, axes)
        value = (source(*i) - mean(*at)) * inverse(*at) * scale(i[1]) + bias(i[1])
        return cast(value, context.output.dtype)

    return te.compute(context.output.shape, body, name="InstanceNormalization")


@lowering("GroupNormalization")
def lower_group_normalization(context: Context) -> te.Tensor:
    """Normalise groups of channels; scale and bias are by channel, or by group before opset 21."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    groups = context["num_groups"]
    size = shape[1] // groups
    split = (shape[0], groups, size, *shape[2:])
    data = widened_rows(context.tensor(0), dtype)
    axes = list(range(2, len(split)))

    def element(n: Any, g: Any, c: Any, *rest: Any) -> Scalar:
        return data(n, g * size + c, *rest)

    mean, variance = moments(element, split, axes, dtype)
    inverse = inverse_deviation(variance, context["epsilon"], dtype)
    scale, bias = widened_rows(context.tensor(1), dtype), widened_rows(context.tensor(2), dtype)
    by_channel = context.shape(1)[0] == shape[1]

    def normalised(n: Any, g: Any, c: Any, *rest: Any) -> Scalar:
        at = [n, g, 0, *[0 for _ in rest]]
        which = g * size + c if by_channel else g
        value = element(n, g, c, *rest) - mean(*at)
        return cast(value * inverse(*at) * scale(which) + bias(which), context.output.dtype)

    grouped = te.compute(split, normalised, name="normalised")

    def channel(n: Any, c: Any, *rest: Any) -> Scalar:
        return grouped(n, c // size, c % size, *rest)

    return te.compute(shape, channel, name="GroupNormalization")


@lowering("MeanVarianceNormalization")
def lower_mean_variance_normalization(context: Context) -> te.Tensor:
    """Subtract the mean and divide by the deviation over some axes."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    axes = list(context["axes"])
    source = widened_rows(context.tensor(0), dtype)
    mean, variance = moments(source, shape, axes, dtype)
    small = tirx.const(1e-9, dtype)

    def body(*i: Any) -> Scalar:
        at = pinned(i, axes)
        value = (source(*i) - mean(*at)) / (tirx.sqrt(variance(*at)) + small)
        return cast(value, context.output.dtype)

    return te.compute(shape, body, name="MeanVarianceNormalization")


@lowering("LpNormalization")
def lower_lp_normalization(context: Context) -> te.Tensor:
    """Divide by the L1 or L2 norm along an axis; 0 where the norm is 0."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    axis = [context["axis"]]
    order = context["p"]
    source = widened_rows(context.tensor(0), dtype)

    def part(*i: Any) -> Scalar:
        return absolute(source(*i)) if order == 1 else source(*i) * source(*i)

    total = reduce_axes(part, shape, axis, sum_reducer, "total")
    zero = tirx.const(0, dtype)

    def body(*i: Any) -> Scalar:
        norm = total(*pinned(i, axis))
        norm = norm if order == 1 else tirx.sqrt(norm)
        value = tirx.Select(tirx.EQ(norm, zero), zero, source(*i) / norm)
        return cast(value, context.output.dtype)

    return te.compute(shape, body, name="LpNormalization")


@lowering("LRN")
def lower_local_response_normalization(context: Context) -> te.Tensor:
    """Divide by a power of the sum of squares over neighbouring channels."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    size = context["size"]
    before, after = (min(reach, shape[1]) for reach in ((size - 1) // 2, size // 2))
    source = widened_rows(context.tensor(0), dtype)
    window = te.reduce_axis((0, before + after + 1), "window")
    zero = tirx.const(0, dtype)

    def squares(n: Any, c: Any, *rest: Any) -> Any:
        channel = c + window - before
        inside = tirx.all(channel >= 0, channel < shape[1])
        value = tirx.if_then_else(inside, source(n, channel, *rest), zero)
        return te.sum(value * value, axis=window)

    total = te.compute(shape, squares, name="squares")
    alpha = tirx.const(context["alpha"] / size, dtype)
    bias = tirx.const(context["bias"], dtype)
    beta = context["beta"]

    def body(*i: Any) -> Scalar:
        base = bias + alpha * total(*i)
        if beta == 0.75:
            power = tirx.sqrt(base) * tirx.sqrt(tirx.sqrt(base))
        else:
            power = call("exp", tirx.const(beta, dtype) * call("log", base))
        return cast(source(*i) / power, context.output.dtype)

    return te.compute(shape, body, name="LRN")


@lowering("BatchNormalization")
def lower_batch_normalization(context: Context) -> list[te.Tensor]:
    """Normalise by channel, with the given statistics or, in training mode, the batch's own."""
    shape = context.shape(0)
    dtype = wide(context.operand(0).dtype)
    source = widened_rows(context.tensor(0), dtype)
    scale, bias, mean, variance = (widened_rows(context.tensor(i), dtype) for i in range(1, 5))
    results: list[te.Tensor] = []
    if context["training_mode"]:
        axes = [axis for axis in range(len(shape)) if axis != 1]
        batch = moments(source, shape, axes, dtype)
        running = [i for i, info in enumerate(context.outputs) if i and info.dtype]
        results = [_running(context, i, batch[i - 1]) for i in running]
        mean, variance = (_by_channel(statistic) for statistic in batch)
    epsilon = tirx.const(context["epsilon"], dtype)

    def body(*i: Any) -> Scalar:
        c = i[1] if len(i) > 1 else 0
        factor = scale(c) / tirx.sqrt(variance(c) + epsilon)
        return cast((source(*i) - mean(c)) * factor + bias(c), context.output.dtype)

    return [te.compute(shape, body, name="BatchNormalization"), *results]


def _by_channel(statistic: te.Tensor) -> Callable[[Any], Scalar]:
    """A statistic that kept its axes, by channel."""
    tail = [0] * (len(statistic.shape) - 2)
    return lambda c: statistic(0, c, *tail)


def _running(context: Context, position: int, statistic: te.Tensor) -> te.Tensor:
    """A running statistic moved towards the batch's."""
    info = context.outputs[position]
    dtype = str(statistic.dtype)
    momentum = tirx.const(context["momentum"], dtype)
    rest = tirx.const(1.0 - context["momentum"], dtype)
    old = widened_rows(context.tensor(position + 2), dtype)
    tail = [0] * (len(statistic.shape) - 2)

    def body(c: Any) -> Scalar:
        return cast(old(c) * momentum + statistic(0, c, *tail) * rest, info.dtype)

    return te.compute(info.shape, body, name="running")
