"""Rules for quantised operators: exact integer arithmetic, rescaling, rounding."""

from dataclasses import replace
from math import prod

import ml_dtypes
import numpy as np

from compiler.frontend.builder import is_known
from compiler.frontend.evaluate import dtype_name, element_type
from compiler.frontend.graph import Inputs, NeedsHost, Value
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.lower import rewrite_convolution
from compiler.net.node import Node
from compiler.net.operators import OPERATORS, ShapeMismatch
from compiler.net.operators.shapes import axis_in
from compiler.tensors.dtypes import ALL, ELEMENT_BYTES

HALF_BYTES = ("int4", "uint4")
"""The dtypes of four bits."""

OF_RANGE = "of_range"
"""The attribute of a quantisation whose scale is that of the tensor's range."""


def _cast(call: Call, value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else call.one("Cast", value, to=element_type(dtype))


def _along(call: Call, value: Value, rank: int, axis: int) -> Value:
    """A scale or zero point of one axis, shaped to broadcast over a tensor of a rank."""
    if value.rank == 0:
        return value
    of_blocks = value.rank > 1 or call["block_size"]
    if value.shape == (1,) and not of_blocks:
        return call.reshaped(value, [])
    axis = axis_in(axis, rank)
    if of_blocks:
        return _blocks(call, value, axis)
    following = rank - 1 - axis
    return call.reshaped(value, [-1, *[1] * following]) if following else value


def _blocks(call: Call, value: Value, axis: int) -> Value:
    """Scales or zero points of blocks of an axis, repeated for each element."""
    size = call.data.shape[axis]
    count = value.shape[axis]
    block = call["block_size"] or -(-size // count)
    if not 0 <= block * count - size < block:
        raise ShapeMismatch(f"{count} blocks of {block} do not fill an axis of {size} elements")
    if value.dtype not in ALL:  # types that Expand does not support
        value = _cast(call, value, "int32" if "int" in value.dtype else "float32")
    before, after = value.shape[:axis], value.shape[axis + 1 :]
    column = call.reshaped(value, [*before, count, 1, *after])
    repeated = call.expanded(column, [*before, count, block, *after])
    spread = call.reshaped(repeated, [*before, block * count, *after])
    return call.part(spread, axis, 0, size)


def less_zero_point(call: Call, value: Value, zero: Value | None, dtype: str) -> Value:
    """The value as another type, its zero point subtracted."""
    value = _cast(call, value, dtype)
    return value if zero is None else call.one("Sub", value, _cast(call, zero, dtype))


def _saturated(call: Call, value: Value, zero: Value | None, dtype: str) -> Value:
    """The nearest integer plus the zero point, within the range of an integer dtype.

    Floats of a byte, whose zero point is 0, are rounded by a Cast; constants may be small integers.
    """
    if value.array is None and dtype not in ELEMENT_BYTES:
        remedy = "quantise to 8 or 16 bit integers, to float8e4m3fn or to float8e5m2"
        raise NeedsHost(f"it quantises to {dtype}", remedy)
    if "float" in dtype:
        saturate = call["saturate"]
        return call.one("Cast", value, to=element_type(dtype), saturate=saturate)
    value = call.one("Round", value)
    if zero is not None:
        value = call.one("Add", value, _cast(call, zero, value.dtype))
    limits = ml_dtypes.iinfo(dtype)
    low, high = (call.builder.constant(n, value.dtype) for n in (limits.min, limits.max))
    return _cast(call, call.one("Clip", value, low, high), dtype)


@rule("QuantizeLinear")
def rewrite_quantize(call: Call) -> list[Value]:
    """A tensor quantised by one scale in float32 stays so until it is lowered."""
    scale = call.operand(1)
    precision = dtype_name(call["precision"]) or scale.dtype
    inputs = [call.data, *(_number_of_tensor(call, index) for index in (1, 2))]
    whole = not call["block_size"] and all(v is None or not v.shape for v in inputs[1:])
    compiled = _quantised_dtype(call) in ELEMENT_BYTES
    if not whole or not compiled or scale.dtype != "float32" or precision != "float32":
        return [quantised_by_arithmetic(call)]
    return [_until_lowered(call, inputs)]


def quantised_by_arithmetic(call: Call) -> Value:
    """Divide, round to even, add the zero point, saturate; input 3 may be the quotient."""
    x = call.data
    axis = call["axis"]
    scale = _along(call, call.operand(1), x.rank, axis)
    given = call.input(2)
    zero = None if given is None else _along(call, given, x.rank, axis)
    # Spread over blocks a zero point of a byte may be wider.
    dtype = _quantised_dtype(call)
    precision = dtype_name(call["precision"]) or scale.dtype
    scaled = call.input(3) or call.one(
        "Div", _cast(call, x, precision), _cast(call, scale, precision)
    )
    return _saturated(call, scaled, zero, dtype)


def _quantised_dtype(call: Call) -> str:
    zero = call.input(2)
    return dtype_name(call["output_dtype"]) or ("uint8" if zero is None else zero.dtype)


@rule("DynamicQuantizeLinear")
def rewrite_dynamic_quantize(call: Call) -> list[Value]:
    """Quantise by the range of the tensor."""
    return dynamically_quantised(call, call.data)


def dynamically_quantised(call: Call, x: Value) -> list[Value]:
    """Bytes, scale and zero point for the range of a tensor, which includes 0.

    The scale of zeros is 1, as in onnxruntime: by ONNX's formula it is 0, and 0 / 0 no integer.
    """
    nothing, most = call.builder.constant(0, x.dtype), call.builder.constant(255, x.dtype)
    low = call.one("Min", _extreme(call, "ReduceMin", x), nothing)
    high = call.one("Max", _extreme(call, "ReduceMax", x), nothing)
    extent = call.one("Sub", high, low)
    flat = call.one("Equal", extent, nothing)
    one = call.builder.constant(1, x.dtype)
    scale = call.one("Where", flat, one, call.one("Div", extent, most))
    zero = call.one("Div", call.one("Neg", low), scale)
    zero = call.one("Round", call.one("Clip", zero, nothing, most))
    zero = _cast(call, zero, "uint8")
    inputs: Inputs = [x, scale, zero]
    own = {"op_type": "QuantizeLinear", "attributes": {OF_RANGE: 1}, "used": [True]}
    quantisation = replace(call, inputs=inputs, **own)
    return [*rewrite_quantize(quantisation), scale, zero]


def _extreme(call: Call, op_type: str, x: Value) -> Value:
    return call.one(op_type, x, axes=list(range(x.rank)), keepdims=0) if x.rank else x


@rule("DequantizeLinear")
def rewrite_dequantize(call: Call) -> list[Value]:
    """A tensor of float32 without blocks stays one of integers until it is lowered."""
    x = call.data
    scale = call.operand(1)
    if scale.dtype != "float32" or dtype_name(call["output_dtype"]) not in ("", "float32"):
        return [dequantised_by_arithmetic(call)]
    if x.dtype in HALF_BYTES and is_known(call.inputs):
        return [_until_lowered(call, [x, scale, call.input(2)])]
    if x.dtype not in ELEMENT_BYTES or scale.rank > 1 or call["block_size"]:
        return [dequantised_by_arithmetic(call)]
    inputs = [x, *(_number_of_tensor(call, index) for index in (1, 2))]
    return [_until_lowered(call, inputs)]


def dequantised_by_arithmetic(call: Call) -> Value:
    """Subtract the zero point, multiply."""
    x = call.data
    axis = call["axis"]
    scale = _along(call, call.operand(1), x.rank, axis)
    zero = call.input(2)
    zero = None if zero is None else _along(call, zero, x.rank, axis)
    exact = scale.dtype if "float" in x.dtype else "int32"
    integers = x if zero is None else less_zero_point(call, x, zero, exact)
    result = call.one("Mul", _cast(call, integers, scale.dtype), scale)
    return _cast(call, result, dtype_name(call["output_dtype"]) or scale.dtype)


def _number_of_tensor(call: Call, index: int) -> Value | None:
    """A scale or zero point, without axes if it is a single one."""
    value = call.input(index)
    return call.reshaped(value, []) if value is not None and value.shape == (1,) else value


def _until_lowered(call: Call, inputs: Inputs) -> Value:
    """The result of a node that stays one operator, of which a constant names its own."""
    axis = call.axis() if call.operand(1).shape else 0
    attributes = {"axis": axis, **{n: v for n, v in call.attributes.items() if n != "axis"}}
    (result,) = call.builder.emit(call.op_type, inputs, attributes)
    if result.array is not None:
        entry = OPERATORS[call.op_type]
        complete = entry.node(call.op_type, inputs, attributes).attributes
        result.code = Node(call.op_type, complete, inputs, [result], call.builder.node)
    return result


def _rows(call: Call, value: Value, rank: int) -> Value:
    """A zero point or scale of each row of the left matrix."""
    return _along(call, value, rank, rank - 2) if rank > 1 else value


def _signed(call: Call, value: Value, zero: Value | None) -> tuple[Value, Value | None]:
    """Weights as int8 and their zero point as int32; None for 0.

    Constant weights have none if their differences from it are int8, as those of seven bits are.
    """
    differences = fitting_differences(value, zero)
    if differences is not None:
        return call.builder.constant(differences, "int8"), None
    zero = None if zero is None else _cast(call, zero, "int32")
    if value.dtype == "uint8":
        half = call.builder.constant(128, "int32")
        value = _cast(call, call.one("Sub", _cast(call, value, "int32"), half), "int8")
        zero = call.one("Sub", zero or call.builder.constant(0, "int32"), half)
    known = None if zero is None else zero.array
    return value, zero if known is None or known.any() else None


def fitting_differences(value: Value, zero: Value | None) -> np.ndarray | None:
    """Constant weights less their one zero point, if they are int8; None otherwise."""
    if zero is None or value.array is None or zero.array is None or zero.array.size != 1:
        return None
    differences = value.array.astype("int32") - zero.array.astype("int32").reshape(())
    limits = np.iinfo("int8")
    inside = limits.min <= differences.min() and differences.max() <= limits.max
    return differences.astype("int8") if inside else None


def integer_matmul(
    call: Call, a: Value, b: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """An exact MatMul: zero points of rows of A, and those of B, are subtracted from its sums."""
    if 1 in (a.rank, b.rank):
        # A MatMul of vectors, as one of matrices with one row or column.
        left = call.reshaped(a, [1, *a.shape]) if a.rank == 1 else a
        right = call.reshaped(b, [*b.shape, 1]) if b.rank == 1 else b
        result = integer_matmul(call, left, right, zeros)
        lead = result.shape[:-2]
        rows = () if a.rank == 1 else result.shape[-2:-1]
        columns = () if b.rank == 1 else result.shape[-1:]
        return call.reshaped(result, [*lead, *rows, *columns])
    b, b_zero = _signed(call, b, zeros[1])
    a_zero = zeros[0]
    if b_zero is not None:
        return _less_rows(call, a, b, (a_zero, b_zero))
    by_row = a_zero is not None and prod(a_zero.shape) > 1
    result = call.one("MatMulInteger", a, b, None if by_row or a_zero is None else a_zero)
    if a_zero is not None and by_row:
        sums = call.one("ReduceSum", _cast(call, b, "int32"), axes=[-2])
        shift = call.one("Mul", sums, _cast(call, _rows(call, a_zero, a.rank), "int32"))
        result = call.one("Sub", result, shift)
    return result


def _less_rows(call: Call, a: Value, b: Value, zeros: tuple[Value | None, Value]) -> Value:
    """A MatMul by weights with a zero point, which is subtracted times the sums of A's rows.

    `(a - y) (b - z) = a b - y (1 (b - z)) - (a 1) z`: rows are sums of A's integers as they are,
    and for constant weights the sums that Y is multiplied by are constants.
    """
    a_zero, b_zero = zeros
    result = call.one("MatMulInteger", a, b)
    if a_zero is not None:
        exact = less_zero_point(call, b, b_zero, "int32")
        sums = call.one("ReduceSum", exact, axes=[-2])
        shift = call.one("Mul", sums, _cast(call, _rows(call, a_zero, a.rank), "int32"))
        result = call.one("Sub", result, shift)
    rows = call.one("ReduceSum", _cast(call, a, "int32"), axes=[-1])
    return call.one("Sub", result, call.one("Mul", rows, b_zero))


@rule("MatMulInteger")
def rewrite_matmul_integer(call: Call) -> list[Value]:
    """A MatMul with an int32 result."""
    zeros = call.input(2), call.input(3)
    return [integer_matmul(call, call.data, call.operand(1), zeros)]


def integer_convolution(
    call: Call, x: Value, w: Value, zeros: tuple[Value | None, Value | None]
) -> Value:
    """An exact convolution: zero points of filters times sums of windows are subtracted."""
    w, zero = _signed(call, w, zeros[1])
    result = _convolution(call, "ConvInteger", [x, w, zeros[0]])
    if zero is None:
        return result
    filters = 1 if call["group"] == 1 else w.shape[0]
    ones = call.builder.constant(np.ones((filters, *w.shape[1:])), "int8")
    windows = _convolution(call, "ConvInteger", [x, ones, zeros[0]])
    return call.one("Sub", result, call.one("Mul", windows, _along(call, zero, w.rank, 1)))


def float8_convolution(call: Call, x: Value, w: Value) -> Value:
    """A convolution of floats of a byte, with sums in float32."""
    return _convolution(call, "ConvFloat8", [x, w])


def _convolution(call: Call, op_type: str, inputs: Inputs) -> Value:
    own = {"attributes": dict(call.attributes), "used": [True]}
    (result,) = rewrite_convolution(replace(call, op_type=op_type, inputs=inputs, **own))
    return result


@rule("ConvInteger")
def rewrite_conv_integer(call: Call) -> list[Value]:
    """A convolution with an int32 result."""
    zeros = call.input(2), call.input(3)
    return [integer_convolution(call, call.data, call.operand(1), zeros)]


def _rescaled(call: Call, value: Value, factors: list[Value], zero: Value) -> list[Value]:
    """`value * a_scale * b_scale / y_scale`, rounded and saturated."""
    a_scale, b_scale, y_scale = factors
    factor = call.one("Div", call.one("Mul", a_scale, b_scale), y_scale)
    scaled = call.one("Mul", _cast(call, value, factor.dtype), factor)
    return [_saturated(call, scaled, zero, zero.dtype)]


@rule("QLinearMatMul")
def rewrite_qlinear_matmul(call: Call) -> list[Value]:
    """An exact MatMul of integers, rescaled; of floats of a byte one in 32 bits."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = call.operands
    if "float" in a.dtype:
        pairs = (a, a_zero, _rows(call, a_scale, a.rank)), (b, b_zero, b_scale)
        factors = [
            call.one("Mul", less_zero_point(call, x, zero, "float32"), _cast(call, s, "float32"))
            for x, zero, s in pairs
        ]
        product = call.one("MatMul", *factors)
        scaled = call.one("Div", product, _cast(call, y_scale, "float32"))
        return [_saturated(call, scaled, y_zero, y_zero.dtype)]
    accumulated = integer_matmul(call, a, b, (a_zero, b_zero))
    numbers = (_rows(call, a_scale, a.rank), b_scale, y_scale, y_zero)
    *scales, zero = (
        call.reshaped(number, []) if number.shape == (1,) else number for number in numbers
    )
    return _rescaled(call, accumulated, scales, zero)


@rule("QLinearConv")
def rewrite_qlinear_conv(call: Call) -> list[Value]:
    """An exact convolution with an int32 bias, rescaled."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (call.operand(i) for i in range(8))
    result = integer_convolution(call, x, w, (x_zero, w_zero))
    if bias := call.input(8):
        result = call.one("Add", result, _along(call, bias, x.rank, 1))
    return _rescaled(call, result, [x_scale, _along(call, w_scale, x.rank, 1), y_scale], y_zero)
