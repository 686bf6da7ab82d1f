"""Operators that move elements: reshapes, permutations, slices, padding. Mostly views."""

from math import prod

import numpy as np

from compiler.net.evaluation.registry import Array, evaluates, positive_axis
from compiler.net.evaluation.rounding import converted_array
from compiler.net.spec import Use


@evaluates("Identity")
def evaluate_identity(node: Use) -> Array:
    """The input itself."""
    return node.array(0)


@evaluates("Expand")
def evaluate_expand(node: Use) -> Array:
    """Broadcast, without a copy; numpy's own rule of shapes ends at 32 axes, arrays at 64."""
    own, target = node.shape(), node.vector(1, or_scalar=True)
    rank = max(len(own), len(target))
    own, target = (1,) * (rank - len(own)) + own, [1] * (rank - len(target)) + target
    shape = [b if a == 1 else a if b == 1 else b for a, b in zip(own, target, strict=True)]
    return np.broadcast_to(node.array(0), shape)


@evaluates("Reshape")
def evaluate_reshape(node: Use) -> Array:
    """Another shape; 0 keeps a dimension, -1 is inferred."""
    array, shape = node.array(0), node.integers(1) or []
    if not node["allowzero"]:
        shape = [array.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return array.reshape(shape)


@evaluates("Flatten")
def evaluate_flatten(node: Use) -> Array:
    """A matrix whose columns are the axes from one on."""
    shape, axis = node.array(0).shape, node["axis"]
    axis = axis + len(shape) if axis < 0 else axis
    return node.array(0).reshape(prod(shape[:axis]), prod(shape[axis:]))


@evaluates("Squeeze")
def evaluate_squeeze(node: Use) -> Array:
    """Without some axes of one element, or without all of them."""
    axes = node.integers(1)
    return np.squeeze(node.array(0), None if axes is None else tuple(axes))


@evaluates("Unsqueeze")
def evaluate_unsqueeze(node: Use) -> Array:
    """With new axes of one element."""
    return np.expand_dims(node.array(0), tuple(node.vector(1, or_scalar=True)))


@evaluates("Transpose")
def evaluate_transpose(node: Use) -> Array:
    """Axes permuted, without a copy."""
    return np.transpose(node.array(0), node["perm"])


@evaluates("Concat")
def evaluate_concat(node: Use) -> Array:
    """Tensors concatenated along an axis."""
    return np.concatenate(node.arrays, node["axis"])


@evaluates("Split")
def evaluate_split(node: Use) -> list[Array]:
    """Parts of given sizes, or as equal as they can be, along an axis."""
    x, parts = node.array(0), node.outputs
    axis = positive_axis(node["axis"], x.ndim)
    size = -(-x.shape[axis] // parts)
    sizes = node.integers(1) or [size] * (parts - 1)
    starts = np.cumsum([0, *sizes]).tolist()
    if node.has(1) and (len(sizes) != parts or starts[-1] != x.shape[axis] or min(sizes) < 0):
        raise ValueError(f"parts of {sizes} do not fill {x.shape[axis]} elements")
    return np.split(x, starts[1:parts], axis)


def clamped_indices(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """A slice's bounds; unlike Python's, a start before the first element becomes that element."""
    first, last, _ = slice(start, end, step).indices(size)
    if step > 0:
        return first, max(first, last)
    return max(first, 0), last if last >= 0 else -size - 1


@evaluates("Slice")
def evaluate_slice(node: Use) -> Array:
    """The elements from starts to ends, along axes, by steps; without a copy."""
    x = node.array(0)
    starts, ends = node.integers(1) or [], node.integers(2) or []
    axes = node.integers(3)
    axes = range(len(starts)) if axes is None else axes
    steps = node.integers(4) or [1] * len(starts)
    box = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = positive_axis(axis, x.ndim)
        box[axis] = slice(*clamped_indices(start, end, step, x.shape[axis]), step)
    return x[tuple(box)]


@evaluates("Tile")
def evaluate_tile(node: Use) -> Array:
    """Repeated along its axes."""
    return np.tile(node.array(0), node.integers(1) or [])


@evaluates("DepthToSpace")
def evaluate_depth_to_space(node: Use) -> Array:
    """Channels moved into squares of `blocksize` pixels."""
    (n, c, h, w), b = node.array(0).shape, node["blocksize"]
    if node["mode"] == "CRD":
        cells = node.array(0).reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        cells = node.array(0).reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return cells.reshape(n, c // (b * b), h * b, w * b)


@evaluates("SpaceToDepth")
def evaluate_space_to_depth(node: Use) -> Array:
    """Squares of `blocksize` pixels moved into channels."""
    (n, c, h, w), b = node.array(0).shape, node["blocksize"]
    cells = node.array(0).reshape(n, c, h // b, b, w // b, b)
    return cells.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


@evaluates("Trilu")
def evaluate_trilu(node: Use) -> Array:
    """The upper or lower triangle, shifted by k."""
    x, k = node.array(0), node.scalar(1) if node.has(1) else 0
    rows, columns = (int(extent) for extent in x.shape[-2:])
    distance = np.arange(columns) - np.arange(rows)[:, None]
    keep = distance >= k if node["upper"] else distance <= k
    return np.where(keep, x, np.zeros((), x.dtype))


def _source(mode: str, before: int, extent: int, size: int) -> Array:
    """The source position of each position of a padded axis."""
    positions = np.arange(size) - before
    if extent == 0 and size:
        raise ValueError(f"the padding mode {mode!r} repeats an axis that is empty")
    if mode == "edge":
        return np.clip(positions, 0, extent - 1)
    if mode == "wrap":
        return positions % extent
    if mode != "reflect":
        raise ValueError(f"the padding mode {mode!r} is unknown")
    period = max(1, 2 * (extent - 1))
    folded = positions % period
    return np.where(folded < extent, folded, period - folded)


def _constant_padded(x: Array, pads: list[tuple[int, int]], value: Array) -> Array:
    """Padded by a constant, or cropped where pads are negative."""
    shape = [size + before + after for size, (before, after) in zip(x.shape, pads, strict=True)]
    if min(shape, default=0) < 0:
        raise ValueError(f"pads of {pads} take more elements away than {x.shape} has")
    result = np.full(shape, value, x.dtype)
    inside: list[slice] = []
    kept: list[slice] = []
    for size, (before, after) in zip(x.shape, pads, strict=True):
        first, last = max(0, -before), size - max(0, -after)
        kept.append(slice(first, max(first, last)))
        inside.append(slice(first + before, max(first, last) + before))
    result[tuple(inside)] = x[tuple(kept)]
    return result


@evaluates("Pad")
def evaluate_pad(node: Use) -> Array:
    """Padded or cropped by a constant, the edge, the mirrored or the repeated content."""
    x, mode = node.array(0), node["mode"]
    given = node.integers(1) or []
    axes = node.integers(3)
    axes = list(range(x.ndim)) if axes is None else axes
    pads = [(0, 0)] * x.ndim
    for axis, before, after in zip(axes, given[: len(axes)], given[len(axes) :], strict=True):
        pads[positive_axis(axis, x.ndim)] = (before, after)
    if mode == "constant":
        value = node.array(2).reshape(()) if node.has(2) else np.zeros((), x.dtype)
        return _constant_padded(x, pads, converted_array(value, x.dtype))
    for axis, (before, after) in enumerate(pads):
        if before or after:
            kept = range(max(0, -before), x.shape[axis] - max(0, -after))
            size = x.shape[axis] + before + after
            x = np.take(x, kept, axis)
            x = np.take(x, _source(mode, max(0, before), len(kept), size), axis)
    return x


@evaluates("ReverseSequence")
def evaluate_reverse_sequence(node: Use) -> Array:
    """The first `lengths[b]` steps of each batch entry in reverse order."""
    time, batch = node["time_axis"], node["batch_axis"]
    x = np.moveaxis(node.array(0), (time, batch), (0, 1))
    lengths = np.clip(node.array(1), 0, x.shape[0])
    steps = np.arange(int(x.shape[0]))[:, None]
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    return np.moveaxis(x[order, np.arange(x.shape[1])], (0, 1), (time, batch))
