"""Rules for quantised operators: exact integer arithmetic, rescaling, rounding."""

from dataclasses import replace

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.lower import explicit_window
from compiler.frontend.unsupported import NeedsHost
from compiler.net.building.builder import is_known
from compiler.net.building.quantised import (
    OF_RANGE,
    along,
    dequantised_by_arithmetic,
    integer_convolution,
    integer_matmul,
    less_zero_point,
    quantised_by_arithmetic,
    quantised_dtype,
    rows_of,
    saturated,
)
from compiler.net.graph import Inputs, Value
from compiler.net.node import Node
from compiler.net.operators.canonical import complete_attributes
from compiler.tensors.dtypes import ELEMENT_BYTES, HALF_BYTES


@rule("QuantizeLinear")
def rewrite_quantize(call: Call) -> list[Value]:
    """A quantised tensor stays one until it is lowered; constants have other dtypes, too."""
    node = _of_numbers(call)
    dtype = quantised_dtype(node)
    _check_compiled(is_known(node.inputs), dtype)
    if dtype in ELEMENT_BYTES:
        return call.builder.emit(node.type, node.inputs, node.attributes)
    return [quantised_by_arithmetic(call.builder, node)]


def _check_compiled(known: bool, dtype: str) -> None:
    """Raise NeedsHost for what a run quantises to integers that no kernel has."""
    if not known and dtype not in ELEMENT_BYTES:
        remedy = "quantise to 8 or 16 bit integers, to float8e4m3fn or to float8e5m2"
        raise NeedsHost(f"it quantises to {dtype}", remedy)


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
    zero = call.builder.cast(zero, "uint8")
    inputs: Inputs = [x, scale, zero]
    own = {"op_type": "QuantizeLinear", "attributes": {OF_RANGE: 1}, "used": [True]}
    quantisation = replace(call, inputs=inputs, **own)
    return [*rewrite_quantize(quantisation), scale, zero]


def _extreme(call: Call, op_type: str, x: Value) -> Value:
    return call.one(op_type, x, axes=list(range(x.rank)), keepdims=0) if x.rank else x


@rule("DequantizeLinear")
def rewrite_dequantize(call: Call) -> list[Value]:
    """A tensor stays one of integers until it is lowered; a constant names these.

    Integers of four bits are constants, which kernels for a scale of a run do not have.
    """
    node = _of_numbers(call)
    if node.operand(0).dtype in HALF_BYTES and not is_known(node.inputs):
        return [dequantised_by_arithmetic(call.builder, node)]
    (result,) = call.builder.emit(node.type, node.inputs, node.attributes)
    # of two bits there are no tensors
    if result.array is not None and node.operand(0).dtype in (*ELEMENT_BYTES, *HALF_BYTES):
        result.code = replace(node, outputs=[result])
    return [result]


def _of_numbers(call: Call) -> Node[Value]:
    """The operator with all attributes; a single scale or zero point of no block has no axes."""
    shapes = [value and value.shape for value in call.inputs]
    attributes = complete_attributes(call.op_type, call.attributes, shapes)
    inputs = [
        call.reshaped(value, [])
        if index and value is not None and value.shape == (1,) and not attributes["block_size"]
        else value
        for index, value in enumerate([*call.inputs, None][:3])
    ]
    if not call.shape(1):
        attributes["axis"] = 0
    return Node(call.op_type, attributes, inputs, [], call.builder.node)


@rule("MatMulInteger")
def rewrite_matmul_integer(call: Call) -> list[Value]:
    """A MatMul with an int32 result."""
    zeros = call.input(2), call.input(3)
    return [integer_matmul(call.builder, call.data, call.operand(1), zeros)]


@rule("ConvInteger")
def rewrite_conv_integer(call: Call) -> list[Value]:
    """A convolution with an int32 result."""
    return [_convolution(call, call.data, call.operand(1), (call.input(2), call.input(3)))]


def _convolution(call: Call, x: Value, w: Value, zeros: tuple[Value | None, Value | None]) -> Value:
    windows = replace(
        call,
        inputs=[x, w],
        attributes={**call.attributes, "kernel_shape": list(w.shape[2:]), "group": call["group"]},
    )
    explicit = explicit_window(windows)
    return integer_convolution(call.builder, x, w, zeros, windows.attributes | explicit)


def _rescaled(call: Call, value: Value, factors: list[Value], zero: Value) -> list[Value]:
    """`value * a_scale * b_scale / y_scale`, rounded and saturated."""
    a_scale, b_scale, y_scale = factors
    factor = call.one("Div", call.one("Mul", a_scale, b_scale), y_scale)
    scaled = call.one("Mul", call.builder.cast(value, factor.dtype), factor)
    return _saturated(call, scaled, zero)


def _saturated(call: Call, scaled: Value, zero: Value) -> list[Value]:
    """Numbers rounded and saturated to the type of a zero point."""
    _check_compiled(scaled.array is not None, zero.dtype)
    return [saturated(call.builder, scaled, zero, zero.dtype)]


@rule("QLinearMatMul")
def rewrite_qlinear_matmul(call: Call) -> list[Value]:
    """An exact MatMul of integers, rescaled; of floats of a byte one in 32 bits."""
    builder = call.builder
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = call.operands
    if "float" in a.dtype:
        pairs = (a, a_zero, rows_of(builder, a_scale, a.rank)), (b, b_zero, b_scale)
        factors = [
            call.one(
                "Mul", less_zero_point(builder, x, zero, "float32"), builder.cast(s, "float32")
            )
            for x, zero, s in pairs
        ]
        product = call.one("MatMul", *factors)
        scaled = call.one("Div", product, builder.cast(y_scale, "float32"))
        return _saturated(call, scaled, y_zero)
    accumulated = integer_matmul(builder, a, b, (a_zero, b_zero))
    numbers = (rows_of(builder, a_scale, a.rank), b_scale, y_scale, y_zero)
    *scales, zero = (
        call.reshaped(number, []) if number.shape == (1,) else number for number in numbers
    )
    return _rescaled(call, accumulated, scales, zero)


@rule("QLinearConv")
def rewrite_qlinear_conv(call: Call) -> list[Value]:
    """An exact convolution with an int32 bias, rescaled."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (call.operand(i) for i in range(8))
    result = _convolution(call, x, w, (x_zero, w_zero))
    if bias := call.input(8):
        result = call.one("Add", result, along(call.builder, bias, x.rank, 1))
    return _rescaled(
        call, result, [x_scale, along(call.builder, w_scale, x.rank, 1), y_scale], y_zero
    )
