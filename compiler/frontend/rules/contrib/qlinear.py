"""Rules for quantised elementwise operators, concatenations and pools.

Each dequantises its inputs, computes in floating point, and quantises the result.
"""

from collections.abc import Callable

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.gemm import channels_first, channels_last
from compiler.frontend.rules.contrib.quantised import dequantised, quantised
from compiler.frontend.rules.contrib.registry import contrib, standard
from compiler.net.graph import Value
from compiler.net.operators import Mismatch


def _number(call: Call, index: int) -> Value:
    """The quantised input of an index, whose scale and zero point follow it."""
    return dequantised(call, call.operand(index), call.operand(index + 1), call.input(index + 2))


def _requantised(call: Call, value: Value, index: int) -> Value:
    """The result, whose scale and zero point are the inputs from an index on."""
    return quantised(call, value, call.operand(index), call.input(index + 1), call.data.dtype)


@contrib("QLinearAdd", "QLinearMul")
def rewrite_binary(call: Call) -> list[Value]:
    """A sum or an elementwise multiplication."""
    result = call.one(call.op_type.removeprefix("QLinear"), _number(call, 0), _number(call, 3))
    return [_requantised(call, result, 6)]


@contrib("QLinearWhere")
def rewrite_where(call: Call) -> list[Value]:
    """A choice between elements of two tensors."""
    chosen = call.one("Where", call.data, _number(call, 1), _number(call, 4))
    return [quantised(call, chosen, call.operand(7), call.operand(8), call.operand(8).dtype)]


def _unary(call: Call, function: Callable[[Value], Value]) -> list[Value]:
    return [_requantised(call, function(_number(call, 0)), 3)]


@contrib("QLinearLeakyRelu")
def rewrite_leaky_relu(call: Call) -> list[Value]:
    """LeakyRelu."""
    return _unary(call, lambda x: call.one("LeakyRelu", x, alpha=call.attributes["alpha"]))


@contrib("QLinearSigmoid")
def rewrite_sigmoid(call: Call) -> list[Value]:
    """Sigmoid."""
    return _unary(call, lambda x: call.one("Sigmoid", x))


@contrib("QLinearSoftmax")
def rewrite_qlinear_softmax(call: Call) -> list[Value]:
    """Softmax of an axis; of an opset before 13 also of all that follow."""
    axis = call.axis()

    def softmax(x: Value) -> Value:
        old = call.attributes["opset"] < 13
        flat = call.reshaped(x, [*x.shape[:axis], -1]) if old else x
        return call.reshaped(call.one("Softmax", flat, axis=axis), x.shape)

    return _unary(call, softmax)


@contrib("QLinearReduceMean")
def rewrite_reduce_mean(call: Call) -> list[Value]:
    """The mean of some axes."""
    kept = {name: call.attributes[name] for name in ("axes", "keepdims")}
    return _unary(call, lambda x: standard(call, "ReduceMean", [x], kept))


def _pooled(call: Call, op_type: str) -> list[Value]:
    """A pool of channels that may be last."""
    attributes = dict(call.attributes)
    last = attributes.pop("channels_last")

    def pool(x: Value) -> Value:
        if not last:
            return standard(call, op_type, [x], attributes)
        return channels_last(call, standard(call, op_type, [channels_first(call, x)], attributes))

    return _unary(call, pool)


@contrib("QLinearAveragePool")
def rewrite_average_pool(call: Call) -> list[Value]:
    """The average of windows."""
    return _pooled(call, "AveragePool")


@contrib("QLinearGlobalAveragePool")
def rewrite_global_average_pool(call: Call) -> list[Value]:
    """The average of all pixels."""
    return _pooled(call, "GlobalAveragePool")


@contrib("QLinearConcat")
def rewrite_qlinear_concat(call: Call) -> list[Value]:
    """A concatenation of inputs of different scales."""
    if len(call.inputs) % 3 != 2:
        raise Mismatch(f"its {len(call.inputs)} inputs are not two and three for each tensor")
    numbers = [_number(call, index) for index in range(2, len(call.inputs), 3)]
    axis = call.attributes["axis"]
    whole = standard(call, "Concat", [*numbers], {"axis": axis})
    return [quantised(call, whole, call.data, call.operand(1), call.operand(1).dtype)]


@contrib("QLinearConv")
def rewrite_channels_last_qlinear_conv(call: Call) -> list[Value]:
    """The standard operator, on channels that may be last."""
    attributes = dict(call.attributes)
    if not attributes.pop("channels_last"):
        return [standard(call, "QLinearConv", call.inputs, attributes)]
    x = channels_first(call, call.data)
    return [channels_last(call, standard(call, "QLinearConv", [x, *call.inputs[1:]], attributes))]
