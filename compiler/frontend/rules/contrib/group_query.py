"""The rule for GroupQueryAttention: few heads of keys, and a cache of earlier ones."""

from dataclasses import dataclass

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.heads import (
    as_heads,
    as_rows,
    lowest_number,
    repeated_heads,
    scores,
)
from compiler.frontend.rules.contrib.registry import contrib, refuse, refuse_inputs
from compiler.frontend.rules.contrib.rotary import rotated
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import Mismatch
from compiler.tensors.dtypes import element_type


@dataclass(frozen=True, slots=True)
class _Lengths:
    """The lengths of the sequences: new tokens, cached tokens, slots of keys.

    `before` is the number of earlier tokens (batch, 1, 1, 1), `slots` counts slots along axis 3,
    `prompt` says that no tokens are earlier.
    """

    new: int
    total: int
    before: Value
    prompt: bool
    batch: int


def _lengths(call: Call, length: int, batch: int) -> _Lengths:
    """From the inputs seqlens_k and total_sequence_length, and the size of the cache."""
    longest = int(call.content(6).reshape(()))
    past = call.input(3)
    total = max(longest, 0 if past is None else past.shape[2])
    prompt = length == longest
    if prompt or past is None:
        before = call.builder.constant(np.zeros((1, 1, 1, 1)), "int64")
    else:
        call.check_indices(5, length - 1, total - 1)
        last = call.one("Cast", call.operand(5), to=element_type("int64"))
        offset = call.builder.constant(1 - length, "int64")
        before = call.reshaped(call.one("Add", last, offset), [batch, 1, 1, 1])
    return _Lengths(new=length, total=total, before=before, prompt=prompt, batch=batch)


def _count(call: Call, size: int, axis: int) -> Value:
    """The numbers from 0 along one of four axes."""
    shape = [1] * 4
    shape[axis] = size
    return call.builder.constant(np.arange(size).reshape(shape), "int64")


def _cached(call: Call, past: Value | None, value: Value, lengths: _Lengths) -> Value:
    """The new heads written after the earlier ones of each sequence, and zeros after them."""
    batch, heads, length, size = value.shape
    if lengths.total == length and lengths.prompt:
        return value
    shape = [batch, heads, lengths.total, size]
    index = call.one("Sub", _count(call, lengths.total, 2), lengths.before)
    zero = call.builder.constant(0, "int64")
    inside = call.one("Clip", index, zero, call.builder.constant(length - 1, "int64"))
    new = call.one("GatherElements", value, call.expanded(inside, shape), axis=2)
    is_new = call.one("And", *_between(call, index, length))
    earlier = _widened(call, past, shape, value.dtype)
    is_earlier = call.one("Less", index, zero)
    nothing = call.builder.constant(0, value.dtype)
    return call.one("Where", is_new, new, call.one("Where", is_earlier, earlier, nothing))


def _between(call: Call, index: Value, length: int) -> tuple[Value, Value]:
    zero, end = (call.builder.constant(n, "int64") for n in (0, length))
    return call.one("GreaterOrEqual", index, zero), call.one("Less", index, end)


def _widened(call: Call, past: Value | None, shape: list[int], dtype: str) -> Value:
    """The earlier heads, with zeros after them."""
    if past is None:
        return call.builder.constant(0, dtype)
    batch, heads, length, size = past.shape
    if length == shape[2]:
        return past
    zeros = call.filled(0, (batch, heads, shape[2] - length, size), dtype)
    return call.one("Concat", past, zeros, axis=2)


def _mask(call: Call, lengths: _Lengths, dtype: str) -> Value | None:
    """A term that hides the keys after each token, and those before its window."""
    row = call.one("Add", _count(call, lengths.new, 2), lengths.before)
    slot = _count(call, lengths.total, 3)
    visible = call.one("LessOrEqual", slot, row)
    window = call.attributes["local_window_size"]
    if window > 0:
        first = call.one("Sub", row, call.builder.constant(window, "int64"))
        visible = call.one("And", visible, call.one("Greater", slot, first))
    nothing, low = (call.builder.constant(n, dtype) for n in (0, lowest_number(dtype)))
    return call.one("Where", visible, nothing, low)


def _projections(call: Call) -> list[Value]:
    """Heads of queries, keys and values, which may be parts of one input."""
    heads, few = call.attributes["num_heads"], call.attributes["kv_num_heads"]
    if heads % few:
        raise Mismatch(f"its {heads} heads are not a multiple of {few} heads of keys")
    key, value = call.input(1), call.input(2)
    if (key is None) != (value is None):
        raise Mismatch("it has a key or a value without the other")
    rows = [call.data]
    if key is None or value is None:
        size = call.data.shape[-1] // (heads + 2 * few)
        rows = call.parts(call.data, 2, [heads * size, few * size, few * size])
    else:
        rows += [key, value]
    counts = (heads, few, few)
    return [as_heads(call, row, count) for row, count in zip(rows, counts, strict=True)]


def _weights(call: Call, dots: Value, added: list[Value | None]) -> Value:
    """Softmax of capped and masked scores, with a sink if the node has one."""
    if cap := call.attributes.get("softcap", 0):
        bound = call.builder.constant(cap, dots.dtype)
        dots = call.one("Mul", call.one("Tanh", call.one("Div", dots, bound)), bound)
    for mask in added:
        dots = dots if mask is None else call.one("Add", dots, mask)
    sink = _sink(call, dots)
    if sink is None:
        return call.one("Softmax", dots, axis=-1)
    weights = call.one("Softmax", call.one("Concat", dots, sink, axis=3), axis=-1)
    return call.parts(weights, 3, [dots.shape[3], 1])[0]


def _sink(call: Call, dots: Value) -> Value | None:
    """A score for no key at all: one of each head, or 0 for a smooth softmax."""
    sink, (batch, heads, length, _) = call.input(11), dots.shape
    if sink is None:
        smooth = call.attributes["smooth_softmax"] == 1
        return call.filled(0, (batch, heads, length, 1), dots.dtype) if smooth else None
    return call.expanded(call.reshaped(sink, [1, heads, 1, 1]), [batch, heads, length, 1])


@contrib("GroupQueryAttention")
def rewrite_group_query_attention(call: Call) -> list[Value]:
    """Rotated heads, written into the cache; attention in which heads share keys."""
    refuse(call, "kv_cache_bit_width", "qk_output", "sliding_window_cache")
    refuse_inputs(call, k_scale=12, v_scale=13, q_norm_weight=14, k_norm_weight=15)
    refuse_inputs(call, query_seqlens=16)
    if not call.attributes["causal"]:
        raise Unsupported("it is not causal", "use MultiHeadAttention")
    for name in ("k_quant_type", "v_quant_type"):
        if call.attributes[name] != "NONE":
            raise Unsupported(f"its cache is quantised ({name})", "export it with a float cache")
    query, key, value = _projections(call)
    lengths = _lengths(call, query.shape[2], query.shape[0])
    if call.attributes.get("do_rotary", 0):
        angles = call.operand(7), call.operand(8)
        interleaved = bool(call.attributes.get("rotary_interleaved", 0))
        given = call.input(9)
        if given is not None:
            positions = given
        else:
            count = call.one("Add", _count(call, lengths.new, 3), lengths.before)
            positions = call.reshaped(count, [-1, lengths.new])
        query, key = (rotated(call, v, angles, positions, interleaved) for v in (query, key))
    present = [_cached(call, call.input(3 + i), v, lengths) for i, v in enumerate((key, value))]
    times = query.shape[1] // key.shape[1]
    keys, values = (repeated_heads(call, v, times) for v in present)
    added = [call.input(10), _mask(call, lengths, query.dtype)]
    weights = _weights(call, scores(call, query, keys), added)
    result = as_rows(call, call.one("MatMul", weights, values))
    return [result, *present, Value("")][: len(call.used)]
