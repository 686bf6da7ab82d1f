"""Reductions over axes: floats are accumulated in float64 and rounded once."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double, is_floating, nan_mask
from compiler.net.node import TypedNode

_Reduce = Callable[[Array, tuple[int, ...]], Array]
"""A reduction in the type of its operand, with the reduced axes kept."""


def lowest_value(dtype: np.dtype) -> float:
    """The neutral element of a maximum."""
    if dtype == np.bool_:
        return False
    return -np.inf if is_floating(dtype) else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> float:
    """The neutral element of a minimum."""
    if dtype == np.bool_:
        return True
    return np.inf if is_floating(dtype) else np.iinfo(dtype).max


def _total(x: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(x, axes, x.dtype, keepdims=True)


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    return _total(x, axes) / max(1, prod(x.shape[axis] for axis in axes))


def _log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    # shifted by the largest element, so that no power overflows
    top = np.max(x, axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(x - shift), axes, keepdims=True)) + shift


def _reduction(reduced: _Reduce, node: TypedNode, *, inexact: bool = False) -> Array:
    """A reduction of some axes, which `reduced` keeps; integers wrap unless it is `inexact`."""
    axes = tuple(node["axes"])
    dtype = node.array(0).dtype
    x = node.array(0).astype(np.float64) if inexact else double(node.array(0))
    result = converted_array(reduced(x, axes), dtype)
    return result if node["keepdims"] else np.squeeze(result, axes)


def _inexact(name: str, reduced: _Reduce) -> None:
    evaluates(name)(partial(_reduction, reduced, inexact=True))


def _exact(name: str, reduced: _Reduce) -> None:
    evaluates(name)(partial(_reduction, reduced))


_exact("ReduceSum", _total)
_exact("ReduceProd", lambda x, axes: np.prod(x, axes, x.dtype, keepdims=True))
_exact("ReduceMax", lambda x, axes: np.max(x, axes, keepdims=True, initial=lowest_value(x.dtype)))
_exact("ReduceMin", lambda x, axes: np.min(x, axes, keepdims=True, initial=_highest(x.dtype)))
_exact("ReduceL1", lambda x, axes: _total(np.abs(x), axes))
_exact("ReduceSumSquare", lambda x, axes: _total(x * x, axes))
_inexact("ReduceL2", lambda x, axes: np.sqrt(_total(x * x, axes)))
_inexact("ReduceMean", _mean)
_inexact("ReduceLogSum", lambda x, axes: np.log(_total(x, axes)))
_inexact("ReduceLogSumExp", _log_sum_exp)


def _position(node: TypedNode, *, largest: bool) -> Array:
    """The position of the largest or smallest element; NaN is neither, unless it is the first."""
    x = double(node.array(0))
    axis: int = node["axis"]
    if not x.ndim:
        return np.zeros((), np.int64)
    position = _extreme_position(node, x, axis, largest)
    return position if node["keepdims"] else np.squeeze(position, axis)


evaluates("ArgMax")(partial(_position, largest=True))
evaluates("ArgMin")(partial(_position, largest=False))


def _extreme_position(node: TypedNode, x: Array, axis: int, largest: bool) -> Array:
    """The positions along an axis, which keeps one element."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if not prod(shape):
        return np.zeros(shape, np.int64)
    last = node["select_last_index"]
    nan = nan_mask(x)
    none = lowest_value(x.dtype) if largest else _highest(x.dtype)
    numbers = np.where(nan, none, x) if nan.any() else x
    fits = x == (np.max if largest else np.min)(numbers, axis, keepdims=True)
    position = np.argmax(np.flip(fits, axis) if last else fits, axis, keepdims=True)
    position = x.shape[axis] - 1 - position if last else position
    return np.where(np.take(nan, [0], axis), 0, position).astype(np.int64)


@evaluates("PartialRanges")
def evaluate_partial_ranges(node: TypedNode) -> list[Array]:
    """The range of the whole tensor for each part: parts may overlap."""
    return [np.repeat(x, node["count"]) for x in (node.array(0).min(), node.array(0).max())]
