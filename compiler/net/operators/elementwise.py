"""Operators that compute one element from the same element of each input."""

from collections.abc import Sequence

from compiler.net.maps import Map, Maps
from compiler.net.operators.shapes import (
    broadcast,
    fits_into,
    has_rank,
    has_shape,
    listed,
    one_number,
    same_shape,
)
from compiler.net.spec import (
    Kind,
    Mismatch,
    OpSpec,
    Shape,
    Use,
    flag,
    integer,
    number,
    one_of,
    operator,
)
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


def dtype_of_element(number: int) -> str:
    """The dtype name of an ONNX element type; raises Mismatch if kernels do not support it."""
    if number not in ONNX_DTYPES:
        raise Mismatch(f"the element type {number} cannot be compiled")
    return ONNX_DTYPES[number]


def _together(use: Use) -> list[Shape]:
    return [broadcast(*(value.shape for value in use.inputs if value is not None))]


def _clip(use: Use) -> list[Shape]:
    for i, name in ((1, "min"), (2, "max")):
        bound = use.input(i)
        if bound is not None:
            one_number(f"its bound {name!r}", bound.shape)
    return [use.shape()]


def _prelu(use: Use) -> list[Shape]:
    fits_into("its slope", use.shape(1), use.shape())
    return [use.shape()]


def _expand(use: Use) -> list[Shape]:
    target = use.vector(1, or_scalar=True)
    if any(size < 0 for size in target):
        raise Mismatch(f"it expands to the shape {listed(target)}, which has a negative size")
    return [broadcast(use.shape(), tuple(target))]


def _expand_maps(use: Use, shapes: Sequence[Shape]) -> Maps:
    x = use.shape()
    return [[Map(0, lambda _, i: unit_free(i[len(i) - len(x) :], x))]]


def _batch_normalization(use: Use) -> list[Shape]:
    x = use.shape()
    has_rank("its input", x, 1)
    channels = x[1] if len(x) > 1 else 1
    for i, name in enumerate(("scale", "bias", "mean", "variance"), 1):
        what = f"the input has the shape {listed(x)}"
        has_shape(f"its {name}", use.shape(i), (channels,), what)
    if use.outputs > 1 and not use["training_mode"]:
        raise Mismatch("it has running statistics, which only training_mode=1 computes")
    return [x, (channels,), (channels,)]


def _unary(names: str, dtypes: frozenset[str], **attributes: float) -> dict[str, OpSpec]:
    numbers = {name: number(value) for name, value in attributes.items()}
    entry = operator(Kind.ELEMENTWISE, "T -> T", same_shape, numbers, T=dtypes)
    return dict.fromkeys(names.split(), entry)


def _binary(names: str, signature: str, dtypes: frozenset[str]) -> dict[str, OpSpec]:
    entry = operator(Kind.ELEMENTWISE, signature, _together, T=dtypes)
    return dict.fromkeys(names.split(), entry)


_IS_INF = {"detect_negative": flag(1), "detect_positive": flag(1)}
_BATCH = {"epsilon": number(1e-5), "momentum": number(0.9), "training_mode": flag(0)}

ELEMENTWISE: dict[str, OpSpec] = {
    **_unary(
        "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish"
        " Reciprocal Round Sigmoid Sin Sinh Softplus Softsign Sqrt Tan Tanh",
        FLOATS,
    ),
    **_unary("Abs Sign", NUMBERS),
    **_unary("Neg Relu", SIGNED | FLOATS),
    **_unary("Not", BOOL),
    **_unary("BitwiseNot", INTEGERS),
    **_unary("Celu", frozenset({"float32"}), alpha=1.0),
    **_unary("Elu ThresholdedRelu", FLOATS, alpha=1.0),
    **_unary("LeakyRelu", FLOATS, alpha=0.01),
    **_unary("HardSigmoid", FLOATS, alpha=0.2, beta=0.5),
    **_unary("Selu", FLOATS, alpha=1.6732631921768188, gamma=1.0507010221481323),
    **_unary("Shrink", WITHOUT_BFLOAT16, bias=0.0, lambd=0.5),
    **_binary("Add Sub Mul Div", "T T -> T", NUMBERS),
    **_binary("Max Min", "T* -> T", NUMBERS),
    **_binary("BitwiseAnd BitwiseOr BitwiseXor", "T T -> T", INTEGERS),
    **_binary("Equal", "T T -> bool", ALL),
    **_binary("Greater GreaterOrEqual Less LessOrEqual", "T T -> bool", NUMBERS),
    **_binary("And Or Xor", "T T -> bool", BOOL),
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
        result=lambda use: dtype_of_element(use["to"]),
        T=MOVABLE,
    ),
    "Clip": operator(Kind.ELEMENTWISE, "T T? T? -> T", _clip, T=NUMBERS),
    "Expand": operator(
        Kind.ELEMENTWISE, "T int64 -> T", _expand, structural=(1,), maps=_expand_maps, T=ALL
    ),
    "Gelu": operator(
        Kind.ELEMENTWISE,
        "T -> T",
        same_shape,
        {"approximate": one_of("none", "tanh")},
        T=FLOATS,
    ),
    "IsInf": operator(Kind.ELEMENTWISE, "T -> bool", same_shape, _IS_INF, T=FLOATS),
    "IsNaN": operator(Kind.ELEMENTWISE, "T -> bool", same_shape, T=FLOATS),
    "Mod": operator(Kind.ELEMENTWISE, "T T -> T", _together, {"fmod": flag(0)}, T=NUMBERS),
    "PRelu": operator(Kind.ELEMENTWISE, "T T -> T", _prelu, T=WIDE),
    "Pow": operator(
        Kind.ELEMENTWISE,
        "T E -> T",
        _together,
        T=FLOATS | {"int32", "int64"},
        E=NUMBERS,
    ),
    "Where": operator(Kind.ELEMENTWISE, "bool T T -> T", _together, T=ALL),
}
"""The entries of this family, by operator."""
