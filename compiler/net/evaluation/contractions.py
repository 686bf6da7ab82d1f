"""Convolutions, GEMMs and Einsum: floats are accumulated in float64 and rounded once."""

from itertools import product

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double, is_floating
from compiler.net.evaluation.windows import PoolWindow, padded_array, pool_window
from compiler.net.four_bits import four_bit_numbers
from compiler.net.node import TypedNode


@evaluates("MatMul")
def evaluate_matmul(node: TypedNode) -> Array:
    """numpy's matmul, batch axes broadcast."""
    result = np.matmul(double(node.array(0)), double(node.array(1)))
    return converted_array(np.asarray(result), node.array(0).dtype)


def _scaled(array: Array, factor: float) -> Array:
    if factor == 1:
        return array
    if array.dtype.kind in "iu":
        return array * np.uint64(int(factor) & ((1 << 64) - 1)).astype(array.dtype)
    return array * np.float64(factor)


@evaluates("Gemm")
def evaluate_gemm(node: TypedNode) -> Array:
    """alpha A B + beta C, with A and B transposed on demand.

    Integers wrap around; fractions of them are added in float64, and the sum is truncated.
    """
    a, b = double(node.array(0)), double(node.array(1))
    a = a.T if node["transA"] else a
    b = b.T if node["transB"] else b
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"a Gemm of {node.array(0).shape} and {node.array(1).shape}")
    alpha = float(node["alpha"])
    beta = float(node["beta"]) if node.has(2) else 0.0
    whole = alpha.is_integer() and beta.is_integer()
    product = a @ b if whole else (a @ b).astype(np.float64)
    total = _scaled(product, alpha)
    if beta:
        addend = double(node.array(2)) if whole else node.array(2).astype(np.float64)
        total = total + _scaled(np.broadcast_to(addend, total.shape), beta)
    return converted_array(total, node.array(0).dtype)


@evaluates("Einsum")
def evaluate_einsum(node: TypedNode) -> Array:
    """Einstein summation with implicit results and ellipses."""
    arrays = [*map(double, node.arrays)]
    equation = node["equation"].replace(" ", "")
    optimize = len(arrays) > 1 and is_floating(node.array(0).dtype)
    return converted_array(
        np.asarray(np.einsum(equation, *arrays, optimize=optimize)), node.array(0).dtype
    )


def _tap(window: PoolWindow, tap: tuple[int, ...]) -> tuple[slice, ...]:
    """The elements of the padded axes with which one element of the kernel is multiplied."""
    axes = zip(tap, window.dilations, window.strides, window.counts, strict=True)
    return tuple(slice(t * d, t * d + s * (p - 1) + 1, s) for t, d, s, p in axes)


def _with_bias(node: TypedNode, total: Array) -> Array:
    """Input 2 added by channel, rounded."""
    if node.has(2):
        total = total + double(node.array(2)).reshape(-1, *[1] * (total.ndim - 2))
    return converted_array(total, node.array(0).dtype)


def _groups(node: TypedNode) -> int:
    groups = node["group"]
    if groups < 1 or node.array(0).shape[1] % groups or node.array(1).shape[0] % groups:
        shapes = f"{node.array(0).shape} and {node.array(1).shape}"
        raise ValueError(f"{groups} groups do not divide the channels of {shapes}")
    return groups


@evaluates("Conv")
def evaluate_conv(node: TypedNode) -> Array:
    """Convolution over any number of spatial axes, grouped, strided, dilated."""
    return _with_bias(node, _convolved(node, double(node.array(0)), double(node.array(1))))


@evaluates("ConvInteger")
def evaluate_conv_integer(node: TypedNode) -> Array:
    """A convolution of bytes with an int32 result."""
    total = _convolved(node, _less_zero_point(node, 0), _less_zero_point(node, 1))
    return total.astype(np.int64).astype(np.int32)


@evaluates("ConvFloat8")
def evaluate_conv_float8(node: TypedNode) -> Array:
    """A convolution of floats of a byte with a float32 result."""
    return _convolved(node, double(node.array(0)), double(node.array(1))).astype(np.float32)


@evaluates("MatMulFloat8")
def evaluate_matmul_float8(node: TypedNode) -> Array:
    """A MatMul of floats of a byte with a float32 result."""
    return np.asarray(np.matmul(double(node.array(0)), double(node.array(1)))).astype(np.float32)


@evaluates("MatMulInteger")
def evaluate_matmul_integer(node: TypedNode) -> Array:
    """A MatMul of bytes with an int32 result."""
    result = np.matmul(_less_zero_point(node, 0), _less_zero_point(node, 1))
    return np.asarray(result).astype(np.int32)


@evaluates("MatMulNBits")
def evaluate_matmul_n_bits(node: TypedNode) -> Array:
    """A MatMul of the dequantised, transposed weight."""
    zeros = node.array(3) if node.has(3) and node.array(3).dtype == np.uint8 else None
    if node.has(3) and zeros is None:
        zeros = double(node.array(3))
    weight = four_bit_numbers(node.array(1), double(node.array(2)), zeros, node["K"])
    return converted_array(np.matmul(double(node.array(0)), weight.T), node.array(0).dtype)


def _less_zero_point(node: TypedNode, operand: int) -> Array:
    """Operand 0 or 1 less its zero point, operand 2 or 3."""
    index = operand + 2
    zero = node.array(index).astype(np.int64).reshape(()) if node.has(index) else np.int64(0)
    return node.array(operand).astype(np.int64) - zero


def _convolved(node: TypedNode, x: Array, w: Array) -> Array:
    """The sums of a convolution in float64, which holds those of bytes exactly."""
    groups = _groups(node)
    window = pool_window(node, w.shape[2:])
    images = x.shape[0]
    spatial = window.counts
    channels = w.shape[0]
    places = int(np.prod(spatial))
    x = padded_array(x, window, 0)
    x = x.reshape(images, groups, x.shape[1] // groups, *x.shape[2:])
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    total = np.zeros((images, groups, w.shape[1], places))
    for tap in product(*map(range, window.kernel)):
        met = x[(..., *_tap(window, tap))].reshape(*x.shape[:3], places)
        total += w[(..., *tap)] @ met
    return total.reshape(images, channels, *spatial)


def _transposed_sizes(node: TypedNode) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """The strides, the dilations, and the range of each axis of the full result to keep."""
    spatial, kernel = node.array(0).shape[2:], node.array(1).shape[2:]
    rank = len(spatial)
    strides = list(node["strides"] or [1] * rank)
    dilations = list(node["dilations"] or [1] * rank)
    extra = node["output_padding"] or [0] * rank
    sizes = zip(spatial, strides, kernel, dilations, strict=True)
    full = [s * (n - 1) + (k - 1) * d + 1 for n, s, k, d in sizes]
    reach = [f + e for f, e in zip(full, extra, strict=True)]
    pads = list(node["pads"] or [0] * 2 * rank)
    ends = [r - after for r, after in zip(reach, pads[rank:], strict=True)]
    return strides, dilations, list(zip(pads[:rank], ends, strict=True))


@evaluates("ConvTranspose")
def evaluate_conv_transpose(node: TypedNode) -> Array:
    """Transposed convolution: each input element adds the kernel, scaled by it, to the result."""
    x = double(node.array(0))
    w = double(node.array(1))
    groups = _groups(node)
    strides, dilations, cuts = _transposed_sizes(node)
    images = x.shape[0]
    spatial = x.shape[2:]
    kernel = w.shape[2:]
    x = x.reshape(images, groups, x.shape[1] // groups, int(np.prod(spatial)))
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    axes = zip(spatial, strides, kernel, dilations, cuts, strict=True)
    full = [max(s * (n - 1) + (k - 1) * d + 1, end) for n, s, k, d, (_, end) in axes]
    total = np.zeros((images, groups, w.shape[2], *full))
    for tap in product(*map(range, kernel)):
        part = (w[(..., *tap)].swapaxes(1, 2) @ x).reshape(*total.shape[:3], *spatial)
        steps = zip(tap, dilations, strides, spatial, strict=True)
        box = tuple(slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in steps)
        total[(..., *box)] += part
    total = total[(..., *(slice(first, end) for first, end in cuts))]
    return _with_bias(node, total.reshape(images, groups * w.shape[2], *total.shape[3:]))
