"""Rules for activations: the Gelu family, and those that onnxruntime fuses into GEMMs."""

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.registry import contrib, standard
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "Gelu": (),
    "HardSigmoid": ("alpha", "beta"),
    "HardSwish": (),
    "LeakyRelu": ("alpha",),
    "Mish": (),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}
"""Activations that GEMMs and convolutions may have, with the attributes that they take in order."""


def activated(call: Call, value: Value, given: dict[str, float]) -> Value:
    """The activation that the node names, on its result; parameters by name."""
    name = call.attributes.get("activation", "")
    if not name:
        return value
    if name == "Clip":
        return standard(call, "Clip", [value, *map(call.scalar, given.values())])
    if name not in _PARAMETERS:
        known = ", ".join(sorted([*_PARAMETERS, "Clip"]))
        raise Unsupported(f"its activation {name!r} is not known", f"use one of {known}")
    return call.one(name, value, **given)


def ordered_parameters(call: Call) -> dict[str, float]:
    """The parameters of a convolution's activation, which are a list."""
    name, values = call.attributes.get("activation", ""), call.attributes.get("activation_params")
    names = ("min", "max") if name == "Clip" else _PARAMETERS.get(name, ())
    return dict(zip(names, values or [], strict=False))


def named_parameters(call: Call) -> dict[str, float]:
    """The parameters of a GEMM's activation, which are attributes."""
    names = _PARAMETERS.get(call.attributes.get("activation", ""), ())
    values = {name: call.attributes.get(f"activation_{name}") for name in names}
    return {name: value for name, value in values.items() if value is not None}


def fast_gelu(call: Call, value: Value) -> Value:
    """Gelu by its tanh approximation."""
    return call.one("Gelu", value, approximate="tanh")


@contrib("Gelu")
def rewrite_gelu(call: Call) -> list[Value]:
    """The standard Gelu."""
    return [call.one("Gelu", call.data)]


@contrib("BiasGelu")
def rewrite_bias_gelu(call: Call) -> list[Value]:
    """Gelu of a sum."""
    return [call.one("Gelu", call.one("Add", call.data, call.operand(1)))]


@contrib("FastGelu")
def rewrite_fast_gelu(call: Call) -> list[Value]:
    """Gelu by tanh, of a sum if there is a bias."""
    bias = call.input(1)
    return [fast_gelu(call, call.data if bias is None else call.one("Add", call.data, bias))]


@contrib("QuickGelu")
def rewrite_quick_gelu(call: Call) -> list[Value]:
    """`x * sigmoid(alpha * x)`."""
    alpha = call.attributes["alpha"]
    scaled = call.data if alpha == 1 else call.one("Mul", call.data, call.scalar(alpha))
    return [call.one("Mul", call.data, call.one("Sigmoid", scaled))]


@contrib("BiasSplitGelu")
def rewrite_bias_split_gelu(call: Call) -> list[Value]:
    """The first half of a sum, times Gelu of the second half."""
    whole = call.one("Add", call.data, call.operand(1))
    half = whole.shape[-1] // 2
    left, right = call.parts(whole, -1, [half, half])
    return [call.one("Mul", left, call.one("Gelu", right))]


@contrib("BiasAdd")
def rewrite_bias_add(call: Call) -> list[Value]:
    """Two Adds."""
    return [call.one("Add", call.one("Add", call.data, call.operand(1)), call.operand(2))]


@contrib("BiasSoftmax")
def rewrite_bias_softmax(call: Call) -> list[Value]:
    """Softmax of a sum, over an axis and all that follow."""
    x = call.one("Add", call.data, call.operand(1))
    axis = call.attributes["axis"] % max(x.rank, 1)
    flat = call.reshaped(x, [*x.shape[:axis], -1])
    return [call.reshaped(call.one("Softmax", flat, axis=axis), x.shape)]
