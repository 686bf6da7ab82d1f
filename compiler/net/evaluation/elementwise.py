"""Arithmetic, comparison, logic and bits, broadcast over all inputs."""

import math
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import (
    compute_dtype,
    converted_array,
    double,
    finite_limits,
    is_floating,
    nan_mask,
)
from compiler.net.node import TypedNode

ArrayFunction = Callable[..., Array]


def exact(function: ArrayFunction, node: TypedNode) -> Array:
    """A function whose result in the type of computation is correctly rounded."""
    arrays = [compute_dtype(array) for array in node.arrays]
    return converted_array(np.asarray(function(*arrays)), node.array(0).dtype)


def _rounded(function: ArrayFunction, node: TypedNode) -> Array:
    """A function computed in float64 and rounded once."""
    arrays = [double(array) for array in node.arrays]
    return converted_array(np.asarray(function(*arrays)), node.array(0).dtype)


def _test(function: ArrayFunction, node: TypedNode) -> Array:
    """A function whose results are booleans."""
    arrays = [compute_dtype(array) for array in node.arrays]
    return np.asarray(function(*arrays)).astype(bool, copy=False)


def _divide(a: Array, b: Array) -> Array:
    """A quotient; integers truncate, give 0 for the divisor 0, and wrap."""
    if is_floating(a.dtype):
        return np.true_divide(a, b)
    minus = (b == -1) if a.dtype.kind == "i" else np.zeros((), bool)
    safe = np.where((b == 0) | minus, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    quotient = quotient + inexact.astype(a.dtype)
    quotient = np.where(minus, np.zeros_like(a) - a, quotient)
    return np.where(b == 0, np.zeros_like(quotient), quotient)


_ERF = np.frompyfunc(math.erf, 1, 1)


def evaluate_erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_ERF(x), np.float64)


def _reciprocal(x: Array) -> Array:
    return 1 / x


def evaluate_sigmoid(x: Array) -> Array:
    """1 / (1 + e**-x), accurate for very negative x too."""
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


evaluates("Add")(partial(exact, np.add))
evaluates("Sub")(partial(exact, np.subtract))
evaluates("Mul")(partial(exact, np.multiply))
evaluates("Div")(partial(exact, _divide))
evaluates("Neg")(partial(exact, np.negative))
evaluates("Abs")(partial(exact, np.abs))
evaluates("Sign")(partial(exact, np.sign))
evaluates("Reciprocal")(partial(exact, _reciprocal))
evaluates("Sqrt")(partial(exact, np.sqrt))
evaluates("Floor")(partial(exact, np.floor))
evaluates("Ceil")(partial(exact, np.ceil))
evaluates("Round")(partial(exact, np.rint))
evaluates("BitwiseAnd")(partial(exact, np.bitwise_and))
evaluates("BitwiseOr")(partial(exact, np.bitwise_or))
evaluates("BitwiseXor")(partial(exact, np.bitwise_xor))
evaluates("BitwiseNot")(partial(exact, np.invert))

evaluates("Acos")(partial(_rounded, np.arccos))
evaluates("Acosh")(partial(_rounded, np.arccosh))
evaluates("Asin")(partial(_rounded, np.arcsin))
evaluates("Asinh")(partial(_rounded, np.arcsinh))
evaluates("Atan")(partial(_rounded, np.arctan))
evaluates("Atanh")(partial(_rounded, np.arctanh))
evaluates("Cos")(partial(_rounded, np.cos))
evaluates("Cosh")(partial(_rounded, np.cosh))
evaluates("Erf")(partial(_rounded, evaluate_erf))
evaluates("Exp")(partial(_rounded, np.exp))
evaluates("Log")(partial(_rounded, np.log))
evaluates("Sigmoid")(partial(_rounded, evaluate_sigmoid))
evaluates("Sin")(partial(_rounded, np.sin))
evaluates("Sinh")(partial(_rounded, np.sinh))
evaluates("Tan")(partial(_rounded, np.tan))
evaluates("Tanh")(partial(_rounded, np.tanh))

evaluates("Equal")(partial(_test, np.equal))
evaluates("Greater")(partial(_test, np.greater))
evaluates("GreaterOrEqual")(partial(_test, np.greater_equal))
evaluates("Less")(partial(_test, np.less))
evaluates("LessOrEqual")(partial(_test, np.less_equal))
evaluates("And")(partial(_test, np.logical_and))
evaluates("Or")(partial(_test, np.logical_or))
evaluates("Xor")(partial(_test, np.logical_xor))
evaluates("Not")(partial(_test, np.logical_not))
evaluates("IsNaN")(partial(_test, nan_mask))


def _extreme(larger: ArrayFunction, node: TypedNode) -> Array:
    """The largest or the smallest of any number of inputs; NaN if one is."""
    return exact(lambda *arrays: reduce(larger, arrays), node)


evaluates("Max")(partial(_extreme, np.maximum))
evaluates("Min")(partial(_extreme, np.minimum))


@evaluates("Mod")
def evaluate_modulo(node: TypedNode) -> Array:
    """The remainder with the divisor's sign, or the dividend's with `fmod`; 0 for a divisor 0."""
    return exact(np.fmod if node["fmod"] else np.mod, node)


@evaluates("BitShift")
def evaluate_bit_shift(node: TypedNode) -> Array:
    """Shifted left or right; a count beyond the width shifts everything out."""
    left = node["direction"] == "LEFT"
    bits = node.array(0).dtype.itemsize * 8

    def function(x: Array, count: Array) -> Array:
        inside = (count >= 0) & (count < bits)
        by = np.where(inside, count, bits - 1).astype(x.dtype)
        if not left and x.dtype.kind == "i":
            return np.right_shift(x, by)
        shifted = np.left_shift(x, by) if left else np.right_shift(x, by)
        return np.where(inside, shifted, np.zeros_like(x))

    return exact(function, node)


@evaluates("Where")
def evaluate_where(node: TypedNode) -> Array:
    """One of two values by a condition."""
    return np.where(node.array(0), node.array(1), node.array(2)).astype(
        node.array(1).dtype, copy=False
    )


@evaluates("Clip")
def evaluate_clip(node: TypedNode) -> Array:
    """Limited to bounds, by default the least and the largest finite number; NaN stays."""
    x = compute_dtype(node.array(0))
    dtype = node.array(0).dtype
    defaults = finite_limits(dtype) if is_floating(dtype) else (None, None)
    for index, pick in ((1, np.maximum), (2, np.minimum)):
        bound = defaults[index - 1]
        if node.has(index):
            bound = compute_dtype(node.array(index)).reshape(())
        x = x if bound is None else pick(x, np.asarray(bound, x.dtype))
    return converted_array(x, dtype)


@evaluates("IsInf")
def evaluate_is_infinite(node: TypedNode) -> Array:
    """Whether a value is infinite, of the signs asked for."""
    x = compute_dtype(node.array(0))
    above = (x == np.inf) & bool(node["detect_positive"])
    return np.asarray(above | ((x == -np.inf) & bool(node["detect_negative"])))


def _integer_power(x: Array, exponent: Array) -> Array:
    """Integer powers that wrap; fractions, of negative exponents, are truncated."""
    x, exponent = np.broadcast_arrays(x.astype(np.int64), exponent.astype(np.int64))
    powers = np.power(x, np.maximum(exponent, 0))
    odd = exponent % 2 != 0
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0))
    return np.where(exponent < 0, inverse, powers)


def _float_power(x: Array, exponent: Array) -> Array:
    """Powers as C's pow: numpy's square root for the exponent 0.5 differs at -0 and -infinity."""
    even = ((x == 0) | np.isinf(x)) & (np.abs(exponent) % 2 != 1)
    return np.power(np.where(even, np.abs(x), x), exponent)


@evaluates("Pow")
def evaluate_power(node: TypedNode) -> Array:
    """Powers in the base's type; integers are exact."""
    x, exponent = node.array(0), node.array(1)
    if is_floating(x.dtype) or is_floating(exponent.dtype):
        result = _float_power(x.astype(np.float64), exponent.astype(np.float64))
    else:
        result = _integer_power(x, exponent)
    return converted_array(np.asarray(result), x.dtype)
