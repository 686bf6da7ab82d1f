"""Lowerings of activation functions."""

from math import copysign, floor, isfinite, pi, sqrt

import numpy as np
from tvm import te, tirx

from compiler.kernels.ops import wrapping
from compiler.kernels.ops.common import Scalar, elementwise, maximum, minimum, multiply
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call, dtype_of
from compiler.tensors.dtypes import INTEGERS


def constant_like(x: Scalar, value: float) -> Scalar:
    """A constant of a scalar's dtype."""
    return tirx.const(value, dtype_of(x))


def _positive(x: Scalar, otherwise: Scalar) -> Scalar:
    """x above zero and for NaN, else another value."""
    return tirx.Select(x < constant_like(x, 0), otherwise, x)


def softplus(x: Scalar) -> Scalar:
    """log(1 + e**x) without overflow."""
    zero = constant_like(x, 0)
    return maximum(x, zero) + call("log1p", call("exp", zero - tirx.abs(x)))


def gelu(x: Scalar, approximate: str, dtype: str) -> Scalar:
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


def _parameter(context: Context, name: str) -> float:
    return float(context.attribute(name))


@lowering("Relu")
def lower_relu(context: Context) -> te.Tensor:
    """max(x, 0)."""
    return elementwise(context, lambda x: _positive(x, constant_like(x, 0)))


@lowering("LeakyRelu")
def lower_leaky_relu(context: Context) -> te.Tensor:
    """x, or alpha x below zero."""
    alpha = _parameter(context, "alpha")
    return elementwise(context, lambda x: _positive(x, multiply(x, constant_like(x, alpha))))


@lowering("PRelu")
def lower_prelu(context: Context) -> te.Tensor:
    """x, or slope x below zero."""
    return elementwise(context, lambda x, slope: _positive(x, wrapping.multiply(x, slope)))


@lowering("ThresholdedRelu")
def lower_thresholded_relu(context: Context) -> te.Tensor:
    """x above alpha, else 0, of NaN too."""
    alpha = _parameter(context, "alpha")
    return elementwise(
        context, lambda x: tirx.Select(x > constant_like(x, alpha), x, constant_like(x, 0))
    )


@lowering("Elu")
def lower_elu(context: Context) -> te.Tensor:
    """x, or alpha (e**x - 1) below zero."""
    alpha = _parameter(context, "alpha")
    return elementwise(
        context, lambda x: _positive(x, multiply(constant_like(x, alpha), call("expm1", x)))
    )


@lowering("Celu")
def lower_celu(context: Context) -> te.Tensor:
    """x, or alpha (e**(x / alpha) - 1) below zero."""
    alpha = _parameter(context, "alpha")

    def function(x: Scalar) -> Scalar:
        if alpha == 0:  # the limit, as TVM divides by no constant zero
            return _positive(x, constant_like(x, 0))
        return _positive(x, constant_like(x, alpha) * call("expm1", x / constant_like(x, alpha)))

    return elementwise(context, function)


@lowering("Selu")
def lower_selu(context: Context) -> te.Tensor:
    """Scaled exponential linear unit."""
    alpha = _parameter(context, "alpha")
    gamma = _parameter(context, "gamma")

    def function(x: Scalar) -> Scalar:
        return multiply(
            constant_like(x, gamma),
            _positive(x, multiply(constant_like(x, alpha), call("expm1", x))),
        )

    return elementwise(context, function)


@lowering("HardSigmoid")
def lower_hard_sigmoid(context: Context) -> te.Tensor:
    """alpha x + beta, limited to [0, 1]."""
    alpha, beta = _parameter(context, "alpha"), _parameter(context, "beta")
    return elementwise(context, lambda x: _hard_sigmoid(x, alpha, beta))


def _hard_sigmoid(x: Scalar, alpha: float, beta: float) -> Scalar:
    line = multiply(constant_like(x, alpha), x) + constant_like(x, beta)
    return minimum(maximum(line, constant_like(x, 0)), constant_like(x, 1))


@lowering("HardSwish")
def lower_hard_swish(context: Context) -> te.Tensor:
    """x times its hard sigmoid, max(0, min(1, x / 6 + 0.5)).

    Near -3 that is a difference of almost equal numbers: x + 3 has no error there, x / 6 has.
    """

    def hard_swish(x: Scalar) -> Scalar:
        zero, six = constant_like(x, 0), constant_like(x, 6)
        clipped = minimum(maximum(x + constant_like(x, 3), zero), six)
        return x * multiply(constant_like(x, 1 / 6), clipped)

    return elementwise(context, hard_swish)


@lowering("Gelu")
def lower_gelu_operator(context: Context) -> te.Tensor:
    """Gaussian error linear unit."""
    approximate = context.attribute("approximate")
    return elementwise(context, lambda x: gelu(x, approximate, context.output.dtype))


@lowering("Mish")
def lower_mish(context: Context) -> te.Tensor:
    """x tanh(softplus(x))."""
    return elementwise(context, lambda x: x * call("tanh", softplus(x)))


@lowering("Softplus")
def lower_softplus_operator(context: Context) -> te.Tensor:
    """log(1 + e**x)."""
    return elementwise(context, softplus)


@lowering("Softsign")
def lower_softsign(context: Context) -> te.Tensor:
    """x / (1 + |x|)."""
    return elementwise(context, lambda x: x / (constant_like(x, 1) + tirx.abs(x)))


def _shrunk_integer(x: Scalar, limit: float, bias: float) -> Scalar:
    """Shrink of an integer: real arithmetic, whose result is truncated towards zero."""
    whole, rest = _floor(bias), bias % 1 != 0
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


@lowering("Shrink")
def lower_shrink(context: Context) -> te.Tensor:
    """x moved towards zero by `bias` where it is beyond `lambd`, else 0."""
    limit, bias = _parameter(context, "lambd"), _parameter(context, "bias")

    def function(x: Scalar) -> Scalar:
        if dtype_of(x) in INTEGERS:
            return _shrunk_integer(x, limit, bias)
        upper = tirx.Select(
            x > constant_like(x, limit), x - constant_like(x, bias), constant_like(x, 0)
        )
        return tirx.Select(x < constant_like(x, -limit), x + constant_like(x, bias), upper)

    return elementwise(context, function)
