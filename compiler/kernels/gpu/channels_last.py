"""Results of a convolution that are stored with channels last, after a Transpose."""

from collections.abc import Sequence
from math import prod
from typing import Any

from compiler.graph.fusion.channels_last import (
    ElementOrder,
    contiguous,
    has_channels_last,
    order_after,
)
from compiler.kernels.group import Group, Node
from compiler.net.operators import KINDS, Kind
from compiler.tensors.row_major import unflatten_index


def ends_channels_last(group: Group, anchor: Node[int]) -> bool:
    """Whether all results are those of a convolution, element by element, with channels last."""
    kinds = {KINDS[op.type] for op in group.operators if op is not anchor}
    if not kinds <= {Kind.ELEMENTWISE, Kind.VIEW, Kind.INJECTIVE}:
        return False
    orders = _orders(group, anchor)
    image = group.values[anchor.output].shape
    ends = [orders.get(value) for value in group.outputs]
    return all(order is not None and has_channels_last(order, image) for order in ends)


def last_index(shape: Sequence[int], image: Sequence[int], place: Sequence[Any]) -> list[Any]:
    """The index in a result with channels last; `place` is an image, a channel and a pixel."""
    (outer, channels, pixels), (image_index, channel, pixel) = _extents(image), place
    lead = list(shape[:-1])
    assert shape[-1] == channels
    for cut in range(len(lead) + 1):
        if prod(lead[:cut]) == outer and prod(lead[cut:]) == pixels:
            return [*_split(image_index, lead[:cut]), *_split(pixel, lead[cut:]), channel]
    return [*_split(image_index * pixels + pixel, lead), channel]


def _extents(image: Sequence[int]) -> tuple[int, int, int]:
    return image[0], image[1], prod(image[2:])


def _split(position: Any, shape: Sequence[int]) -> list[Any]:
    """The index at a row-major position; an axis that has all elements needs no remainder."""
    long = [extent for extent in shape if extent != 1]
    if len(long) != 1:
        return unflatten_index(position, shape)
    return [0 if extent == 1 else position for extent in shape]


def _orders(group: Group, anchor: Node[int]) -> dict[int, ElementOrder | None]:
    """The order of each value that follows from an anchor's result; None where there is none."""
    result = anchor.output
    orders: dict[int, ElementOrder | None] = {result: contiguous(group.values[result].shape)}
    for op in group.operators:
        sources = [orders[i] for i in op.inputs if i is not None and i in orders]
        if sources and op is not anchor:
            known = [source for source in sources if source is not None]
            shape = group.values[op.output].shape
            whole = len(known) == len(sources) and len(op.outputs) == 1
            after = order_after(op.type, op.attributes, known, shape) if whole else None
            orders |= dict.fromkeys(op.outputs, after)
    return orders
