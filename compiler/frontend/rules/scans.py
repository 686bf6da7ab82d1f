"""Rules for running multiplications, and for caches that are written at run-time positions."""

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.types import in_float32, in_type
from compiler.net.building.builder import is_known
from compiler.net.graph import Value


def shifted(call: Call, x: Value, axis: int, count: int, reverse: bool) -> Value:
    """A tensor moved along an axis, away from where a scan begins; ones come in."""
    size = x.shape[axis]
    first, last = (count, size) if reverse else (0, size - count)
    pads = [0] * (2 * x.rank)
    pads[axis + x.rank if reverse else axis] = count
    one = call.builder.constant(1, x.dtype)
    return call.one("Pad", call.part(x, axis, first, last), one, pads=pads)


@rule("CumProd")
def rewrite_running_multiplication(call: Call) -> list[Value]:
    """In as many steps as the length has bits: each multiplies by the result a power of 2 before.

    An exclusive scan begins with the tensor moved by one.
    """
    x = in_float32(call, call.data)
    axis = call.from_front(call.content(1))
    reverse = bool(call["reverse"])
    size = x.shape[axis] if x.rank else 1
    if call["exclusive"] and size:
        x = shifted(call, x, axis, 1, reverse)
    step = 1
    while step < size:
        x = call.one("Mul", x, shifted(call, x, axis, step, reverse))
        step *= 2
    return [in_type(call, x, call.data.dtype)]


@rule("TensorScatter")
def rewrite_tensor_scatter(call: Call) -> list[Value]:
    """Each position of the cache chooses between itself and a position of the update."""
    cache = call.data
    update = call.operand(1)
    axis = call.axis()
    batch = cache.shape[0]
    size = cache.shape[axis]
    count = update.shape[axis]
    call.check_indices(2, 0, size if call["mode"] == "circular" else size - count)
    if is_known(call.inputs):
        return call.evaluated()
    if 0 in update.shape:
        return [cache]
    places = _places(call, batch, size)
    zero, limit = (call.builder.constant(n, "int64") for n in (0, count))
    inside = call.one(
        "And", call.one("GreaterOrEqual", places, zero), call.one("Less", places, limit)
    )
    chosen = call.one("Clip", places, zero, call.builder.constant(count - 1, "int64"))
    chosen = call.reshaped(chosen, [batch, size, 1])
    order = [0, axis, *(i for i in range(1, cache.rank) if i != axis)]
    back = [order.index(i) for i in range(cache.rank)]
    rows = update if axis == 1 else call.one("Transpose", update, perm=order)
    rows = call.one("GatherND", rows, chosen, batch_dims=1)
    rows = rows if axis == 1 else call.one("Transpose", rows, perm=back)
    mask = [batch, *(size if i == axis else 1 for i in range(1, cache.rank))]
    return [call.one("Where", call.reshaped(inside, mask), rows, cache)]


def _places(call: Call, batch: int, size: int) -> Value:
    """For each position of a cache the position in the update, outside of it for those kept."""
    row = call.reshaped(call.vector(range(size)), [1, size])
    first = call.input(2)
    if first is None:
        first = call.vector([0] * batch)
    places = call.one("Sub", row, call.reshaped(first, [batch, 1]))
    if call["mode"] == "circular":
        places = call.one("Mod", places, call.builder.constant(size, "int64"))
    return places
