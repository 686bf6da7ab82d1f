"""Lowerings of contractions: convolutions and matmuls, accumulated in float32 or wider."""

from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

from tvm import te, tirx

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import cast, converted, multiply, wide
from compiler.kernels.ops.float8 import decoded, number_of
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.reducers import in_runs, sum_reducer
from compiler.kernels.ops.windows import padded, window_of
from compiler.kernels.sizes import is_pinned
from compiler.net.four_bits import FOUR_BIT_MIDDLE
from compiler.net.operators.einsum import einsum_terms
from compiler.tensors.dtypes import INTEGERS

FactorOf = Callable[[Any], Any]
"""The factor of a multiplication, of an element of an operand."""


@lowering("Conv")
def lower_conv(context: Context) -> te.Tensor:
    """Convolution over any number of spatial axes, grouped, strided, dilated."""
    dtype = context.output.dtype
    accumulator = wide(dtype)

    def multiplied(left: Any, right: Any) -> Any:
        return wrapping.multiply(cast(left, accumulator), cast(right, accumulator))

    operands = context.tensor(0), context.tensor(1)
    result = _convolution(context, operands, tirx.const(0, dtype), multiplied)
    return with_bias(context, in_runs(result))


def _convolution(
    context: Context,
    operands: tuple[te.Tensor, te.Tensor],
    padding: Any,
    multiplied: Callable[[Any, Any], Any],
) -> te.Tensor:
    """The sums of an image's elements, some of them padding, multiplied by weights."""
    kernel = context.shape(1)
    groups = context["group"]
    window = window_of(context, kernel[2:])
    source = padded(operands[0], window, padding)
    weight = operands[1]
    channel = te.reduce_axis((0, kernel[1]), "channel")
    offsets = [te.reduce_axis((0, k), f"window{i}") for i, k in enumerate(kernel[2:])]
    per_group = kernel[0] // groups

    def body(n: Any, c: Any, *place: Any) -> Any:
        first = c // per_group * kernel[1] if groups > 1 else 0
        left = source(n, first + channel, *window.at(place, offsets))
        value = multiplied(left, weight(c, channel, *offsets))
        return sum_reducer(value, axis=[channel, *offsets])

    return te.compute(context.output.shape, body, name=context.type)


def with_bias(context: Context, result: te.Tensor) -> te.Tensor:
    """Add input 2 by channel, and convert to the result's dtype."""
    if not context.has(2):
        return converted(result, context.output.dtype)
    bias = context.tensor(2)
    accumulator = str(result.dtype)

    def body(n: Any, c: Any, *place: Any) -> Any:
        total = wrapping.add(result(n, c, *place), cast(bias(c), accumulator))
        return cast(total, context.output.dtype)

    return te.compute(context.output.shape, body, name="biased")


@lowering("ConvInteger")
def lower_conv_integer(context: Context) -> te.Tensor:
    """A convolution of bytes with an int32 result, padded with the zero point of its image."""
    zero, other = zero_point(context, 0), zero_point(context, 1)

    def multiplied(left: Any, right: Any) -> Any:
        return wrapping.multiply(_difference(left, zero), _difference(right, other))

    return _convolution(context, (context.tensor(0), context.tensor(1)), zero, multiplied)


@lowering("ConvFloat8")
def lower_conv_float8(context: Context) -> te.Tensor:
    """A convolution of floats of a byte, multiplied and summed in float32."""
    operands = (decoded(context, 0), decoded(context, 1))
    zero = tirx.const(0, "float32")
    return in_runs(_convolution(context, operands, zero, mul))


def zero_point(context: Context, operand: int) -> Any:
    """The zero point of operand 0 or 1, which is operand 2 or 3; 0 if it is left out."""
    index = operand + 2
    if not context.has(index):
        return tirx.const(0, context.operand(operand).dtype)
    return context.tensor(index)(*[0] * len(context.shape(index)))


def _difference(value: Any, zero: Any) -> Any:
    """A byte less a zero point, as int32."""
    return wrapping.subtract(cast(value, "int32"), cast(zero, "int32"))


@lowering("ConvTranspose")
def lower_conv_transpose(context: Context) -> te.Tensor:
    """Transposed convolution, gathered: each output sums the taps that reach it."""
    data, weight = context.tensor(0), context.tensor(1)
    shape, kernel = context.shape(0), context.shape(1)
    groups = context["group"]
    rank = len(shape) - 2
    strides, dilations = context["strides"], context["dilations"]
    before = context["pads"][:rank]
    accumulator = wide(context.output.dtype)
    channels = shape[1] // groups
    per_group = kernel[1]
    channel = te.reduce_axis((0, channels), "channel")
    steps = [s if d == 1 else 1 for s, d in zip(strides, dilations, strict=True)]
    taps = [
        te.reduce_axis((0, -(-k // s)), f"tap{i}")
        for i, (k, s) in enumerate(zip(kernel[2:], steps, strict=True))
    ]

    def body(n: Any, c: Any, *place: Any) -> Any:
        at: list[Any] = []
        window: list[Any] = []
        tests: list[Any] = []
        for i in range(rank):
            position = place[i] + before[i]
            tap = position % steps[i] + taps[i] * steps[i]
            reach = position - tap * dilations[i]
            source = tirx.floordiv(reach, strides[i])
            at.append(source)
            window.append(tap)
            tests += [source >= 0, source < shape[2 + i]]
            tests += [tap < kernel[2 + i]] if kernel[2 + i] % steps[i] else []
            tests += (
                [tirx.EQ(tirx.floormod(reach, strides[i]), 0)] if steps[i] != strides[i] else []
            )
        first = c // per_group * channels if groups > 1 else 0
        left = cast(data(n, first + channel, *at), accumulator)
        right = cast(weight(first + channel, c % per_group, *window), accumulator)
        value = tirx.if_then_else(
            tirx.all(*tests), wrapping.multiply(left, right), tirx.const(0, accumulator)
        )
        return sum_reducer(value, axis=[channel, *taps])

    return with_bias(context, in_runs(te.compute(context.output.shape, body, name="ConvTranspose")))


@lowering("MatMul")
def lower_matmul(context: Context) -> te.Tensor:
    """numpy's matmul, batches broadcast."""
    accumulator = wide(context.output.dtype)

    def wider(value: Any) -> Any:
        return cast(value, accumulator)

    return converted(_matmul(context, wider, wider), context.output.dtype)


@lowering("MatMulFloat8")
def lower_matmul_float8(context: Context) -> te.Tensor:
    """A MatMul of floats of a byte, multiplied and summed in float32."""
    left, right = context.operand(0).code, context.operand(1).code
    return _matmul(context, lambda x: number_of(x, left), lambda y: number_of(y, right))


@lowering("MatMulInteger")
def lower_matmul_integer(context: Context) -> te.Tensor:
    """A MatMul of bytes with an int32 result."""
    zero, other = zero_point(context, 0), zero_point(context, 1)
    return _matmul(context, lambda x: _difference(x, zero), lambda y: _difference(y, other))


@lowering("MatMulNBits")
def lower_matmul_n_bits(context: Context) -> te.Tensor:
    """A MatMul by rows of integers of four bits, unpacked as they are multiplied."""
    packed, scales = context.tensor(1), context.tensor(2)
    size = context["block_size"]
    accumulator = wide(context.output.dtype)
    zeros = four_bit_zero_point(context)
    a = context.tensor(0)
    k = te.reduce_axis((0, context["K"]), "k")

    def body(*indices: Any) -> Any:
        *lead, n = indices
        block = k // size
        byte = cast(packed(n, block, k % size // 2), "int32")
        exact = cast((byte >> (k % 2 * 4)) & 15, accumulator) - zeros(n, block, accumulator)
        weight = exact * cast(scales(n, block), accumulator)
        return sum_reducer(cast(a(*lead, k), accumulator) * weight, axis=[k])

    result = in_runs(te.compute(context.output.shape, body, name="MatMulNBits"))
    return converted(result, context.output.dtype)


def four_bit_zero_point(context: Context) -> Callable[[Any, Any, str], Any]:
    """The zero point of a column and a block in a dtype: a number, or of two a byte."""
    if not context.has(3):
        return lambda n, block, dtype: tirx.const(FOUR_BIT_MIDDLE, dtype)
    zeros = context.tensor(3)
    if context.operand(3).dtype != "uint8":
        return lambda n, block, dtype: cast(zeros(n, block), dtype)

    def of_nibble(n: Any, block: Any, dtype: str) -> Any:
        return cast((cast(zeros(n, block // 2), "int32") >> (block % 2 * 4)) & 15, dtype)

    return of_nibble


def _matmul(context: Context, left_of: FactorOf, right_of: FactorOf) -> te.Tensor:
    """The sums of elements, each computed from one of its operand."""
    a, b = context.tensor(0), context.tensor(1)
    left, right = context.shape(0), context.shape(1)
    k = te.reduce_axis((0, left[-1]), "k")

    result = context.output.shape

    def batch(shape: Sequence[int], indices: Sequence[Any]) -> list[Any]:
        start = len(indices) - len(shape)
        pinned = map(is_pinned, shape, result[start:])
        return [0 if one else i for i, one in zip(indices[start:], pinned, strict=False)]

    def body(*indices: Any) -> Any:
        lead = list(indices)
        column = [lead.pop()] if len(right) > 1 else []
        row = [lead.pop()] if len(left) > 1 else []
        x = left_of(a(*batch(left[:-2], lead), *row, k))
        y = right_of(b(*batch(right[:-2], lead), k, *column))
        return sum_reducer(wrapping.multiply(x, y), axis=[k])

    return in_runs(te.compute(context.output.shape, body, name=context.type))


@lowering("Gemm")
def lower_gemm(context: Context) -> te.Tensor:
    """alpha A B + beta C, with A and B transposed on demand.

    Fractions of integers are added in float64, and the sum is truncated.
    """
    a = context.tensor(0)
    b = context.tensor(1)
    shape = context.shape(0)
    left, right = context["transA"], context["transB"]
    dtype = context.output.dtype
    accumulator = wide(dtype)
    k = te.reduce_axis((0, shape[0] if left else shape[1]), "k")

    def body(i: Any, j: Any) -> Any:
        x = a(k, i) if left else a(i, k)
        y = b(j, k) if right else b(k, j)
        return sum_reducer(wrapping.multiply(cast(x, accumulator), cast(y, accumulator)), axis=[k])

    result = in_runs(te.compute(context.output.shape, body, name="Gemm"))
    alpha = float(context["alpha"])
    beta = float(context["beta"]) if context.has(2) else 0.0
    if alpha == 1.0 and not context.has(2):
        return converted(result, dtype)
    fractions = dtype in INTEGERS and not (alpha.is_integer() and beta.is_integer())
    scale = "float64" if fractions else accumulator

    def times(x: Any, factor: float) -> Any:
        if factor == 1.0:
            return x
        if scale in INTEGERS:
            return multiply(x, wrapping.wrapped_literal(int(factor), scale))
        return multiply(x, tirx.const(factor, scale))

    def scaled(i: Any, j: Any) -> Any:
        total = times(cast(result(i, j), scale), alpha)
        if beta:
            total = wrapping.add(total, times(cast(context.element(2, (i, j)), scale), beta))
        return cast(total, dtype)

    return te.compute(context.output.shape, scaled, name="scaled")


@lowering("Einsum")
def lower_einsum(context: Context) -> te.Tensor:
    """Einstein summation with implicit results and ellipses."""
    shapes = [context.shape(i) for i in range(len(context.inputs))]
    terms, result = einsum_terms(context["equation"], [*map(len, shapes)])
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, extent in zip(term, shape, strict=True):
            extents[label] = extents.get(label, 1) if extent == 1 else extent
    summed = {x: te.reduce_axis((0, n), f"sum{i}") for i, (x, n) in enumerate(extents.items())
              if x not in result}  # fmt: skip
    accumulator = wide(context.output.dtype)
    tensors = [context.tensor(i) for i in range(len(terms))]

    def body(*indices: Any) -> Any:
        at = {**summed, **dict(zip(result, indices, strict=True))}
        value = tirx.const(1, accumulator)
        for tensor, term, shape in zip(tensors, terms, shapes, strict=True):
            pinned = [is_pinned(n, extents[x]) for x, n in zip(term, shape, strict=True)]
            own = [0 if one else at[x] for x, one in zip(term, pinned, strict=True)]
            value = wrapping.multiply(value, cast(tensor(*own), accumulator))
        return sum_reducer(value, axis=list(summed.values())) if summed else value

    total = in_runs(te.compute(context.output.shape, body, name="Einsum"))
    return converted(total, context.output.dtype)
