"""Masks of onnxruntime's attentions in each of their forms, as terms added to the scores."""

import numpy as np

from compiler.frontend.graph import Unsupported, Value
from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.heads import causal_keys, lowest_number
from compiler.net.operators import ShapeMismatch

_FILTER = -10000.0


def added_mask(
    call: Call, mask: Value | None, dtype: str, sizes: tuple[int, int, int]
) -> Value | None:
    """The term that a mask and the node's causality add to scores.

    Sizes are batch, length and total.
    """
    _, length, total = sizes
    term = None if mask is None else _term(call, mask, dtype, sizes)
    if not call.attributes["unidirectional"] or length <= 1:  # the last position sees all keys
        return term
    low, zero = (call.builder.constant(number, dtype) for number in (lowest_number(dtype), 0))
    causal = causal_keys(call, length, total)
    return call.one("Where", causal, zero if term is None else term, low)


def _term(call: Call, mask: Value, dtype: str, sizes: tuple[int, int, int]) -> Value:
    """The filter value where a mask hides a key, else 0, to be broadcast to the scores."""
    filter_value = call.attributes.get("mask_filter_value", _FILTER)
    hidden = call.builder.constant(filter_value, dtype)
    return call.one("Where", _visible(call, mask, sizes), call.builder.constant(0, dtype), hidden)


def _visible(call: Call, mask: Value, sizes: tuple[int, int, int]) -> Value:
    """Which keys a mask shows: ends of sequences, or a number for each key."""
    batch, length, total = sizes
    if mask.rank == 1:
        return _between(call, mask, batch, total)
    if mask.rank == 4:  # for the longest sequence
        start = total - length
        mask = call.part(call.part(mask, 2, start, total), 3, 0, total)
    elif mask.rank == 3:
        mask = call.reshaped(mask, [mask.shape[0], 1, *mask.shape[1:]])
    else:
        mask = call.reshaped(mask, [mask.shape[0], 1, 1, mask.shape[1]])
    if any(s not in (1, w) for s, w in zip(mask.shape, (batch, 1, length, total), strict=True)):
        raise ShapeMismatch(f"its mask {list(mask.shape)} does not fit {length} x {total} scores")
    return call.one("Greater", mask, call.builder.constant(0, mask.dtype))


def _between(call: Call, mask: Value, batch: int, total: int) -> Value:
    """Keys before each sequence's end, and from its start on if the mask has starts too."""
    if mask.shape[0] not in (batch, 2 * batch):
        reason = f"its mask has {mask.shape[0]} numbers for {batch} sequences"
        remedy = "give the end of each sequence, with its start if needed, or a mask of keys"
        raise Unsupported(reason, remedy)
    positions = call.builder.constant(np.arange(total).reshape(1, 1, 1, total), mask.dtype)
    column = [batch, 1, 1, 1]
    ends = call.reshaped(call.part(mask, 0, 0, batch), column)
    visible = call.one("Less", positions, ends)
    if mask.shape[0] == batch:
        return visible
    starts = call.reshaped(call.part(mask, 0, batch, 2 * batch), column)
    return call.one("And", visible, call.one("GreaterOrEqual", positions, starts))
