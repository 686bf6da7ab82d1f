"""Rules for quantised GEMMs and attention, whose scales are operands."""

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.attention import refuse_self_attention, self_attention
from compiler.frontend.rules.contrib.registry import contrib, standard, transposed
from compiler.frontend.rules.quantised import dynamically_quantised
from compiler.net.graph import Value
from compiler.tensors.dtypes import element_type


def quantised(call: Call, value: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """A value quantised to integers; the zero point is 0 if it is left out."""
    zero = call.builder.constant(0, dtype) if zero is None else zero
    return standard(call, "QuantizeLinear", [value, scale, zero])


def dequantised(call: Call, value: Value, scale: Value, zero: Value | None) -> Value:
    """The numbers that quantised integers stand for."""
    return standard(call, "DequantizeLinear", [value, scale, zero])


def scaled_matmul(
    call: Call,
    operands: tuple[Value, Value],
    scales: tuple[Value, Value],
    zeros: list[Value | None],
) -> Value:
    """An exact MatMul of integers as a floating-point number."""
    accumulated = standard(call, "MatMulInteger", [*operands, *zeros])
    scale = call.one("Mul", *scales)
    return call.one("Mul", call.one("Cast", accumulated, to=element_type(scale.dtype)), scale)


def biased(call: Call, value: Value, bias: Value | None) -> Value:
    """A value plus a bias, if there is one."""
    return value if bias is None else call.one("Add", value, bias)


@contrib("DynamicQuantizeMatMul")
def rewrite_dynamic_quantize_matmul(call: Call) -> list[Value]:
    """An exact MatMul of bytes of the left matrix's range."""
    (a, a_scale, a_zero), b = dynamically_quantised(call, call.data), call.operand(1)
    zeros = [a_zero, call.input(3)]
    result = scaled_matmul(call, (a, b), (a_scale, call.operand(2)), zeros)
    return [biased(call, result, call.input(4))]


@contrib("MatMulIntegerToFloat")
def rewrite_matmul_integer_to_float(call: Call) -> list[Value]:
    """An exact MatMul, scaled."""
    a, b, a_scale, b_scale = (call.operand(i) for i in range(4))
    zeros = [call.input(4), call.input(5)]
    return [biased(call, scaled_matmul(call, (a, b), (a_scale, b_scale), zeros), call.input(6))]


def _flipped(call: Call, index: int, attribute: str) -> Value:
    value = call.operand(index)
    return transposed(call, value, [1, 0]) if call.attributes[attribute] else value


@contrib("QGemm")
def rewrite_qgemm(call: Call) -> list[Value]:
    """An exact GEMM with an int32 bias, scaled, and quantised if the result has a scale."""
    a, b = _flipped(call, 0, "transA"), _flipped(call, 3, "transB")
    accumulated = standard(call, "MatMulInteger", [a, b, call.input(2), call.input(5)])
    accumulated = biased(call, accumulated, call.input(6))
    scale = call.one("Mul", call.operand(1), call.operand(4))
    alpha = call.builder.constant(call.attributes["alpha"], scale.dtype)
    number = call.one("Cast", accumulated, to=element_type(scale.dtype))
    result = call.one("Mul", number, call.one("Mul", scale, alpha))
    y_scale, y_zero = call.input(7), call.input(8)
    if y_scale is None:
        return [result]
    return [quantised(call, result, y_scale, y_zero, call.data.dtype)]


@contrib("QAttention")
def rewrite_qattention(call: Call) -> list[Value]:
    """Attention whose projection is an exact GEMM."""
    refuse_self_attention(call)
    x, weight, bias, x_scale, weight_scale = (call.operand(i) for i in range(5))
    zeros = [call.input(6), call.input(7)]
    projected = scaled_matmul(call, (x, weight), (x_scale, weight_scale), zeros)
    projected = call.one("Add", projected, bias)
    widths = [weight.shape[-1] // 3] * 3
    results = self_attention(call, projected, widths, call.input(5), call.input(8))
    return results[: len(call.used)]


@contrib("QuantizeLinear", "DequantizeLinear")
def rewrite_linear(call: Call) -> list[Value]:
    """The standard operators."""
    return [standard(call, call.op_type, call.inputs, call.attributes)]
