"""Rules for sequences of tensors, which exist at import time only."""

import numpy as np
from onnx import TensorProto

from compiler.frontend.evaluate import dtype_name
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.unsupported import NeedsHost
from compiler.net.graph import Value
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.net.operators.shapes import axis_in, listed


def _items(call: Call) -> list[Value]:
    if call.data.items is None:
        raise NeedsHost("its input is not a sequence of known length", "export with tensors")
    return call.data.items


def _sequence(items: list[Value], dtype: str) -> list[Value]:
    """A sequence of tensors of one dtype as an operator's result."""
    dtypes = sorted({dtype, *(item.dtype for item in items)})
    if len(dtypes) > 1:
        raise Mismatch(f"its tensors are {' and '.join(dtypes)}, a sequence has one dtype")
    return [Value("", items=items, item_dtype=dtype)]


def _position(call: Call, index: int, default: int, size: int, last: int) -> int:
    """A position in a sequence of `size` tensors, from -size to `last`."""
    array = call.known(index)
    if array is not None and array.size != 1:
        raise ShapeMismatch(f"its position has the shape {listed(array.shape)}, it is one number")
    position = default if array is None else int(array.reshape(()))
    if not -size <= position <= last:
        raise ShapeMismatch(f"position {position} is outside a sequence of {size} tensors")
    return position + size if position < 0 else position


@rule("SequenceEmpty")
def rewrite_empty(call: Call) -> list[Value]:
    """A sequence without tensors."""
    return _sequence([], dtype_name(call.attributes.get("dtype", TensorProto.FLOAT)))


@rule("SequenceConstruct")
def rewrite_construct(call: Call) -> list[Value]:
    """A sequence of the inputs."""
    return _sequence([value for value in call.inputs if value is not None], call.data.dtype)


@rule("SequenceAt")
def rewrite_at(call: Call) -> list[Value]:
    """One tensor."""
    items = _items(call)
    return [items[_position(call, 1, 0, len(items), len(items) - 1)]]


@rule("SequenceLength")
def rewrite_length(call: Call) -> list[Value]:
    """The number of tensors."""
    return [call.builder.constant(len(_items(call)), "int64")]


@rule("SequenceInsert")
def rewrite_insert(call: Call) -> list[Value]:
    """A sequence with one more tensor."""
    items = list(_items(call))
    count = len(items)
    items.insert(_position(call, 2, count, count, count), call.operand(1))
    return _sequence(items, call.data.item_dtype)


@rule("SequenceErase")
def rewrite_erase(call: Call) -> list[Value]:
    """A sequence without one tensor."""
    items = list(_items(call))
    last = len(items) - 1
    del items[_position(call, 1, last, len(items), last)]
    return _sequence(items, call.data.item_dtype)


@rule("ConcatFromSequence")
def rewrite_concat_from_sequence(call: Call) -> list[Value]:
    """The tensors concatenated along an axis, or stacked along a new one."""
    items = _items(call)
    new = call["new_axis"]
    if not items:
        raise ShapeMismatch("its sequence has no tensors")
    axis = axis_in(call.attributes["axis"], items[0].rank + new)
    if new:
        items = [call.one("Unsqueeze", item, axes=[axis]) for item in items]
    return [items[0] if len(items) == 1 else call.one("Concat", *items, axis=axis)]


def _parts(call: Call, axis: int, sizes: np.ndarray | None) -> list[int]:
    """The sizes of the parts of an axis: given, equal except for the last, or one."""
    x = call.data
    size = call.data.shape[axis]
    if sizes is not None and sizes.ndim and not sizes.size:
        raise ShapeMismatch("its input 'split' is empty: leave it out to split into single slices")
    if sizes is not None and sizes.ndim:
        parts = [int(n) for n in sizes.reshape(-1)]
    elif sizes is not None and int(sizes) < 1:
        raise ShapeMismatch(f"it splits {listed(x.shape)} into parts of {int(sizes)} elements")
    else:
        length = 1 if sizes is None else int(sizes)
        call.builder.expansion.expect(size // length, f"{size // length:,} parts of a tensor")
        parts = [length] * (size // length) + ([size % length] if size % length else [])
    if sum(parts) != size or min(parts, default=0) < 0:
        raise ShapeMismatch(
            f"it splits axis {axis} of the input of shape {listed(x.shape)} into {listed(parts)}"
        )
    return parts


@rule("SplitToSequence")
def rewrite_split_to_sequence(call: Call) -> list[Value]:
    """Parts of given sizes, or single slices, along an axis."""
    x = call.data
    sizes = call.known(1)
    axis = call.axis()
    parts = _parts(call, axis, sizes)
    items = call.parts(x, axis, parts) if parts else []  # an empty axis has no part
    if sizes is None and not call["keepdims"]:
        items = [call.one("Squeeze", item, axes=[axis]) for item in items]
    return _sequence(items, x.dtype)
