"""Operators that move elements: reshapes, permutations, slices, padding. Mostly views."""

from math import prod

import numpy as np

from compiler.frontend.interpreter.registry import Array, Node, evaluates, positive_axis
from compiler.frontend.interpreter.rounding import converted_array
from compiler.net.operators.shapes import broadcast


@evaluates("Identity")
def evaluate_identity(node: Node) -> Array:
    """The input itself."""
    return node[0]


@evaluates("Expand")
def evaluate_expand(node: Node) -> Array:
    """Broadcast, without a copy; numpy's own rule of shapes ends at 32 axes, arrays at 64."""
    shape = tuple(node[1].reshape(-1).tolist())
    return np.broadcast_to(node[0], broadcast(node[0].shape, shape))


@evaluates("Reshape")
def evaluate_reshape(node: Node) -> Array:
    """Another shape; 0 keeps a dimension, -1 is inferred."""
    array, shape = node[0], node.integers(1, "shape") or []
    if not node.attribute("allowzero", 0):
        shape = [array.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return array.reshape(shape)


@evaluates("Flatten")
def evaluate_flatten(node: Node) -> Array:
    """A matrix whose columns are the axes from one on."""
    shape, axis = node[0].shape, node.attribute("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return node[0].reshape(prod(shape[:axis]), prod(shape[axis:]))


@evaluates("Squeeze")
def evaluate_squeeze(node: Node) -> Array:
    """Without some axes of one element, or without all of them."""
    axes = node.integers(1, "axes")
    return np.squeeze(node[0], None if axes is None else tuple(axes))


@evaluates("Unsqueeze")
def evaluate_unsqueeze(node: Node) -> Array:
    """With new axes of one element."""
    return np.expand_dims(node[0], tuple(node.integers(1, "axes") or ()))


@evaluates("Transpose")
def evaluate_transpose(node: Node) -> Array:
    """Axes permuted, without a copy."""
    return np.transpose(node[0], node.attribute("perm"))


@evaluates("Concat")
def evaluate_concat(node: Node) -> Array:
    """Tensors concatenated along an axis."""
    return np.concatenate([node[i] for i in range(len(node.inputs))], node.attribute("axis"))


@evaluates("Split")
def evaluate_split(node: Node) -> list[Array]:
    """Parts of given sizes, or as equal as they can be, along an axis."""
    x, parts = node[0], len(node.outputs)
    axis = positive_axis(node.attribute("axis", 0), x.ndim)
    size = -(-x.shape[axis] // parts)
    sizes = node.integers(1, "split") or [size] * (parts - 1)
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
def evaluate_slice(node: Node) -> Array:
    """The elements from starts to ends, along axes, by steps; without a copy."""
    x = node[0]
    starts, ends = node.integers(1, "starts") or [], node.integers(2, "ends") or []
    axes = node.integers(3, "axes")
    axes = range(len(starts)) if axes is None else axes
    steps = node.integers(4) or [1] * len(starts)
    box = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = positive_axis(axis, x.ndim)
        box[axis] = slice(*clamped_indices(start, end, step, x.shape[axis]), step)
    return x[tuple(box)]


@evaluates("Tile")
def evaluate_tile(node: Node) -> Array:
    """Repeated along its axes."""
    return np.tile(node[0], node.integers(1, "repeats") or [])


@evaluates("DepthToSpace")
def evaluate_depth_to_space(node: Node) -> Array:
    """Channels moved into squares of `blocksize` pixels."""
    (n, c, h, w), b = node[0].shape, node.attribute("blocksize")
    if node.attribute("mode", "DCR") == "CRD":
        cells = node[0].reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        cells = node[0].reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return cells.reshape(n, c // (b * b), h * b, w * b)


@evaluates("SpaceToDepth")
def evaluate_space_to_depth(node: Node) -> Array:
    """Squares of `blocksize` pixels moved into channels."""
    (n, c, h, w), b = node[0].shape, node.attribute("blocksize")
    cells = node[0].reshape(n, c, h // b, b, w // b, b)
    order = (0, 1, 3, 5, 2, 4) if node.attribute("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return cells.transpose(order).reshape(n, c * b * b, h // b, w // b)


@evaluates("Trilu")
def evaluate_trilu(node: Node) -> Array:
    """The upper or lower triangle, shifted by k."""
    x, k = node[0], (node.integers(1) or [0])[0]
    rows, columns = (int(extent) for extent in x.shape[-2:])
    distance = np.arange(columns) - np.arange(rows)[:, None]
    keep = distance >= k if node.attribute("upper", 1) else distance <= k
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
def evaluate_pad(node: Node) -> Array:
    """Padded or cropped by a constant, the edge, the mirrored or the repeated content."""
    x, mode = node[0], node.attribute("mode", "constant")
    given = node.integers(1, "pads") or []
    axes = node.integers(3)
    axes = list(range(x.ndim)) if axes is None else axes
    pads = [(0, 0)] * x.ndim
    for axis, before, after in zip(axes, given[: len(axes)], given[len(axes) :], strict=True):
        pads[positive_axis(axis, x.ndim)] = (before, after)
    if mode == "constant":
        value = (
            converted_array(node[2].reshape(()), x.dtype) if node.has(2) else np.zeros((), x.dtype)
        )
        return _constant_padded(x, pads, value)
    for axis, (before, after) in enumerate(pads):
        if before or after:
            kept = range(max(0, -before), x.shape[axis] - max(0, -after))
            size = x.shape[axis] + before + after
            x = np.take(x, kept, axis)
            x = np.take(x, _source(mode, max(0, before), len(kept), size), axis)
    return x


@evaluates("ReverseSequence")
def evaluate_reverse_sequence(node: Node) -> Array:
    """The first `lengths[b]` steps of each batch entry in reverse order."""
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    x = np.moveaxis(node[0], (time, batch), (0, 1))
    lengths = np.clip(node[1], 0, x.shape[0])
    steps = np.arange(int(x.shape[0]))[:, None]
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    return np.moveaxis(x[order, np.arange(x.shape[1])], (0, 1), (time, batch))
