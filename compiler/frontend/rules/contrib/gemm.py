"""Rules for fused GEMMs and convolutions."""

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.activations import (
    activated,
    fast_gelu,
    named_parameters,
    ordered_parameters,
)
from compiler.frontend.rules.contrib.registry import contrib, standard, transposed
from compiler.net.graph import Value


def _operand(call: Call, index: int, side: str) -> Value:
    """An operand of a MatMul, transposed as the attributes of its side say.

    A transposed batch is the last but one axis, in front of which the others are the batch.
    """
    value = call.operand(index)
    axes = list(range(value.rank))
    if value.rank > 2 and call.attributes[f"transBatch{side}"]:
        axes = [*axes[1:-1], 0, axes[-1]]
    if value.rank > 1 and call.attributes[f"trans{side}"]:
        axes[-2:] = axes[:-3:-1]
    return transposed(call, value, axes)


def _scaled(call: Call, value: Value, factor: float) -> Value:
    return value if factor == 1 else call.one("Mul", value, call.scalar(factor))


@contrib("FusedMatMul", "FusedMatMulActivation")
def rewrite_fused_matmul(call: Call) -> list[Value]:
    """A MatMul of transposed operands, scaled and activated."""
    result = call.one("MatMul", _operand(call, 0, "A"), _operand(call, 1, "B"))
    result = _scaled(call, result, call.attributes["alpha"])
    return [activated(call, result, named_parameters(call))]


@contrib("FusedGemm")
def rewrite_fused_gemm(call: Call) -> list[Value]:
    """A Gemm and its activation."""
    names = ("alpha", "beta", "transA", "transB")
    attributes = {name: call.attributes[name] for name in names}
    result = standard(call, "Gemm", call.inputs, attributes)
    return [activated(call, result, named_parameters(call))]


@contrib("GemmFastGelu")
def rewrite_gemm_fast_gelu(call: Call) -> list[Value]:
    """Gelu by tanh of a MatMul and a bias."""
    result = call.one("MatMul", call.data, call.operand(1))
    bias = call.input(2)
    return [fast_gelu(call, result if bias is None else call.one("Add", result, bias))]


def _window(call: Call) -> dict[str, object]:
    """The attributes of the convolution itself."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return {name: call.attributes[name] for name in names if name in call.attributes}


@contrib("FusedConv")
def rewrite_fused_conv(call: Call) -> list[Value]:
    """A convolution, what is added to it, and its activation."""
    result = standard(call, "Conv", call.inputs[:3], _window(call))
    if addend := call.input(3):
        result = call.one("Add", result, addend)
    return [activated(call, result, ordered_parameters(call))]


def channels_first(call: Call, value: Value) -> Value:
    """A tensor whose channels are last with channels second."""
    return transposed(call, value, [0, value.rank - 1, *range(1, value.rank - 1)])


def channels_last(call: Call, value: Value) -> Value:
    """A tensor whose channels are second with channels last."""
    return transposed(call, value, [0, *range(2, value.rank), 1])


@contrib("NhwcConv")
def rewrite_nhwc_conv(call: Call) -> list[Value]:
    """A convolution whose image and filters have their channels last."""
    operands = [channels_first(call, call.operand(i)) for i in (0, 1)]
    result = standard(call, "Conv", [*operands, call.input(2)], _window(call))
    return [channels_last(call, result)]
