"""Elementwise operators, with and without broadcasting."""

from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.catalogue.registry import generates
from tests.fuzz.draw import ANY, FLOATS, INTEGERS, NUMBERS, UNSIGNED, Shape
from tests.fuzz.grower import Grower

_DOMAINS = {
    "Acos": (-0.95, 0.95), "Asin": (-0.95, 0.95), "Atanh": (-0.95, 0.95), "Acosh": (1.05, 9.0),
    "Log": (0.05, 9.0), "Sqrt": (0.0, 9.0), "Reciprocal": (0.1, 4.0), "Exp": (-9.0, 6.0),
    "Sinh": (-5.0, 5.0), "Cosh": (-5.0, 5.0), "Tan": (-1.2, 1.2), "Sin": (-9.0, 9.0),
    "Cos": (-9.0, 9.0),
}  # fmt: skip


@generates(
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Identity IsInf"
    " IsNaN Log Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan"
    " Tanh"
)
def unary(g: Grower, op: str) -> None:
    """Operators of one tensor."""
    dtypes = NUMBERS if op in ("Abs", "Neg", "Relu", "Sign", "Identity") else FLOATS
    domain = _DOMAINS.get(op)
    x = g.tensor(ANY if op == "Identity" else dtypes, values=domain or (-2, 2), within=bool(domain))
    detect: dict[str, Any] = {}
    if op == "IsInf" and g.draw.chance(0.5):
        detect = {f"detect_{g.draw.choice(['negative', 'positive'])}": 0}
    g.emit(op, [x], **detect)


_PARAMETERS = {
    "Celu": ("alpha",), "Elu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",), "Selu": ("alpha", "gamma"), "Shrink": ("lambd", "bias"),
    "ThresholdedRelu": ("alpha",), "Swish": ("alpha",),
}  # fmt: skip


@generates("Celu Elu HardSigmoid LeakyRelu Selu Shrink ThresholdedRelu Swish")
def parametric(g: Grower, op: str) -> None:
    """Operators of one tensor with numbers as attributes."""
    x = g.tensor(NUMBERS if op == "Shrink" else FLOATS)
    names = g.draw.some(_PARAMETERS[op], 0.6)
    numbers: dict[str, Any] = {name: g.draw.choice([-1.5, 0.0, 0.1, 0.5, 1.5]) for name in names}
    g.emit(op, [x], **numbers)


@generates("Gelu")
def gelu(g: Grower, op: str) -> None:
    """Both approximations."""
    g.emit(op, [g.tensor(FLOATS)], approximate=g.draw.choice([None, "none", "tanh"]))


@generates("Not")
def negation(g: Grower, op: str) -> None:
    """Of truth values."""
    g.emit(op, [g.tensor(["bool"])])


@generates("BitwiseNot")
def bits(g: Grower, op: str) -> None:
    """Of integers."""
    g.emit(op, [g.tensor(INTEGERS)])


def broadcastable(g: Grower, shape: Shape) -> Shape:
    """A shape that broadcasts with another one."""
    kept = tuple(1 if g.draw.chance(0.3) else size for size in shape)
    longer = (g.draw.size(), *kept) if len(shape) < 4 and g.draw.chance(0.1) else kept
    return g.draw.choice([shape, kept, kept[g.draw.randint(0, len(kept)) :], longer, ()])


def broadcasts(left: Shape, right: Shape) -> bool:
    """Whether two shapes broadcast."""
    return all(a == b or 1 in (a, b) for a, b in zip(left[::-1], right[::-1], strict=False))


def partner(
    g: Grower, x: str, values: tuple[float, float] = (-2.0, 2.0), within: bool = False
) -> str:
    """A second operand of the same dtype."""
    shape = g.values[x].shape
    return g.tensor(
        [g.values[x].dtype.name],
        lambda s: broadcasts(shape, s),
        lambda: broadcastable(g, shape),
        values,
        within,
    )


_BINARY = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), NUMBERS),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), NUMBERS),
    **dict.fromkeys(("And", "Or", "Xor"), ("bool",)),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), INTEGERS),
    "Equal": ANY,
}


@generates(
    "Add Sub Mul Max Min Greater GreaterOrEqual Less LessOrEqual And Or Xor BitwiseAnd BitwiseOr"
    " BitwiseXor Equal"
)
def binary(g: Grower, op: str) -> None:
    """Operators of two tensors that broadcast."""
    x = g.tensor(_BINARY[op])
    pair = [x, partner(g, x)]
    g.draw.shuffle(pair)
    g.emit(op, pair)


@generates("Div Mod")
def division(g: Grower, op: str) -> None:
    """By what is not zero."""
    x = g.tensor(NUMBERS)
    y = partner(g, x, (0.5, 4.0), within=True)
    g.require(bool((g.values[y] != 0).all()))
    fmod = int(g.values[x].dtype.kind == "f" or g.draw.chance(0.3)) if op == "Mod" else None
    g.emit(op, [x, y], fmod=fmod or None)


@generates("Pow")
def power(g: Grower, op: str) -> None:
    """Powers of positive numbers, and of integers."""
    x = g.tensor((*FLOATS, "int32", "int64"), values=(0.2, 3.0), within=True)
    exponent = np.array(g.draw.choice([0, 1, 2, 3]), g.draw.dtype((*FLOATS, "int32", "int64")))
    g.emit(op, [x, partner(g, x, (0, 2), True) if g.draw.chance(0.5) else g.new(exponent)])


@generates("BitShift")
def shift(g: Grower, op: str) -> None:
    """To both sides."""
    x = g.tensor(UNSIGNED)
    y = partner(g, x, (0, 2), within=True)
    g.emit(op, [x, y], direction=g.draw.choice(["LEFT", "RIGHT"]))


@generates("Sum Mean")
def variadic(g: Grower, op: str) -> None:
    """One to four tensors."""
    x = g.tensor(FLOATS)
    g.emit(op, [x, *(partner(g, x) for _ in range(g.draw.randint(0, 3)))])


@generates("PRelu")
def slope(g: Grower, op: str) -> None:
    """A slope broadcasts to the data only."""
    x = g.tensor(NUMBERS)
    shape = g.values[x].shape
    kept = [size if g.draw.chance(0.7) else 1 for size in shape]
    g.emit(op, [x, g.like(x, kept[g.draw.randint(0, len(kept)) :])])


@generates("Where")
def where(g: Grower, op: str) -> None:
    """Three operands that broadcast."""
    x = g.tensor(ANY)
    condition = g.tensor(
        ["bool"],
        lambda s: broadcasts(s, g.values[x].shape),
        lambda: broadcastable(g, g.values[x].shape),
    )
    g.emit(op, [condition, x, partner(g, x)])


@generates("Clip")
def clip(g: Grower, op: str) -> None:
    """Either bound may be left out; they were attributes before opset 11."""
    x = g.tensor(NUMBERS)
    dtype = g.values[x].dtype
    low, high = (g.draw.chance(0.7) for _ in range(2))
    if g.opset < 11:
        g.emit(op, [x], min=-1.0 if low else None, max=1.5 if high else None)
        return
    bounds = [g.new(np.array(v, dtype)) if use else "" for v, use in ((1, low), (3, high))]
    g.emit(op, [x, *bounds])


@generates("Cast CastLike")
def cast(g: Grower, op: str) -> None:
    """To any dtype that can hold the values: what else would come out is not defined."""
    x = g.tensor(ANY)
    dtype = g.draw.dtype(ANY)
    array = g.values[x]
    if dtype in INTEGERS and array.dtype.kind in "fV":
        limits = np.iinfo(dtype)
        g.require(bool(((array > float(limits.min)) & (array < float(limits.max))).all()))
    if op == "CastLike":
        g.emit(op, [x, g.new(g.draw.array((1,), dtype))])
    else:
        g.emit(op, [x], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


@generates("Dropout")
def dropout(g: Grower, op: str) -> None:
    """The identity, with a mask now and then."""
    ratio = [g.constant(np.array(0.5, np.float32))] if g.opset >= 12 and g.draw.chance(0.5) else []
    g.emit(op, [g.tensor(FLOATS), *ratio], g.draw.choice([1, 2]))
