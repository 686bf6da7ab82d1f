"""Rules for sequences of tensors, which exist at import time only."""

from itertools import groupby

import numpy as np
from onnx import TensorProto

from compiler.frontend.evaluate import dtype_name
from compiler.frontend.rules.call import Call, rule
from compiler.frontend.sequences import Items, row_at, sequence_length, single_tensors, tensors_of
from compiler.net.graph import TensorRows, Value
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.net.operators.shapes import axis_in, listed
from compiler.tensors.substitution import is_symbolic

MOST_SINGLE = 64
"""The most equal parts of a tensor that are separate tensors; more of them are rows of one."""


def _sequence(items: Items, dtype: str) -> list[Value]:
    """A sequence of tensors of one dtype as an operator's result."""
    tensors = [item.stack if isinstance(item, TensorRows) else item for item in items]
    dtypes = sorted({dtype, *(tensor.dtype for tensor in tensors)})
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
    items = tensors_of(call.data)
    length = sequence_length(items)
    if len(items) == 1 and isinstance(items[0], TensorRows) and call.operand(1).array is None:
        call.check_indices(1, -length, length - 1)
        return [call.one("Gather", items[0].stack, call.operand(1), axis=0)]
    position = _position(call, 1, 0, length, length - 1)
    for item in items:
        count = item.count if isinstance(item, TensorRows) else 1
        if position < count:
            return [row_at(call.builder, item, position) if isinstance(item, TensorRows) else item]
        position -= count
    raise AssertionError(f"position {position} is inside the sequence")


@rule("SequenceLength")
def rewrite_length(call: Call) -> list[Value]:
    """The number of tensors."""
    return [call.builder.constant(sequence_length(tensors_of(call.data)), "int64")]


@rule("SequenceInsert")
def rewrite_insert(call: Call) -> list[Value]:
    """A sequence with one more tensor."""
    tensor = call.operand(1)
    if call.data.items is not None and call.input(2) is None:
        return _sequence([*call.data.items, tensor], call.data.item_dtype)
    items = single_tensors(call.builder, tensors_of(call.data))
    last = len(items)
    items.insert(_position(call, 2, last, last, last), tensor)
    return _sequence(items, call.data.item_dtype)


@rule("SequenceErase")
def rewrite_erase(call: Call) -> list[Value]:
    """A sequence without one tensor."""
    items = single_tensors(call.builder, tensors_of(call.data))
    last = len(items) - 1
    del items[_position(call, 1, last, len(items), last)]
    return _sequence(items, call.data.item_dtype)


@rule("ConcatFromSequence")
def rewrite_concat_from_sequence(call: Call) -> list[Value]:
    """The tensors concatenated along an axis, or stacked along a new one."""
    items = tensors_of(call.data)
    new = call["new_axis"]
    if not items:
        raise ShapeMismatch("its sequence has no tensors")
    first = items[0]
    rank = first.stack.rank - 1 if isinstance(first, TensorRows) else first.rank
    axis = axis_in(call.attributes["axis"], rank + new)
    parts = [_along_axis(call, item, axis, new) for item in items]
    return [parts[0] if len(parts) == 1 else call.one("Concat", *parts, axis=axis)]


def _along_axis(call: Call, item: Value | TensorRows, axis: int, new: bool) -> Value:
    """A tensor of a sequence, or all in its rows, as a part of their concatenation."""
    if not isinstance(item, TensorRows):
        return call.one("Unsqueeze", item, axes=[axis]) if new else item
    stack = call.builder.moved(item.stack, 0, axis)
    if new:
        return stack
    *before, count, size = stack.shape[: axis + 2]
    return call.reshaped(stack, [*before, count * size, *stack.shape[axis + 2 :]])


def _runs(call: Call, axis: int, sizes: np.ndarray | None) -> list[tuple[int, int]]:
    """The parts of an axis, given or equal except for the last: size and number of equal ones."""
    x = call.data
    size = x.shape[axis]
    if sizes is not None and sizes.ndim and not sizes.size:
        raise ShapeMismatch("its input 'split' is empty: leave it out to split into single slices")
    if sizes is not None and sizes.ndim:
        parts = [int(n) for n in sizes.reshape(-1)]
        if sum(parts) != size or min(parts) < 0:
            raise ShapeMismatch(
                f"it splits axis {axis} of the input of shape {listed(x.shape)} into"
                f" {listed(parts)}"
            )
        return [(part, len(list(equal))) for part, equal in groupby(parts)]
    if sizes is not None and int(sizes) < 1:
        raise ShapeMismatch(f"it splits {listed(x.shape)} into parts of {int(sizes)} elements")
    length = 1 if sizes is None else int(sizes)
    runs = [(length, size // length), (size % length, 1)]
    return [(part, count) for part, count in runs if part and count]


def _rows(call: Call, tensor: Value, axis: int, count: int) -> TensorRows:
    """The equal parts of an axis of a tensor."""
    before = tensor.shape[:axis]
    after = tensor.shape[axis + 1 :]
    apart = call.reshaped(tensor, [*before, count, tensor.shape[axis] // count, *after])
    return TensorRows(call.builder.moved(apart, axis, 0))


@rule("SplitToSequence")
def rewrite_split_to_sequence(call: Call) -> list[Value]:
    """Parts of given sizes, or single slices, along an axis."""
    x = call.data
    sizes = call.known(1)
    axis = call.axis()
    pieces: list[tuple[int, int]] = []
    for size, count in _runs(call, axis, sizes):
        many = is_symbolic(count) or count > MOST_SINGLE
        pieces += [(size, count)] if many else [(size, 1)] * count
    parts = call.parts(x, axis, [size * count for size, count in pieces]) if pieces else []
    items: list[Value | TensorRows] = [
        _rows(call, part, axis, count) if count != 1 else part
        for part, (_, count) in zip(parts, pieces, strict=True)
    ]
    if sizes is None and not call["keepdims"]:
        items = [_without_axis(call, item, axis) for item in items]
    return _sequence(items, x.dtype)


def _without_axis(call: Call, item: Value | TensorRows, axis: int) -> Value | TensorRows:
    """Tensors of one element along an axis without it."""
    if isinstance(item, TensorRows):
        return TensorRows(call.one("Squeeze", item.stack, axes=[axis + 1]))
    return call.one("Squeeze", item, axes=[axis])
