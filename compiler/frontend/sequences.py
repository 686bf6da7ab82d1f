"""Sequences of tensors of known length: they exist while importing and leave no operator."""

from compiler.frontend.call import Call
from compiler.frontend.graph import Unsupported, Value, axis_of
from compiler.frontend.rules import rule


def _items(call: Call) -> list[Value]:
    if call.data.items is None:
        raise Unsupported("its input is no sequence known when importing", "export with tensors")
    return call.data.items


def _position(call: Call, index: int, default: int, size: int) -> int:
    array = call.known(index)
    position = default if array is None else int(array.reshape(()))
    if not -size <= position <= size:
        raise Unsupported(f"position {position} is outside a sequence of {size}", "correct it")
    return position + size if position < 0 else position


@rule("SequenceConstruct", "SequenceEmpty")
def construct(call: Call) -> list[Value]:
    """A sequence of the inputs."""
    return [Value("", items=[value for value in call.inputs if value is not None])]


@rule("SequenceAt")
def at(call: Call) -> list[Value]:
    """One tensor."""
    items = _items(call)
    return [items[_position(call, 1, 0, len(items))]]


@rule("SequenceLength")
def length(call: Call) -> list[Value]:
    """How many tensors there are."""
    return [call.builder.constant(len(_items(call)), "int64")]


@rule("SequenceInsert")
def insert(call: Call) -> list[Value]:
    """A sequence with one more tensor."""
    items = list(_items(call))
    items.insert(_position(call, 2, len(items), len(items)), call.inputs[1])
    return [Value("", items=items)]


@rule("SequenceErase")
def erase(call: Call) -> list[Value]:
    """A sequence without one tensor."""
    items = list(_items(call))
    del items[_position(call, 1, len(items) - 1, len(items))]
    return [Value("", items=items)]


@rule("ConcatFromSequence")
def concat(call: Call) -> list[Value]:
    """The tensors joined along an axis, or a new one."""
    items, new = _items(call), call.attributes.get("new_axis", 0)
    axis = axis_of(call.attributes["axis"], items[0].rank + new)
    if new:
        items = [call.one("Unsqueeze", item, call.vector([axis])) for item in items]
    return [items[0] if len(items) == 1 else call.one("Concat", *items, axis=axis)]


@rule("SplitToSequence")
def split(call: Call) -> list[Value]:
    """Parts of given sizes, or single slices, along an axis."""
    x, sizes = call.data, call.known(1)
    axis = axis_of(call.attributes.get("axis", 0), x.rank)
    size, single = x.shape[axis], sizes is None
    each = 1 if sizes is None else int(sizes.reshape(-1)[0])
    parts = [each] * (size // each) + ([size % each] if size % each else [])
    if sizes is not None and sizes.ndim:
        parts = [int(n) for n in sizes]
    items = [x]
    if len(parts) > 1:
        items = call.builder.emit("Split", [x, call.vector(parts)], {"axis": axis}, len(parts))
    if single and not call.attributes.get("keepdims", 1):
        items = [call.one("Squeeze", item, call.vector([axis])) for item in items]
    return [Value("", items=items)]
