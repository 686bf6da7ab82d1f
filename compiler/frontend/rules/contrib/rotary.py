"""Rotary embeddings of positions, from caches of cosines and sines."""

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.heads import as_heads, as_rows
from compiler.frontend.rules.contrib.registry import contrib, refuse
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import ShapeMismatch


def rotated(
    call: Call, heads: Value, angles: tuple[Value, Value], positions: Value, interleaved: bool
) -> Value:
    """Heads (batch, heads, length, size) whose first elements are rotated by their positions.

    `angles` are the cosines and sines of each position; `positions` is (batch, length), or one for
    each of the length.
    """
    size = heads.shape[-1]
    rotary = 2 * angles[0].shape[-1]
    if rotary > size:
        raise ShapeMismatch(f"its caches rotate {rotary} elements, its heads have {size}")
    cosine, sine = (_of_positions(call, table, positions) for table in angles)
    if rotary == size:
        return _rotate(call, heads, cosine, sine, interleaved)
    first, rest = call.parts(heads, 3, [rotary, size - rotary])
    return call.one("Concat", _rotate(call, first, cosine, sine, interleaved), rest, axis=3)


def _of_positions(call: Call, table: Value, positions: Value) -> Value:
    """The rows of a cache, to be broadcast to heads."""
    rows = call.one("Gather", table, positions, axis=0)
    batch = positions.shape[0] if positions.rank == 2 else 1
    return call.reshaped(rows, [batch, 1, positions.shape[-1], table.shape[-1]])


def _rotate(call: Call, x: Value, cosine: Value, sine: Value, interleaved: bool) -> Value:
    """The real and imaginary elements, which are halves or alternate, rotated."""
    batch, heads, length, size = x.shape
    half = size // 2
    if interleaved:
        pairs = call.reshaped(x, [batch, heads, length, half, 2])
        columns = call.parts(pairs, 4, [1, 1])
        real, imaginary = (call.reshaped(v, [batch, heads, length, half]) for v in columns)
    else:
        real, imaginary = call.parts(x, 3, [half, half])
    left = call.one("Sub", call.one("Mul", real, cosine), call.one("Mul", imaginary, sine))
    right = call.one("Add", call.one("Mul", real, sine), call.one("Mul", imaginary, cosine))
    if not interleaved:
        return call.one("Concat", left, right, axis=3)
    columns = [call.reshaped(v, [batch, heads, length, half, 1]) for v in (left, right)]
    return call.reshaped(call.one("Concat", *columns, axis=4), x.shape)


def _heads_of(call: Call, width: int, rotary: int) -> int:
    """How many heads rows have."""
    count = call.attributes.get("num_heads", 0)
    if call.attributes.get("rotary_embedding_dim", 0) and not count:
        raise Unsupported("its heads are not known", "set its attribute num_heads")
    return count or width // rotary


@contrib("RotaryEmbedding")
def rewrite_rotary_embedding(call: Call) -> list[Value]:
    """Heads, or rows of heads, rotated by their positions."""
    refuse(call, "is_packed_batching")
    if call.attributes.get("scale", 1) != 1:
        raise Unsupported("its scale is not 1", "multiply the caches by it")
    x = call.data
    interleaved = bool(call.attributes.get("interleaved", 0))
    angles = call.operand(2), call.operand(3)
    rows = x.rank == 3
    count = _heads_of(call, x.shape[-1], 2 * angles[0].shape[-1]) if rows else 0
    heads = as_heads(call, x, count) if rows else x
    # The position of each element, from the first one's if only that is given.
    given = call.operand(1)
    last = angles[0].shape[0] - 1
    if given.shape not in ((), (1,)):
        call.check_indices(1, 0, last)
        positions = given
    else:
        call.check_indices(1, 0, last + 1 - heads.shape[2])
        first = call.reshaped(given, [1])
        positions = call.one("Add", call.vector(range(heads.shape[2])), first)
    result = rotated(call, heads, angles, positions, interleaved)
    return [as_rows(call, result) if rows else result]
