"""Reductions over axes: floats are accumulated in float64 and rounded once."""

from math import prod

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double, is_floating, nan_mask
from compiler.net.spec import Use

_INEXACT = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")


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


def _reduced(kind: str, x: Array, axes: tuple[int, ...]) -> Array:
    """The reduction in the type of x, with the reduced axes kept."""
    match kind:
        case "ReduceMax":
            return np.max(x, axes, keepdims=True, initial=lowest_value(x.dtype))
        case "ReduceMin":
            return np.min(x, axes, keepdims=True, initial=_highest(x.dtype))
        case "ReduceProd":
            return np.prod(x, axes, x.dtype, keepdims=True)
        case "ReduceL1":
            return _total(np.abs(x), axes)
        case "ReduceSumSquare":
            return _total(x * x, axes)
        case "ReduceL2":
            return np.sqrt(_total(x * x, axes))
        case "ReduceMean":
            return _total(x, axes) / max(1, prod(x.shape[axis] for axis in axes))
        case "ReduceLogSum":
            return np.log(_total(x, axes))
        case "ReduceLogSumExp":
            # shifted by the largest element, so that no power overflows
            top = np.max(x, axes, keepdims=True, initial=-np.inf)
            shift = np.where(np.isfinite(top), top, 0)
            return np.log(np.sum(np.exp(x - shift), axes, keepdims=True)) + shift
        case _:
            return _total(x, axes)


@evaluates(
    *"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
    " ReduceSum ReduceSumSquare".split()
)
def evaluate_reduction(node: Use) -> Array:
    """A reduction of some axes; integers wrap, means and roots are computed in float64."""
    axes = tuple(node["axes"])
    dtype = node.array(0).dtype
    x = node.array(0).astype(np.float64) if node.op_type in _INEXACT else double(node.array(0))
    result = converted_array(_reduced(node.op_type, x, axes), dtype)
    return result if node["keepdims"] else np.squeeze(result, axes)


@evaluates("ArgMax", "ArgMin")
def evaluate_extreme_position(node: Use) -> Array:
    """The position of the largest or smallest element; NaN is neither, unless it is the first."""
    x = double(node.array(0))
    axis: int = node["axis"]
    if not x.ndim:
        return np.zeros((), np.int64)
    position = _extreme_position(node, x, axis)
    return position if node["keepdims"] else np.squeeze(position, axis)


def _extreme_position(node: Use, x: Array, axis: int) -> Array:
    """The positions along an axis, which keeps one element."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if not prod(shape):
        return np.zeros(shape, np.int64)
    largest = node.op_type == "ArgMax"
    last = node["select_last_index"]
    nan = nan_mask(x)
    none = lowest_value(x.dtype) if largest else _highest(x.dtype)
    numbers = np.where(nan, none, x) if nan.any() else x
    fits = x == (np.max if largest else np.min)(numbers, axis, keepdims=True)
    position = np.argmax(np.flip(fits, axis) if last else fits, axis, keepdims=True)
    position = x.shape[axis] - 1 - position if last else position
    return np.where(np.take(nan, [0], axis), 0, position).astype(np.int64)


@evaluates("PartialRanges")
def evaluate_partial_ranges(node: Use) -> list[Array]:
    """The range of the whole tensor for each part: parts may overlap."""
    return [np.repeat(x, node["count"]) for x in (node.array(0).min(), node.array(0).max())]
