"""Scatters of one update for each element, which choose between it and the data.

Steps of decoders write so to their caches. A choice fuses with what surrounds it, and no kernel has
to look through indices.
"""

from collections.abc import Sequence
from functools import reduce
from math import prod

from compiler.frontend.rules.call import Call, rule
from compiler.net.graph import Value
from compiler.net.operators import POSITIONS, facts_of
from compiler.tensors.substitution import extents_in

STORES = ("none", None)
"""The reductions of scatters that combine nothing; before opset 16 there is no such attribute."""


@rule("ScatterND")
def rewrite_scatter_of_a_slice(call: Call) -> list[Value]:
    """One slice at a tuple of indices replaces that of the data."""
    data, indices, updates = call.operands
    *lead, depth = indices.shape
    if call["reduction"] not in STORES or not _is_chosen(data, indices) or prod(lead) != 1:
        return call.emit()
    source, order = _before_transpose(call, data)
    indices = _shaped(call, indices, [depth])
    named = [call.part(indices, 0, axis, axis + 1) for axis in range(depth)]
    places = [_named(call, at, source, order[axis]) for axis, at in enumerate(named)]
    chosen = reduce(lambda one, other: call.one("And", one, other), places)
    slices = _shaped(call, updates, [1] * depth + list(data.shape[depth:]))
    if source is data:
        return [call.one("Where", chosen, slices, data)]
    slices = call.one("Transpose", slices, perm=[order.index(axis) for axis in range(data.rank)])
    return [call.one("Transpose", call.one("Where", chosen, slices, source), perm=order)]


@rule("ScatterElements")
def rewrite_scatter_of_single_elements(call: Call) -> list[Value]:
    """One element of each column along an axis replaces another."""
    data, indices, updates = call.operands
    axis = call.axis()
    columns = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    if call["reduction"] not in STORES or not _is_chosen(data, indices) or indices.shape != columns:
        return call.emit()
    return [call.one("Where", _named(call, indices, data, axis), updates, data)]


def _shaped(call: Call, value: Value, shape: Sequence[int]) -> Value:
    """A value in a shape, which it may have already."""
    return value if value.shape == tuple(shape) else call.reshaped(value, shape)


def _before_transpose(call: Call, data: Value) -> tuple[Value, list[int]]:
    """The tensor that data are a transpose of, and which of its axes each of theirs is.

    Exporters put the axes that are indexed first, and back afterwards: both transposes go then.
    """
    operators = reversed(call.builder.graph.operators)
    maker = next((op for op in operators if data in op.outputs), None)
    if maker is None or not facts_of(maker.type).permutes:
        return data, [*range(data.rank)]
    return maker.operand(0), list(maker.attributes["perm"])


def _is_chosen(data: Value, indices: Value) -> bool:
    """Whether a run decides which elements of data of known sizes are replaced."""
    if indices.array is not None or [*extents_in([data.shape, indices.shape])]:
        return False
    return prod(data.shape) > 0 and prod(indices.shape) > 0


def _named(call: Call, indices: Value, data: Value, axis: int) -> Value:
    """Whether an index along an axis is the one that is given, for each element of the data.

    Negative indices count from the end, others are kept inside.
    """
    extent = data.shape[axis]
    dtype = indices.dtype
    low, high = (call.builder.constant(n, dtype) for n in (-extent, extent - 1))
    at = call.one("Clip", indices, low, high)
    column = [extent] + [1] * (data.rank - axis - 1)
    starts = (call.builder.constant(n, dtype) for n in (0, -extent))
    counts = (_shaped(call, call.one(POSITIONS, n, count=extent), column) for n in starts)
    return call.one("Or", *(call.one("Equal", numbers, at) for numbers in counts))
