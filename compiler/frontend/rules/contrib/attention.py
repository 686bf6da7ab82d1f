"""Rules for Attention and MultiHeadAttention."""

from compiler.frontend.graph import Unsupported, Value
from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.heads import (
    appended,
    as_heads,
    as_rows,
    attention,
)
from compiler.frontend.rules.contrib.masks import added_mask
from compiler.frontend.rules.contrib.registry import (
    contrib,
    refuse,
    refuse_inputs,
    transposed,
)
from compiler.net.operators import Mismatch, ShapeMismatch


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
    x, weight, bias = call.data, call.operand(1), call.input(2)
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
    keys = appended(call, call.input(6), keys)
    values = appended(call, call.input(7), values)
    sizes = query.shape[0], query.shape[2], keys.shape[2]
    added = [added_mask(call, call.input(4), query.dtype, sizes), call.input(5)]
    if any(call.used[3:]):
        raise Unsupported("its scores are not computed as an output", "remove the output")
    result = as_rows(call, attention(call, query, keys, values, added))
    return [result, keys, values, Value("")][: len(call.used)]
