"""Lowerings of activation functions."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from math import copysign, floor, isfinite, pi, sqrt
from typing import TypeVar

import numpy as np
from tvm import te, tirx

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import Scalar, elementwise, maximum, minimum, multiply
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call, dtype_of
from compiler.tensors.dtypes import INTEGERS

Elements = TypeVar("Elements", bound=Callable[..., Scalar])
"""A function of elements."""


ELEMENT_FUNCTIONS: dict[str, Callable[..., Scalar]] = {}
"""The functions of elements, by operator; others are functions of mathematics."""


def constant_like(x: Scalar, value: float) -> Scalar:
    """A constant of a scalar's dtype."""
    return tirx.const(value, dtype_of(x))


def _positive(x: Scalar, otherwise: Scalar) -> Scalar:
    """x above zero and for NaN, else another value."""
    return tirx.Select(x < constant_like(x, 0), otherwise, x)


def activation(type: str) -> Callable[[Elements], Elements]:
    """Register a function of elements, and of the attributes that its keywords name, as the
    lowering of an operator."""

    def register(function: Elements) -> Elements:
        named = [p for p in signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]

        def lower(context: Context) -> te.Tensor:
            own = {parameter.name: context[parameter.name] for parameter in named}
            return elementwise(context, partial(function, **own))

        lowering(type)(lower)
        ELEMENT_FUNCTIONS[type] = function
        return function

    return register


def element_function(type: str, **attributes: float) -> Callable[[Scalar], Scalar]:
    """An activation function of elements, with those of the attributes that it has."""
    if type not in ELEMENT_FUNCTIONS:
        return lambda x: call(type.lower(), x)
    function = ELEMENT_FUNCTIONS[type]
    own = {name: attributes[name] for name in signature(function).parameters if name in attributes}
    return partial(function, **own)


@activation("Relu")
def _relu(x: Scalar) -> Scalar:
    return _positive(x, constant_like(x, 0))


@activation("LeakyRelu")
def _leaky_relu(x: Scalar, *, alpha: float) -> Scalar:
    return _positive(x, multiply(x, constant_like(x, alpha)))


@activation("PRelu")
def _parametric_relu(x: Scalar, slope: Scalar) -> Scalar:
    return _positive(x, wrapping.multiply(x, slope))


@activation("ThresholdedRelu")
def _thresholded_relu(x: Scalar, *, alpha: float) -> Scalar:
    """x above alpha, else 0, of NaN too."""
    return tirx.Select(x > constant_like(x, alpha), x, constant_like(x, 0))


@activation("Elu")
def _elu(x: Scalar, *, alpha: float) -> Scalar:
    return _positive(x, multiply(constant_like(x, alpha), call("expm1", x)))


@activation("Celu")
def _celu(x: Scalar, *, alpha: float) -> Scalar:
    """x, or alpha (e**(x / alpha) - 1) below zero."""
    if alpha == 0:  # the limit, as TVM divides by no constant zero
        return _positive(x, constant_like(x, 0))
    return _positive(x, constant_like(x, alpha) * call("expm1", x / constant_like(x, alpha)))


@activation("Selu")
def _selu(x: Scalar, *, alpha: float, gamma: float) -> Scalar:
    return multiply(constant_like(x, gamma), _elu(x, alpha=alpha))


@activation("HardSigmoid")
def _hard_sigmoid(x: Scalar, *, alpha: float, beta: float) -> Scalar:
    line = multiply(constant_like(x, alpha), x) + constant_like(x, beta)
    return minimum(maximum(line, constant_like(x, 0)), constant_like(x, 1))


@activation("HardSwish")
def _hard_swish(x: Scalar) -> Scalar:
    """x times its hard sigmoid, max(0, min(1, x / 6 + 0.5)).

    Near -3 that is a difference of almost equal numbers: x + 3 has no error there, x / 6 has.
    """
    zero, six = constant_like(x, 0), constant_like(x, 6)
    clipped = minimum(maximum(x + constant_like(x, 3), zero), six)
    return x * multiply(constant_like(x, 1 / 6), clipped)


@lowering("Gelu")
def lower_gelu(context: Context) -> te.Tensor:
    """Gaussian error linear unit."""
    approximate = context["approximate"]
    return elementwise(context, lambda x: _gelu(x, approximate, context.output.dtype))


def _gelu(x: Scalar, approximate: str, dtype: str) -> Scalar:
    """x times the normal distribution function, exactly or by tanh.

    1 + erf(x) cancels below zero: it is off by 6e-8, in which a float of 16 bits has digits left.
    """
    if approximate == "tanh":  # (1 + tanh(u)) / 2 is the sigmoid of 2 u
        line = x + constant_like(x, 0.044715) * (x * x * x)
        return x * call("sigmoid", constant_like(x, 2 * sqrt(2 / pi)) * line)
    if dtype == "float32":
        share = constant_like(x, 1) + call("erf", x * constant_like(x, sqrt(0.5)))
    else:
        share = call("erfc", x * constant_like(x, -sqrt(0.5)))
    return constant_like(x, 0.5) * x * share


@activation("Softplus")
def _softplus(x: Scalar) -> Scalar:
    """log(1 + e**x) without overflow."""
    zero = constant_like(x, 0)
    return maximum(x, zero) + call("log1p", call("exp", zero - tirx.abs(x)))


@activation("Mish")
def _mish(x: Scalar) -> Scalar:
    return x * call("tanh", _softplus(x))


@activation("Softsign")
def _softsign(x: Scalar) -> Scalar:
    return x / (constant_like(x, 1) + tirx.abs(x))


@activation("Shrink")
def _shrink(x: Scalar, *, lambd: float, bias: float) -> Scalar:
    """x moved towards zero by `bias` where it is beyond `lambd`, else 0."""
    if dtype_of(x) in INTEGERS:
        return _shrunk_integer(x, lambd, bias)
    upper = x - constant_like(x, bias)
    upper = tirx.Select(x > constant_like(x, lambd), upper, constant_like(x, 0))
    return tirx.Select(x < constant_like(x, -lambd), x + constant_like(x, bias), upper)


def _shrunk_integer(x: Scalar, limit: float, bias: float) -> Scalar:
    """Shrink of an integer: real arithmetic, whose result is truncated towards zero."""
    whole = _floor(bias)
    rest = bias % 1 != 0
    up, down = _moved(x, whole), _moved(x, -whole)
    if rest:
        up = tirx.Select(_compared(x, -whole, above=False), _moved(x, whole + 1), up)
        down = tirx.Select(_compared(x, whole, above=True), _moved(x, -whole - 1), down)
    edge = _floor(limit)
    upper = tirx.Select(_compared(x, edge, above=True), down, constant_like(x, 0))
    return tirx.Select(_compared(x, -edge, above=False), up, upper)


def _floor(value: float) -> int:
    """The integer below, which no tensor's integers reach where it is not finite."""
    return floor(value) if isfinite(value) else int(copysign(1 << 70, value))


def _moved(x: Scalar, by: int) -> Scalar:
    """x plus an integer of any size, modulo 2 to the power of its type's bits."""
    low = np.uint64(abs(by) & ((1 << 64) - 1))
    step = constant_like(x, int(low.astype(dtype_of(x))))
    return wrapping.add(x, step) if by >= 0 else wrapping.subtract(x, step)


def _compared(x: Scalar, value: int, above: bool) -> Scalar:
    """Whether x is above, or below, an integer that its type may not hold."""
    limits = np.iinfo(dtype_of(x))
    if not limits.min <= value <= limits.max:
        return tirx.const((value < 0) == above, "bool")
    compare = wrapping.greater if above else wrapping.less
    return compare(x, constant_like(x, value))
