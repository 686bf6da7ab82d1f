"""Attention over heads: projections as heads, scores, masks, results."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.registry import transposed
from compiler.net.evaluation.rounding import finite_limits
from compiler.net.graph import Value
from compiler.net.operators import ShapeMismatch
from compiler.tensors.dtypes import numpy_dtype


def as_heads(call: Call, value: Value, heads: int) -> Value:
    """Rows (batch, length, heads * size) as (batch, heads, length, size)."""
    batch, length, width = value.shape
    if width % heads:
        raise ShapeMismatch(f"{list(value.shape)} cannot be divided into {heads} heads")
    split = call.reshaped(value, [batch, length, heads, width // heads])
    return transposed(call, split, [0, 2, 1, 3])


def as_rows(call: Call, value: Value) -> Value:
    """Heads (batch, heads, length, size) as rows (batch, length, heads * size)."""
    batch, heads, length, size = value.shape
    return call.reshaped(transposed(call, value, [0, 2, 1, 3]), [batch, length, heads * size])


def repeated_heads(call: Call, value: Value, times: int) -> Value:
    """Each head of (batch, heads, length, size) several times in a row."""
    if times == 1:
        return value
    batch, heads, length, size = value.shape
    column = call.reshaped(value, [batch, heads, 1, length, size])
    repeated = call.expanded(column, [batch, heads, times, length, size])
    return call.reshaped(repeated, [batch, heads * times, length, size])


def scores(call: Call, query: Value, key: Value) -> Value:
    """The MatMul of heads, scaled by the node's factor or the root of the head's size."""
    scale = call.attributes.get("scale") or 1 / sqrt(max(query.shape[-1], 1))
    dots = call.one("MatMul", query, transposed(call, key, [0, 1, 3, 2]))
    return call.one("Mul", dots, call.builder.constant(scale, query.dtype))


def attention(
    call: Call, query: Value, key: Value, value: Value, added: Sequence[Value | None]
) -> Value:
    """Softmax of scores and of what is added to them, times the values."""
    weights = scores(call, query, key)
    for mask in added:
        if mask is not None:
            weights = call.one("Add", weights, mask)
    return call.one("MatMul", call.one("Softmax", weights, axis=-1), value)


def appended(call: Call, past: Value | None, value: Value) -> Value:
    """Heads after those of earlier calls."""
    return value if past is None else call.one("Concat", past, value, axis=2)


def lowest_number(dtype: str) -> float:
    """The most negative number of a dtype."""
    return finite_limits(numpy_dtype(dtype))[0]


def causal_keys(call: Call, length: int, total: int) -> Value:
    """Which keys each of the last `length` of `total` positions sees: [1, 1, length, total].

    It is compared at run time if it is too large for a constant.
    """
    own = call.builder.constant(np.arange(total - length, total).reshape(1, 1, -1, 1), "int64")
    keys = call.builder.constant(np.arange(total).reshape(1, 1, 1, -1), "int64")
    return call.one("GreaterOrEqual", own, keys)
