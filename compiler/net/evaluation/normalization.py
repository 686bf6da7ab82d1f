"""Softmax and normalisations, computed in float64 and rounded once."""

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double
from compiler.net.node import TypedNode


def _rows(node: TypedNode) -> tuple[int, ...]:
    """The axes from `axis` on."""
    return tuple(range(node["axis"], node.array(0).ndim))


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and variance over some axes, which stay with one element."""
    return np.mean(x, axes, keepdims=True), np.var(x, axes, keepdims=True)


def _by_channel(array: Array, rank: int) -> Array:
    """A vector shaped to broadcast along axis 1."""
    return double(array).reshape(-1, *[1] * max(rank - 2, 0))


def _epsilon(node: TypedNode) -> float:
    return node["epsilon"]


@evaluates("Softmax", "LogSoftmax")
def evaluate_softmax(node: TypedNode) -> Array:
    """e**x divided by its sum along an axis, or the logarithm of that."""
    x = double(node.array(0))
    axis = node["axis"]
    if x.size:
        x = x - np.max(x, axis, keepdims=True)
    power = np.exp(x)
    total = np.sum(power, axis, keepdims=True)
    result = power / total if node.type == "Softmax" else x - np.log(total)
    return converted_array(result, node.array(0).dtype)


@evaluates("LayerNormalization")
def evaluate_layer_normalization(node: TypedNode) -> list[Array]:
    """Normalised over the last axes; mean and inverse deviation are results too."""
    x = double(node.array(0))
    dtype = node.array(0).dtype
    mean, variance = _moments(x, _rows(node))
    inverse = 1 / np.sqrt(variance + _epsilon(node))
    result = (x - mean) * inverse * double(node.array(1))
    if node.has(2):
        result = result + double(node.array(2))
    statistics = node.dtype_of(node["stash_type"])
    others = [converted_array(array, statistics) for array in (mean, inverse)]
    return [converted_array(result, dtype), *others][: len(node.outputs)]


@evaluates("RMSNormalization")
def evaluate_rms_normalization(node: TypedNode) -> Array:
    """Divided by the root of the mean square over the last axes, then scaled."""
    x = double(node.array(0))
    square = np.mean(x * x, _rows(node), keepdims=True)
    result = x / np.sqrt(square + _epsilon(node)) * double(node.array(1))
    return converted_array(result, node.array(1).dtype)


@evaluates("InstanceNormalization")
def evaluate_instance_normalization(node: TypedNode) -> Array:
    """Each channel of parameters instance normalised, then scaled and shifted by channel."""
    x = double(node.array(0))
    mean, variance = _moments(x, tuple(range(2, x.ndim)))
    scale, bias = (_by_channel(node.array(i), x.ndim) for i in (1, 2))
    result = (x - mean) / np.sqrt(variance + _epsilon(node)) * scale + bias
    return converted_array(result, node.array(0).dtype)


@evaluates("GroupNormalization")
def evaluate_group_normalization(node: TypedNode) -> Array:
    """Groups of channels normalised; scale and bias are by channel, or by group."""
    x = double(node.array(0))
    groups = node["num_groups"]
    channels = x.shape[1]
    grouped = x.reshape(x.shape[0], groups, channels // groups, *x.shape[2:])
    mean, variance = _moments(grouped, tuple(range(2, grouped.ndim)))
    normal = ((grouped - mean) / np.sqrt(variance + _epsilon(node))).reshape(x.shape)
    parameters = [np.repeat(node.array(i), channels // node.array(i).shape[0]) for i in (1, 2)]
    scale, bias = (_by_channel(array, x.ndim) for array in parameters)
    return converted_array(normal * scale + bias, node.array(0).dtype)


@evaluates("MeanVarianceNormalization")
def evaluate_mean_variance_normalization(node: TypedNode) -> Array:
    """The mean subtracted, divided by the deviation over some axes."""
    x = double(node.array(0))
    axes = tuple(node["axes"])
    mean, variance = _moments(x, axes)
    return converted_array((x - mean) / (np.sqrt(variance) + 1e-9), node.array(0).dtype)


@evaluates("LpNormalization")
def evaluate_lp_normalization(node: TypedNode) -> Array:
    """Divided by the L1 or L2 norm along an axis; 0 where the norm is 0."""
    x = double(node.array(0))
    axis = node["axis"]
    order = node["p"]
    powers = np.abs(x) if order == 1 else x * x
    total = np.sum(powers, axis, keepdims=True)
    norm = total if order == 1 else np.sqrt(total)
    result = np.where(norm == 0, np.zeros_like(x), x / np.where(norm == 0, 1, norm))
    return converted_array(result, node.array(0).dtype)


@evaluates("LRN")
def evaluate_local_response_normalization(node: TypedNode) -> Array:
    """Divided by a power of the sum of squares over neighbouring channels."""
    x = double(node.array(0))
    size = node["size"]
    channels = x.shape[1]
    before, after = (min(reach, channels) for reach in ((size - 1) // 2, size // 2))
    pads = [(0, 0)] * x.ndim
    pads[1] = (before, after)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, pads), before + after + 1, 1)
    share = node["alpha"] / size
    base = node["bias"] + share * windows.sum(-1)
    return converted_array(x / base ** node["beta"], node.array(0).dtype)


def _statistics(node: TypedNode, x: Array) -> tuple[Array, Array]:
    """Mean and variance by channel: the batch's own in training, else the given ones."""
    if not node["training_mode"]:
        return double(node.array(3)), double(node.array(4))
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean, variance = _moments(x, axes)
    return mean.reshape(-1), variance.reshape(-1)


@evaluates("BatchNormalization")
def evaluate_batch_normalization(node: TypedNode) -> list[Array]:
    """Normalised by channel; running statistics are results of training."""
    x = double(node.array(0))
    mean, variance = _statistics(node, x)
    factor = double(node.array(1)) / np.sqrt(variance + _epsilon(node))
    shape = mean.shape if mean.ndim > 1 else (-1, *[1] * max(x.ndim - 2, 0))
    parts = (array.reshape(shape) for array in (mean, factor, double(node.array(2))))
    centre, scale, bias = parts
    results = [converted_array((x - centre) * scale + bias, node.array(0).dtype)]
    momentum = node["momentum"]
    for old, new in ((node.array(3), mean), (node.array(4), variance)):
        results.append(converted_array(double(old) * momentum + new * (1 - momentum), old.dtype))
    return results[: len(node.outputs)]
