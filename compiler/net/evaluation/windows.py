"""Sliding windows, and the pooling operators that reduce them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from compiler.net.evaluation.reductions import lowest_value
from compiler.net.evaluation.registry import Array, evaluates
from compiler.net.evaluation.rounding import converted_array, double, nan_mask
from compiler.net.node import TypedNode


@dataclass(frozen=True, slots=True)
class PoolWindow:
    """A window over spatial axes; `after` is the padding that the model declares."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Elements of each padded axis up to the end of the last window."""
        axes = zip(self.counts, self.strides, self.kernel, self.dilations, strict=True)
        return tuple((p - 1) * s + (k - 1) * d + 1 for p, s, k, d in axes)


def _same_pads(mode: str, total: int) -> tuple[int, int]:
    """The padding before and after an axis by SAME_UPPER or SAME_LOWER."""
    small = total // 2
    large = total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _window_count(size: int, before: int, after: int, step: int, window: int, ceil: bool) -> int:
    """The number of windows; if rounded up, the last ends outside but begins before the padding."""
    room = size + before + after - window
    count = (-(-room // step) if ceil else room // step) + 1
    if room < 0 and not (ceil and count > 0):
        raise ValueError(f"a window of {window} on {size} elements padded by {before} and {after}")
    return max(0, count - 1 if ceil and (count - 1) * step >= size + before else count)


def pool_window(node: TypedNode, kernel: Sequence[int], ceil: bool = False) -> PoolWindow:
    """The window of a convolution or pooling."""
    spatial = node.array(0).shape[2:]
    rank = len(kernel)
    if len(spatial) != rank:
        raise ValueError(f"a window of {rank} axes on an input of shape {node.array(0).shape}")
    strides = tuple(node["strides"] or [1] * rank)
    dilations = tuple(node["dilations"] or [1] * rank)
    mode = node["auto_pad"]
    sizes = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = list(node["pads"] or [0] * 2 * rank) if mode != "VALID" else [0] * 2 * rank
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    if mode.startswith("SAME"):
        axes = zip(spatial, strides, sizes, strict=True)
        pairs = [_same_pads(mode, max((-(-n // s) - 1) * s + k - n, 0)) for n, s, k in axes]
    axes = zip(spatial, pairs, strides, sizes, strict=True)
    counts = tuple(_window_count(n, *pair, s, k, ceil) for n, pair, s, k in axes)
    before, after = (tuple(pair[side] for pair in pairs) for side in (0, 1))
    return PoolWindow(
        kernel=tuple(kernel),
        strides=strides,
        dilations=dilations,
        before=before,
        after=after,
        counts=counts,
    )


def padded_array(x: Array, window: PoolWindow, fill: float) -> Array:
    """The input with padding up to the end of its last windows."""
    spatial = x.shape[-len(window.kernel) :] if window.kernel else ()
    axes = zip(spatial, window.before, window.reach, strict=True)
    pads = [(before, max(0, reach - size - before)) for size, before, reach in axes]
    lead = [(0, 0)] * (x.ndim - len(pads))
    return np.pad(x, [*lead, *pads], constant_values=fill) if np.any(pads) else x


def windows(x: Array, window: PoolWindow) -> Array:
    """A view of a padded input with the windows' counts, then the windows' elements, last."""
    rank = len(window.kernel)
    lead = x.shape[: x.ndim - rank]
    steps = x.strides[x.ndim - rank :]
    outer = [step * stride for step, stride in zip(steps, window.strides, strict=True)]
    inside = [step * dilation for step, dilation in zip(steps, window.dilations, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x,
        (*lead, *window.counts, *window.kernel),
        (*x.strides[: len(lead)], *outer, *inside),
        writeable=False,
    )


def _spatial(window: PoolWindow) -> tuple[int, ...]:
    return tuple(range(-len(window.kernel), 0))


@evaluates("MaxPool")
def evaluate_max_pool(node: TypedNode) -> list[Array]:
    """The largest element of each window, and where it is."""
    x = double(node.array(0))
    window = pool_window(node, node["kernel_shape"], bool(node["ceil_mode"]))
    content = windows(padded_array(x, window, lowest_value(x.dtype)), window)
    results = [converted_array(np.max(content, _spatial(window)), node.array(0).dtype)]
    if len(node.outputs) > 1:
        results.append(_positions(x, window, content))
    return results


def _positions(x: Array, window: PoolWindow, content: Array) -> Array:
    """The position in the input of each window's largest element, or NaN, the lowest of equals."""
    spatial = x.shape[2:]
    rank = len(window.kernel)
    pixels = np.arange(prod(spatial)).reshape(spatial)
    flat = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * rank)
    indices = windows(padded_array(pixels, window, -1), window)
    largest = np.max(content, _spatial(window), keepdims=True)
    fits = ((content == largest) | nan_mask(content)) & (indices >= 0)
    chosen = np.where(fits, indices, pixels.size).min(_spatial(window))
    inside = np.where(indices >= 0, indices, pixels.size).min(_spatial(window))
    chosen: Array = np.where(chosen < pixels.size, chosen, inside)
    return np.where(chosen < pixels.size, chosen + flat * pixels.size, -1).astype(np.int64)


def _counts(node: TypedNode, window: PoolWindow) -> Array:
    """How many elements each window averages over."""
    include = node["count_include_pad"]
    total = np.ones(())
    for axis, size in enumerate(node.array(0).shape[2:]):
        starts = np.arange(window.counts[axis])[:, None] * window.strides[axis]
        at = starts + np.arange(window.kernel[axis]) * window.dilations[axis] - window.before[axis]
        low, high = (-window.before[axis], size + window.after[axis]) if include else (0, size)
        total = np.multiply.outer(total, ((at >= low) & (at < high)).sum(1))
    return np.maximum(total, 1)


@evaluates("AveragePool")
def evaluate_average_pool(node: TypedNode) -> Array:
    """The mean of each window, over its elements inside the input, or inside the padding too."""
    window = pool_window(node, node["kernel_shape"], bool(node["ceil_mode"]))
    content = windows(padded_array(double(node.array(0)), window, 0), window)
    return converted_array(
        content.sum(_spatial(window)) / _counts(node, window), node.array(0).dtype
    )


def _norm(x: Array, order: int, axes: tuple[int, ...]) -> Array:
    """The p-norm over some axes."""
    return np.sum(np.abs(x) ** order, axes) ** (1 / order)


@evaluates("LpPool")
def evaluate_lp_pool(node: TypedNode) -> Array:
    """The p-norm of each window."""
    window = pool_window(node, node["kernel_shape"], bool(node["ceil_mode"]))
    content = windows(padded_array(double(node.array(0)), window, 0), window)
    return converted_array(_norm(content, node["p"], _spatial(window)), node.array(0).dtype)


def _global(pooled: Callable[[TypedNode, Array, tuple[int, ...]], Array], node: TypedNode) -> Array:
    """The mean, maximum or p-norm over all spatial axes."""
    x = double(node.array(0))
    axes = tuple(range(2, x.ndim))
    return converted_array(np.expand_dims(pooled(node, x, axes), axes), node.array(0).dtype)


def _largest(_: TypedNode, x: Array, axes: tuple[int, ...]) -> Array:
    return np.max(x, axes, initial=lowest_value(x.dtype))


evaluates("GlobalAveragePool")(partial(_global, lambda _, x, axes: np.mean(x, axes)))
evaluates("GlobalMaxPool")(partial(_global, _largest))
evaluates("GlobalLpPool")(partial(_global, lambda node, x, axes: _norm(x, node["p"], axes)))
