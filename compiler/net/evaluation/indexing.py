"""Operators that index by data, sort or scan. Indices out of range are clamped."""

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import (
    compute_dtype,
    converted_array,
    double,
    is_floating,
)
from compiler.net.node import TypedNode


def wrapped_index(index: Array, extent: int) -> Array:
    """An index from data: negative ones count from the end, all are clamped to the axis."""
    index = index.astype(np.int64)
    return np.clip(np.where(index < 0, index + extent, index), 0, max(extent - 1, 0))


def _elements(data: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """The full index of the element for each of `indices` along an axis."""
    at: list[Array] = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    at[axis] = wrapped_index(indices, data.shape[axis])
    return tuple(at)


def _tuples(data: Array, indices: Array) -> tuple[Array, ...]:
    """The index of one slice for each tuple of indices."""
    extents = data.shape[: indices.shape[-1]]
    if len(extents) < indices.shape[-1]:
        raise ValueError(f"tuples of {indices.shape[-1]} indices in a tensor {data.shape}")
    return tuple(wrapped_index(indices[..., k], extent) for k, extent in enumerate(extents))


def _scattered(node: TypedNode, at: tuple[Array, ...]) -> Array:
    """A copy of the data with the updates stored or combined at an index, one after another."""
    return combined(node["reduction"], node.array(0), at, node.array(2))


def combined(kind: str, data: Array, at: tuple[Array, ...], updates: Array) -> Array:
    """A copy of the data, combined with updates at an index; kinds are ONNX's reductions."""
    dtype = data.dtype
    add = np.add
    multiply = np.multiply
    if dtype == np.bool_:
        add = np.logical_or
        multiply = np.logical_and
    combine = {"add": add, "mul": multiply, "max": np.maximum, "min": np.minimum}
    if kind == "none":
        result = data.copy()
        result[at] = updates
        return result
    result = double(data).copy()
    combine[kind].at(result, at, double(updates))
    return converted_array(result, dtype)


@evaluates("ScatterElements")
def evaluate_scatter_elements(node: TypedNode) -> Array:
    """Single elements stored or combined at indices along an axis."""
    return _scattered(node, _elements(node.array(0), node.array(1), node["axis"]))


@evaluates("ScatterND")
def evaluate_scatter_nd(node: TypedNode) -> Array:
    """Slices stored or combined at index tuples."""
    at = _tuples(node.array(0), node.array(1))
    return _scattered(node, at)


@evaluates("OneHot")
def evaluate_one_hot(node: TypedNode) -> Array:
    """`on` where the index equals the position along a new axis, else `off`."""
    indices = converted_array(node.array(0), np.dtype(np.int64))
    values = node.array(1)
    depth: int = node["depth"]
    axis: int = node["axis"]
    indices = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    positions = np.arange(depth).reshape(-1, *[1] * (indices.ndim - 1 - axis))
    return np.where(indices == positions, values[1:], values[:1]).astype(values.dtype, copy=False)


def _ordered(x: Array, axis: int, largest: bool) -> Array:
    """Positions sorted by value, stable; NaN counts as the largest."""
    if not largest:
        return np.argsort(x, axis, kind="stable")
    order = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(order, axis)


@evaluates("TopK")
def evaluate_top_k(node: TypedNode) -> tuple[Array, Array]:
    """The k largest or smallest elements along an axis, in order, and their indices."""
    x = node.array(0)
    k: int = node["k"]
    axis: int = node["axis"]
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"the {k} largest of {x.shape[axis]} elements")
    order = _ordered(compute_dtype(x), axis, bool(node["largest"]))
    order = np.take(order, np.arange(k), axis).astype(np.int64)
    return np.take_along_axis(x, order, axis), order


@evaluates("CumSum")
def evaluate_cum_sum(node: TypedNode) -> Array:
    """Running sums along an axis, from either end, with or without the element itself."""
    axis: int = node["axis"]
    x = np.moveaxis(double(node.array(0)), axis, 0)
    x = x[::-1] if node["reverse"] else x
    if node["exclusive"] and len(x):
        x = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
    total = np.cumsum(x, 0, None if is_floating(x.dtype) else x.dtype)
    total = total[::-1] if node["reverse"] else total
    return converted_array(np.moveaxis(total, 0, axis), node.array(0).dtype)
