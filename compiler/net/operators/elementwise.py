"""Operators that compute one element from the same element of each input."""

import operator as arithmetic
from collections.abc import Sequence
from math import inf
from typing import Any

from compiler.net.attributes import Mismatch, Shape, flag, integer, number, one_each, one_of
from compiler.net.facts import EVERYTHING, REPEATED, Facts, NumberRange, always_within
from compiler.net.maps import Map, Maps
from compiler.net.node import TypedNode
from compiler.net.operators.shapes import (
    broadcast,
    fits_into,
    has_rank,
    has_shape,
    listed,
    one_number,
    same_shape,
)
from compiler.net.spec import Kind, OpSpec, onnx_form, operator
from compiler.tensors.arithmetic import truncated
from compiler.tensors.dtypes import (
    ALL,
    BOOL,
    ELEMENT_BYTES,
    ELEMENTS,
    FLOATS,
    INTEGERS,
    MOVABLE,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    WIDE,
    WITHOUT_BFLOAT16,
)
from compiler.tensors.row_major import unit_free

ONNX_DTYPES = {number: name for number, name in ELEMENTS.items() if name in ELEMENT_BYTES}
"""The dtype names of ONNX's element types that kernels support."""


ARITHMETIC = ("Add", "Sub", "Mul", "Div")
"""The operators that a constant operand makes a scale or a shift of the other one."""


def dtype_of_element(number: int) -> str:
    """The dtype name of an ONNX element type; raises Mismatch if kernels do not support it."""
    if number not in ONNX_DTYPES:
        raise Mismatch(f"the element type {number} cannot be compiled")
    return ONNX_DTYPES[number]


def _together(node: TypedNode) -> list[Shape]:
    return [broadcast(*(value.shape for value in node.inputs if value is not None))]


def _clip(node: TypedNode) -> list[Shape]:
    for i, name in ((1, "min"), (2, "max")):
        bound = node.input(i)
        if bound is not None:
            one_number(f"its bound {name!r}", bound.shape)
    return [node.shape()]


def _prelu(node: TypedNode) -> list[Shape]:
    fits_into("its slope", node.shape(1), node.shape())
    return [node.shape()]


def _expanded_shape(node: TypedNode) -> dict[str, Shape]:
    """The shape of the result, which is larger than ONNX's operand where the input is."""
    target = node.vector(1, or_scalar=True)
    if any(size < 0 for size in target):
        raise Mismatch(f"it expands to the shape {listed(target)}, which has a negative size")
    return {"shape": broadcast(node.shape(), tuple(target))}


def _expand(node: TypedNode) -> list[Shape]:
    shape = tuple(node["shape"])
    fits_into("its input", node.shape(), shape)
    return [shape]


def _expand_maps(node: TypedNode, shapes: Sequence[Shape]) -> Maps:
    x = node.shape()
    return [[Map(0, lambda _, i: unit_free(i[len(i) - len(x) :], x))]]


def _batch_normalization(node: TypedNode) -> list[Shape]:
    x = node.shape()
    has_rank("its input", x, 1)
    channels = x[1] if len(x) > 1 else 1
    for i, name in enumerate(("scale", "bias", "mean", "variance"), 1):
        what = f"the input has the shape {listed(x)}"
        has_shape(f"its {name}", node.shape(i), (channels,), what)
    if len(node.outputs) > 1 and not node["training_mode"]:
        raise Mismatch("it has running statistics, which only training_mode=1 computes")
    return [x, (channels,), (channels,)]


def _unary(
    names: str, dtypes: frozenset[str], facts: Facts | None = None, **attributes: float
) -> dict[str, OpSpec]:
    numbers = {name: number(value) for name, value in attributes.items()}
    entry = operator(Kind.ELEMENTWISE, "T -> T", same_shape, numbers, facts=facts, T=dtypes)
    return dict.fromkeys(names.split(), entry)


def _binary(
    names: str, signature: str, dtypes: frozenset[str], facts: Facts | None = None
) -> dict[str, OpSpec]:
    entry = operator(Kind.ELEMENTWISE, signature, _together, facts=facts, T=dtypes)
    return dict.fromkeys(names.split(), entry)


def _power_flops(node: TypedNode) -> int:
    """A power of floats by 1, 2 or 3 is as cheap as a multiplication."""
    base = node.inputs[0]
    exponent = node.input(1)
    array = None if exponent is None else exponent.array
    if base is None or "float" not in base.dtype or array is None or array.size != 1:
        return _COSTLY
    return 1 if array.item() in (1, 2, 3) else _COSTLY


def clipped(inside: NumberRange, low: float, high: float) -> NumberRange:
    """The interval of numbers within another when they are clipped."""
    least, most = (min(max(bound, low), high) for bound in inside)
    return least, most


def _relu_interval(operands: Sequence[NumberRange]) -> NumberRange:
    return clipped(operands[0], 0.0, inf)


def _clip_interval(operands: Sequence[NumberRange]) -> NumberRange:
    x, low, high = (*operands, EVERYTHING, EVERYTHING)[:3]
    return clipped(x, low[0], high[1]) if low[0] <= high[1] else EVERYTHING


def _sum_interval(operands: Sequence[NumberRange]) -> NumberRange:
    (a, b), (c, d) = operands
    return a + c, b + d


def _difference_interval(operands: Sequence[NumberRange]) -> NumberRange:
    (a, b), (c, d) = operands
    return a - d, b - c


def _product_interval(operands: Sequence[NumberRange]) -> NumberRange:
    x, y = operands
    if inf in map(abs, (*x, *y)):
        return EVERYTHING
    products = [a * b for a in x for b in y]
    return min(products), max(products)


def largest(*extents: Any) -> Any:
    """The largest of some extents."""
    return max(extents)


def smallest(*extents: Any) -> Any:
    """The smallest of some extents."""
    return min(extents)


def _absolute(extent: Any) -> Any:
    return extent if extent >= 0 else -extent


def _sign(extent: Any) -> int:
    return int(extent > 0) - int(extent < 0)


def _both(first: bool, second: bool) -> bool:
    return first and second


def _either(first: bool, second: bool) -> bool:
    return first or second


def _unlike(first: bool, second: bool) -> bool:
    return first is not second


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    return then if condition else otherwise


_DIVISION, _COSTLY, _DEAR = 4, 12, 16
"""Operations of a division or the machine's own functions; of those that take a polynomial; and of
those that take several."""


_IS_INF = {"detect_negative": flag(1), "detect_positive": flag(1)}
_BATCH = {"epsilon": number(1e-5), "momentum": number(0.9), "training_mode": flag(0)}

ELEMENTWISE: dict[str, OpSpec] = {
    **_unary("Acos Acosh Asin Asinh Atan Atanh Mish", FLOATS, Facts(flops=_DEAR)),
    **_unary("Cosh Sinh Tan", FLOATS, Facts(flops=_DEAR, wide=True)),
    **_unary("Cos Erf Sin Tanh", FLOATS, Facts(flops=_COSTLY, interval=always_within(-1.0, 1.0))),
    **_unary("Sigmoid", FLOATS, Facts(flops=_COSTLY, interval=always_within(0.0, 1.0))),
    **_unary("Softplus", FLOATS, Facts(flops=_COSTLY)),
    **_unary("Exp Reciprocal", FLOATS, Facts(flops=_DIVISION, wide=True)),
    **_unary("HardSwish Log Sqrt", FLOATS, Facts(flops=_DIVISION)),
    **_unary("Softsign", FLOATS, Facts(flops=_DIVISION, interval=always_within(-1.0, 1.0))),
    **_unary("Ceil Floor Round", FLOATS, Facts(idempotent=True, steps=True)),
    **_unary("Abs", NUMBERS, Facts(exact=True, idempotent=True, on_extents=_absolute)),
    **_unary(
        "Sign",
        NUMBERS,
        Facts(interval=always_within(-1.0, 1.0), idempotent=True, steps=True, on_extents=_sign),
    ),
    **_unary(
        "Neg",
        SIGNED | FLOATS,
        Facts(exact=True, involution=True, on_extents=arithmetic.neg),
    ),
    **_unary(
        "Relu",
        SIGNED | FLOATS,
        Facts(exact=True, idempotent=True, keeps_codes=True, interval=_relu_interval),
    ),
    **_unary("Not", BOOL, Facts(involution=True, on_extents=arithmetic.not_)),
    **_unary("BitwiseNot", INTEGERS, Facts(involution=True)),
    **_unary("Celu", frozenset({"float32"}), Facts(flops=_COSTLY), alpha=1.0),
    **_unary("Elu", FLOATS, Facts(flops=_COSTLY), alpha=1.0),
    **_unary("ThresholdedRelu", FLOATS, alpha=1.0),
    **_unary("LeakyRelu", FLOATS, alpha=0.01),
    **_unary("HardSigmoid", FLOATS, Facts(interval=always_within(0.0, 1.0)), alpha=0.2, beta=0.5),
    **_unary(
        "Selu", FLOATS, Facts(flops=_COSTLY), alpha=1.6732631921768188, gamma=1.0507010221481323
    ),
    **_unary("Shrink", WITHOUT_BFLOAT16, bias=0.0, lambd=0.5),
    **_binary(
        "Add",
        "T T -> T",
        NUMBERS,
        Facts(
            commutative=True,
            neutral=(-0.0, -0.0),
            interval=_sum_interval,
            on_extents=arithmetic.add,
            derived=True,
        ),
    ),
    **_binary(
        "Sub",
        "T T -> T",
        NUMBERS,
        Facts(
            neutral=(None, 0.0),
            interval=_difference_interval,
            on_extents=arithmetic.sub,
            derived=True,
        ),
    ),
    **_binary(
        "Mul",
        "T T -> T",
        NUMBERS,
        Facts(
            commutative=True,
            neutral=(1.0, 1.0),
            interval=_product_interval,
            on_extents=arithmetic.mul,
            derived=True,
        ),
    ),
    **_binary(
        "Div",
        "T T -> T",
        NUMBERS,
        Facts(flops=_DIVISION, neutral=(None, 1.0), on_extents=truncated),
    ),
    **_binary("Max", "T* -> T", NUMBERS, Facts(commutative=True, exact=True, on_extents=largest)),
    **_binary("Min", "T* -> T", NUMBERS, Facts(commutative=True, exact=True, on_extents=smallest)),
    **_binary("BitwiseAnd BitwiseOr BitwiseXor", "T T -> T", INTEGERS, Facts(commutative=True)),
    **_binary("Equal", "T T -> bool", ALL, Facts(commutative=True, on_extents=arithmetic.eq)),
    **_binary("Greater", "T T -> bool", NUMBERS, Facts(on_extents=arithmetic.gt)),
    **_binary("GreaterOrEqual", "T T -> bool", NUMBERS, Facts(on_extents=arithmetic.ge)),
    **_binary("Less", "T T -> bool", NUMBERS, Facts(on_extents=arithmetic.lt)),
    **_binary("LessOrEqual", "T T -> bool", NUMBERS, Facts(on_extents=arithmetic.le)),
    **_binary("And", "T T -> bool", BOOL, Facts(commutative=True, on_extents=_both)),
    **_binary("Or", "T T -> bool", BOOL, Facts(commutative=True, on_extents=_either)),
    **_binary("Xor", "T T -> bool", BOOL, Facts(commutative=True, on_extents=_unlike)),
    "BatchNormalization": operator(
        Kind.ELEMENTWISE,
        "T S S V V -> T V? V?",
        _batch_normalization,
        _BATCH,
        T=FLOATS,
        S=FLOATS,
        V=FLOATS,
    ),
    "BitShift": operator(
        Kind.ELEMENTWISE,
        "T T -> T",
        _together,
        {"direction": one_of("LEFT", "RIGHT", required=True)},
        T=UNSIGNED,
    ),
    "Cast": operator(
        Kind.ELEMENTWISE,
        "T -> U",
        same_shape,
        {
            "to": integer(required=True),
            "saturate": flag(1),
            "round_mode": one_of("up", "down", "nearest"),  # for powers of two in a byte
        },
        result=lambda node: dtype_of_element(node["to"]),
        facts=Facts(steps=True, converts=True),
        T=MOVABLE,
    ),
    "Clip": operator(
        Kind.ELEMENTWISE,
        "T T? T? -> T",
        _clip,
        facts=Facts(exact=True, idempotent=True, clips=True, interval=_clip_interval),
        T=NUMBERS,
    ),
    "Expand": operator(
        Kind.ELEMENTWISE,
        "T -> T",
        _expand,
        {"shape": one_each(least=0)},
        maps=_expand_maps,
        onnx=onnx_form("T int64", {1: "shape"}, _expanded_shape),
        facts=REPEATED,
        T=ALL,
    ),
    "Gelu": operator(
        Kind.ELEMENTWISE,
        "T -> T",
        same_shape,
        {"approximate": one_of("none", "tanh")},
        facts=Facts(flops=_DEAR),
        T=FLOATS,
    ),
    "IsInf": operator(Kind.ELEMENTWISE, "T -> bool", same_shape, _IS_INF, T=FLOATS),
    "IsNaN": operator(Kind.ELEMENTWISE, "T -> bool", same_shape, T=FLOATS),
    "Mod": operator(
        Kind.ELEMENTWISE,
        "T T -> T",
        _together,
        {"fmod": flag(0)},
        facts=Facts(flops=_DIVISION),
        T=NUMBERS,
    ),
    "PRelu": operator(Kind.ELEMENTWISE, "T T -> T", _prelu, T=WIDE),
    "Pow": operator(
        Kind.ELEMENTWISE,
        "T E -> T",
        _together,
        facts=Facts(flops=_power_flops, wide=True),
        T=FLOATS | {"int32", "int64"},
        E=NUMBERS,
    ),
    "Where": operator(
        Kind.ELEMENTWISE,
        "bool T T -> T",
        _together,
        facts=Facts(exact=True, on_extents=_where),
        T=ALL,
    ),
}
"""The entries of this family, by operator."""
