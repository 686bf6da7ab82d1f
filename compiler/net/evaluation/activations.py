"""Activation functions, computed in float64 and rounded once."""

from collections.abc import Callable
from math import erfc, floor, isfinite, pi, sqrt

import numpy as np

from compiler.net.evaluation.elementwise import evaluate_sigmoid
from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double
from compiler.net.node import TypedNode

_ERFC = np.frompyfunc(erfc, 1, 1)


def _activation(
    name: str, *attributes: str
) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Register a function of the inputs and of some attributes."""

    def register(function: Callable[..., Array]) -> Callable[..., Array]:
        def evaluate(node: TypedNode) -> Array:
            arrays = [double(array) for array in node.arrays]
            values = {name: node[name] for name in attributes}
            return converted_array(np.asarray(function(*arrays, **values)), node.array(0).dtype)

        evaluates(name)(evaluate)
        return function

    return register


def _positive(x: Array, otherwise: Array) -> Array:
    """x above zero and for NaN, else another value."""
    return np.where(x < 0, otherwise, x)


@_activation("Relu")
def relu(x: Array) -> Array:
    """max(x, 0)."""
    return _positive(x, np.zeros_like(x))


@_activation("LeakyRelu", "alpha")
def leaky_relu(x: Array, alpha: float) -> Array:
    """x, or alpha x below zero."""
    return _positive(x, x * alpha)


@_activation("PRelu")
def prelu(x: Array, slope: Array) -> Array:
    """x, or slope x below zero."""
    return _positive(x, x * slope)


@_activation("ThresholdedRelu", "alpha")
def thresholded_relu(x: Array, alpha: float) -> Array:
    """x above alpha, else 0."""
    return np.where(x > alpha, x, np.zeros_like(x))


@_activation("Elu", "alpha")
def elu(x: Array, alpha: float) -> Array:
    """x, or alpha (e**x - 1) below zero."""
    return _positive(x, alpha * np.expm1(x))


@_activation("Celu", "alpha")
def celu(x: Array, alpha: float) -> Array:
    """x, or alpha (e**(x / alpha) - 1) below zero."""
    return _positive(x, alpha * np.expm1(x / alpha))


@_activation("Selu", "alpha", "gamma")
def selu(x: Array, alpha: float, gamma: float) -> Array:
    """The scaled exponential linear unit."""
    return gamma * _positive(x, alpha * np.expm1(x))


@_activation("HardSigmoid", "alpha", "beta")
def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """alpha x + beta, limited to [0, 1]."""
    return np.minimum(np.maximum(alpha * x + beta, 0), 1)


@_activation("HardSwish")
def hard_swish(x: Array) -> Array:
    """x times its hard sigmoid, by x + 3, which has no error where the result is near zero."""
    return x * (np.minimum(np.maximum(x + 3, 0), 6) * (1 / 6))


@_activation("Gelu", "approximate")
def evaluate_gelu(x: Array, approximate: str) -> Array:
    """x times the normal distribution function, exactly or by tanh."""
    if approximate == "tanh":  # (1 + tanh(u)) / 2 without cancellation
        return x * evaluate_sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3))
    return 0.5 * x * np.asarray(_ERFC(x * -sqrt(0.5)), np.float64)


@_activation("Softplus")
def evaluate_softplus(x: Array) -> Array:
    """log(1 + e**x) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@_activation("Mish")
def mish(x: Array) -> Array:
    """x tanh(softplus(x))."""
    return x * np.tanh(evaluate_softplus(x))


@_activation("Softsign")
def softsign(x: Array) -> Array:
    """x / (1 + |x|)."""
    return x / (1 + np.abs(x))


@_activation("Shrink", "lambd", "bias")
def shrink(x: Array, lambd: float, bias: float) -> Array:
    """x moved towards zero by `bias` where it is beyond `lambd`, else 0."""
    if x.dtype.kind in "iu" and isfinite(bias):
        # of integers ONNX computes in real numbers, and truncates
        whole = floor(bias)
        rest = bias % 1 != 0
        step = np.uint64(whole & ((1 << 64) - 1)).astype(x.dtype)
        up, down = x + step, x - step
        if rest:
            up, down = up + (x < -whole).astype(x.dtype), down - (x > whole).astype(x.dtype)
        return np.where(x < -lambd, up, np.where(x > lambd, down, np.zeros_like(x)))
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, np.zeros_like(x)))
