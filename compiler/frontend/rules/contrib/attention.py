"""Rules for Attention and MultiHeadAttention."""

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.heads import (
    appended,
    as_heads,
    as_rows,
    attention,
    causal_keys,
    lowest_number,
)
from compiler.frontend.rules.contrib.registry import (
    contrib,
    refuse,
    refuse_inputs,
    transposed,
)
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import Mismatch, ShapeMismatch

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
        # Keys before each sequence's end, and from its start on if the mask has starts too.
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


def self_attention(
    call: Call, projected: Value, widths: list[int], mask: Value | None, past: Value | None
) -> list[Value]:
    """The results of attention over projections (batch, length, widths of Q, K and V)."""
    batch, length, _ = projected.shape
    heads = call.attributes["num_heads"]
    query, key, value = (as_heads(call, v, heads) for v in call.parts(projected, 2, widths))
    if past is not None:
        earlier = [_slice(call, past, index) for index in (0, 1)]
        key, value = (appended(call, old, v) for old, v in zip(earlier, (key, value), strict=True))
    sizes = batch, length, key.shape[2]
    added = [added_mask(call, mask, projected.dtype, sizes)]
    added += [] if call.op_type == "QAttention" else [call.input(5)]
    result = as_rows(call, attention(call, query, key, value, added))
    return [result, _stacked(call, key, value)] if any(call.used[1:]) else [result, Value("")]


def _slice(call: Call, value: Value, index: int) -> Value:
    return call.one("Gather", value, call.builder.constant(index, "int64"), axis=0)


def _stacked(call: Call, key: Value, value: Value) -> Value:
    """Keys and values as one tensor."""
    if key.shape != value.shape:
        raise ShapeMismatch(f"keys {list(key.shape)} and values {list(value.shape)} differ")
    columns = [call.reshaped(v, [1, *v.shape]) for v in (key, value)]
    return call.one("Concat", *columns, axis=0)


def refuse_self_attention(call: Call) -> None:
    """Raise Unsupported for forms that no rule supports."""
    refuse(call, "do_rotary", "past_present_share_buffer")


@contrib("Attention")
def rewrite_attention(call: Call) -> list[Value]:
    """One GEMM of Q, K and V, heads, softmax of masked scores."""
    refuse_self_attention(call)
    refuse_inputs(call, past_sequence_length=6)
    x = call.data
    weight = call.operand(1)
    bias = call.input(2)
    width = weight.shape[-1]
    widths = call.attributes.get("qkv_hidden_sizes") or [width // 3] * 3
    if len(widths) != 3:
        raise Mismatch(f"its qkv_hidden_sizes are {widths}, not those of Q, K and V")
    projected = call.one("MatMul", x, weight)
    if bias is not None:
        projected = call.one("Add", projected, bias)
    results = self_attention(call, projected, widths, call.input(3), call.input(4))
    return results[: len(call.used)]


def _packed(call: Call, value: Value, count: int) -> list[Value]:
    """Heads from (batch, length, heads, count, size), in which Q, K or V alternate."""
    perm = transposed(call, value, [3, 0, 2, 1, 4])
    if perm.shape[0] != count:
        raise ShapeMismatch(f"axis 3 of {list(value.shape)} must have the size {count}")
    return [_slice(call, perm, index) for index in range(count)]


def _biases(call: Call, value: Value | None, widths: list[int]) -> list[Value | None]:
    """The parts of a bias of Q, K and V."""
    return [None] * 3 if value is None else [*call.parts(value, 0, widths)]


def _heads(call: Call, value: Value, bias: Value | None) -> Value:
    """Heads of rows plus a bias; four dimensions are heads already."""
    if value.rank == 4:
        return value
    biased = value if bias is None else call.one("Add", value, bias)
    return as_heads(call, biased, call.attributes["num_heads"])


def _separate(call: Call, query: Value, key: Value) -> list[Value]:
    """Heads of query, key and value that are separate inputs."""
    value = call.input(2)
    if key.rank == 5:
        both = _packed(call, key, 2)
        return [as_heads(call, query, call.attributes["num_heads"]), *both]
    if value is None:
        raise Mismatch("it has a key without a value")
    width = query.shape[-1]
    rows = key.rank == 3 and value.rank == 3
    widths = [width, key.shape[-1], value.shape[-1]] if rows else [width, width, width]
    biases = _biases(call, call.input(3), widths)
    pairs = zip((query, key, value), biases, strict=True)
    return [_heads(call, operand, bias) for operand, bias in pairs]


def _unpacked(call: Call, packed: Value) -> list[Value]:
    """Heads of query, key and value that alternate in one input."""
    if packed.rank != 5:
        raise ShapeMismatch(f"without a key, its query {list(packed.shape)} needs five dimensions")
    query, key, value = _packed(call, packed, 3)
    size = packed.shape[2] * packed.shape[4]
    biases = _biases(call, call.input(3), [size, size, size])
    shape = [1, packed.shape[2], 1, packed.shape[4]]
    return [
        v if b is None else call.one("Add", v, call.reshaped(b, shape))
        for v, b in zip((query, key, value), biases, strict=True)
    ]


@contrib("MultiHeadAttention")
def rewrite_multi_head_attention(call: Call) -> list[Value]:
    """Heads of projected queries, keys and values; softmax of masked scores."""
    refuse_inputs(call, past_sequence_length=8, cache_indirection=9)
    if (call.input(6) is None) != (call.input(7) is None):
        raise Mismatch("it has past keys or past values without the others")
    key = call.input(1)
    operands = _unpacked(call, call.data) if key is None else _separate(call, call.data, key)
    query, keys, values = operands
    length, given = query.shape[2], keys.shape[2]
    if call.attributes["unidirectional"] and length > 1 and given != length:
        reason = f"which of its {given} keys each of {length} queries sees is not defined"
        remedy = "give the mask as attention_bias, without unidirectional"
        raise Unsupported(f"{reason}: onnxruntime's providers differ", remedy)
    keys = appended(call, call.input(6), keys)
    values = appended(call, call.input(7), values)
    sizes = query.shape[0], query.shape[2], keys.shape[2]
    added = [added_mask(call, call.input(4), query.dtype, sizes), call.input(5)]
    if any(call.used[3:]):
        raise Unsupported("its scores are not computed as an output", "remove the output")
    result = as_rows(call, attention(call, query, keys, values, added))
    return [result, keys, values, Value("")][: len(call.used)]
