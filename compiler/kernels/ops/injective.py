"""Lowerings of injective operators: each output element is one input element from elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy
from tvm import te, tirx

from compiler.kernels.ops.common import cast, clamped, normal_axis, safe_index, zeros
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.tables import table_element
from compiler.kernels.ops.windows import constant_padded

_IN_TURN = 64
"""Up to so many inputs of a Concat are compared with in turn, more by bisection."""


def moved(context: Context, index: Callable[..., list[Any]]) -> te.Tensor:
    """The first input read at `index(output index)`."""
    data = context.tensor(0)
    return te.compute(context.output.shape, lambda *i: data(*index(*i)), name=context.operator.type)


@lowering("Transpose")
def lower_transpose(context: Context) -> te.Tensor:
    """Permute the axes."""
    rank = len(context.output.shape)
    order = list(context.attribute("perm") or range(rank)[::-1])

    def index(*i: Any) -> list[Any]:
        return [i[order.index(axis)] for axis in range(rank)]

    return moved(context, index)


@lowering("Concat")
def lower_concat(context: Context) -> te.Tensor:
    """Join tensors along an axis."""
    axis = normal_axis(context.attribute("axis"), len(context.output.shape))
    parts = [i for i in range(len(context.inputs)) if context.info(i).shape[axis] > 0]
    tensors = [context.tensor(i) for i in parts]
    ends = numpy.cumsum([context.info(i).shape[axis] for i in parts]).tolist()

    def body(*indices: Any) -> Any:
        def part(first: int, last: int) -> Any:
            if first == last:
                start = ends[first - 1] if first else 0
                return tensors[first](*indices[:axis], indices[axis] - start, *indices[axis + 1 :])
            cut = first if last - first < _IN_TURN else (first + last) // 2
            before = indices[axis] < ends[cut]
            return tirx.if_then_else(before, part(first, cut), part(cut + 1, last))

        return part(0, len(tensors) - 1)

    return te.compute(context.output.shape, body, name="Concat")


@lowering("Split")
def lower_split(context: Context) -> list[te.Tensor]:
    """Cut a tensor along an axis into the results."""
    data = context.tensor(0)
    axis = normal_axis(context.attribute("axis", 0), len(data.shape))
    starts = numpy.cumsum([0] + [output.shape[axis] for output in context.outputs])

    def part(start: int) -> Callable[..., Any]:
        return lambda *i: data(*i[:axis], i[axis] + start, *i[axis + 1 :])

    return [
        te.compute(output.shape, part(int(start)), name="Split")
        for output, start in zip(context.outputs, starts, strict=False)
    ]


@lowering("Slice")
def lower_slice_operator(context: Context) -> te.Tensor:
    """Take a range with a step along some axes."""
    shape = context.info(0).shape
    starts = context.integers(1)
    axes = context.integers(3) if context.has(3) else list(range(len(starts)))
    steps = context.integers(4) if context.has(4) else [1] * len(starts)
    first, step = [0] * len(shape), [1] * len(shape)
    for axis, begin, by in zip(axes, starts, steps, strict=True):
        axis = normal_axis(axis, len(shape))
        begin = begin + shape[axis] if begin < 0 else begin
        first[axis] = min(max(begin, 0), shape[axis] - (by < 0))
        step[axis] = by

    def index(*i: Any) -> list[Any]:
        return [f + x * s for f, x, s in zip(first, i, step, strict=True)]

    return moved(context, index)


@lowering("Tile")
def lower_tile(context: Context) -> te.Tensor:
    """Repeat a tensor along its axes."""
    shape = context.info(0).shape
    full = context.output.shape

    def index(*i: Any) -> list[Any]:
        return [x if n == m else x % n for x, n, m in zip(i, shape, full, strict=True)]

    return moved(context, index)


@lowering("DepthToSpace")
def lower_depth_to_space(context: Context) -> te.Tensor:
    """Move channels into squares of `blocksize` pixels."""
    b = context.attribute("blocksize")
    channels = context.output.shape[1]
    column_row_depth = context.attribute("mode", "DCR") == "CRD"

    def index(n: Any, c: Any, h: Any, w: Any) -> list[Any]:
        cell = h % b * b + w % b
        channel = c * (b * b) + cell if column_row_depth else cell * channels + c
        return [n, channel, h // b, w // b]

    return moved(context, index)


@lowering("SpaceToDepth")
def lower_space_to_depth(context: Context) -> te.Tensor:
    """Move squares of `blocksize` pixels into channels."""
    b = context.attribute("blocksize")
    channels = context.info(0).shape[1]
    column_row_depth = context.attribute("mode", "DCR") == "CRD"

    def index(n: Any, c: Any, h: Any, w: Any) -> list[Any]:
        cell = c % (b * b) if column_row_depth else c // channels
        channel = c // (b * b) if column_row_depth else c % channels
        return [n, channel, h * b + cell // b, w * b + cell % b]

    return moved(context, index)


@lowering("Gather")
def lower_gather(context: Context) -> te.Tensor:
    """Take slices along an axis by index; an index outside is kept inside."""
    if context.info(0).elements == 0:
        return zeros(context)
    data, shape = context.tensor(0), context.info(0).shape
    axis = normal_axis(context.attribute("axis", 0), len(shape))
    indices, rank = context.tensor(1), len(context.info(1).shape)

    def body(*i: Any) -> Any:
        chosen = safe_index(indices(*i[axis : axis + rank]), shape[axis])
        return data(*i[:axis], chosen, *i[axis + rank :])

    return te.compute(context.output.shape, body, name="Gather")


@lowering("GatherElements")
def lower_gather_elements(context: Context) -> te.Tensor:
    """Take single elements along an axis by index."""
    if context.info(0).elements == 0:
        return zeros(context)
    data, indices, shape = context.tensor(0), context.tensor(1), context.info(0).shape
    axis = normal_axis(context.attribute("axis", 0), len(shape))

    def body(*i: Any) -> Any:
        return data(*i[:axis], safe_index(indices(*i), shape[axis]), *i[axis + 1 :])

    return te.compute(context.output.shape, body, name="GatherElements")


@lowering("GatherND")
def lower_gather_nd(context: Context) -> te.Tensor:
    """Take slices by index tuples."""
    if context.info(0).elements == 0:
        return zeros(context)
    data, indices, shape = context.tensor(0), context.tensor(1), context.info(0).shape
    places = context.info(1).shape
    batch: int = context.attribute("batch_dims", 0)
    depth, lead = places[-1], len(places) - 1

    def body(*i: Any) -> Any:
        chosen = [safe_index(indices(*i[:lead], k), shape[batch + k]) for k in range(depth)]
        return data(*i[:batch], *chosen, *i[lead:])

    return te.compute(context.output.shape, body, name="GatherND")


@lowering("OneHot")
def lower_one_hot(context: Context) -> te.Tensor:
    """`on` where the index equals the position along a new axis, else `off`."""
    indices, values = context.tensor(0), context.tensor(2)
    rank = len(context.output.shape)
    axis = normal_axis(context.attribute("axis", -1), rank)
    depth = context.output.shape[axis]

    def body(*i: Any) -> Any:
        index = indices(*i[:axis], *i[axis + 1 :])
        index = index.astype("int64")
        index = tirx.Select(
            index < tirx.const(0, "int64"), index + tirx.const(depth, "int64"), index
        )
        return tirx.Select(tirx.EQ(index, i[axis].astype("int64")), values(1), values(0))

    return te.compute(context.output.shape, body, name="OneHot")


@lowering("ReverseSequence")
def lower_reverse_sequence(context: Context) -> te.Tensor:
    """Reverse the first `lengths[b]` steps of each batch entry; more than all are all."""
    time: int = context.attribute("time_axis", 0)
    batch: int = context.attribute("batch_axis", 1)
    data, lengths, steps = context.tensor(0), context.tensor(1), context.info(0).shape[time]

    def body(*i: Any) -> Any:
        length = clamped(lengths(i[batch]), steps)
        at = list(i)
        at[time] = tirx.Select(i[time] < length, length - 1 - i[time], i[time])
        return data(*at)

    return te.compute(context.output.shape, body, name="ReverseSequence")


@lowering("Trilu")
def lower_trilu(context: Context) -> te.Tensor:
    """Keep the upper or lower triangle, shifted by k."""
    k = context.integers(1)[0] if context.has(1) else 0
    upper = context.attribute("upper", 1)
    data, zero = context.tensor(0), tirx.const(0, context.output.dtype)
    rows, columns = context.output.shape[-2:]
    k = max(-rows - 1, min(k, columns + 1))

    def body(*i: Any) -> Any:
        keep = i[-1] - i[-2] >= k if upper else i[-1] - i[-2] <= k
        return tirx.Select(keep, data(*i), zero)

    return te.compute(context.output.shape, body, name="Trilu")


def pad_positions(mode: str, before: int, extent: int, size: int) -> numpy.ndarray:
    """The source position of each position of an axis that is padded by its own elements.

    What negative pads take away is gone before the rest is repeated.
    """
    after = size - before - extent
    gone, kept = max(0, -before), extent + min(before, 0) + min(after, 0)
    places = numpy.arange(size) - max(0, before)
    if mode == "edge":
        return gone + numpy.clip(places, 0, kept - 1)
    if mode == "wrap":
        return gone + places % kept
    period = max(1, 2 * (kept - 1))
    folded = places % period
    return gone + numpy.where(folded < kept, folded, period - folded)


LONGEST_TABLE = 1 << 16
"""Most positions of a padded axis that are written into code, where reading them vectorises."""


def _pad_position(mode: str, before: int, extent: int, size: int, position: Any) -> Any:
    """An element of `pad_positions`, read from a table or, if that is long, computed."""
    if size <= LONGEST_TABLE or size + 2 * extent > 2**31 - 1:
        return table_element(pad_positions(mode, before, extent, size), position, "int32")
    after = size - before - extent
    gone, kept = max(0, -before), extent + min(before, 0) + min(after, 0)
    if mode == "edge":
        inside = tirx.max(position - max(0, before), 0)
        return gone + tirx.min(inside, kept - 1)
    period = kept if mode == "wrap" else max(1, 2 * (kept - 1))
    folded = tirx.floormod(position + -max(0, before) % period, period)
    return gone + (folded if mode == "wrap" else tirx.min(folded, period - folded))


@lowering("Pad")
def lower_pad(context: Context) -> te.Tensor:
    """Pad or crop axes by a constant, the edge, the mirrored or the repeated content."""
    data, shape = context.tensor(0), context.info(0).shape
    mode = context.attribute("mode", "constant")
    before = [0] * len(shape)
    pads = context.integers(1)
    axes = context.integers(3) if context.has(3) else list(range(len(shape)))
    for axis, amount in zip(axes, pads[: len(pads) // 2], strict=True):
        before[normal_axis(axis, len(shape))] = amount
    dtype = context.output.dtype
    if mode != "constant" and context.info(0).elements == 0 < context.output.elements:
        raise context.fail(f"it cannot pad {list(shape)}, which has no elements, by '{mode}'")
    fill = context.element(2, (0,)) if context.has(2) else tirx.const(0, dtype)

    def body(*i: Any) -> Any:
        if mode == "constant":
            return constant_padded(data, i, before, shape, context.output.shape, cast(fill, dtype))
        at = [
            x if n == m and not b else _pad_position(mode, b, n, m, x)
            for x, b, n, m in zip(i, before, shape, context.output.shape, strict=True)
        ]
        return data(*at)

    return te.compute(context.output.shape, body, name="Pad")
