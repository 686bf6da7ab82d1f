"""Rules for operators that have a standard one of the same meaning, and for inverses."""

import numpy as np

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.registry import contrib, standard
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators import Mismatch, ShapeMismatch

_LARGEST_INVERSE = 4


@contrib("GatherND", "Pad", "Trilu")
def rewrite_same(call: Call) -> list[Value]:
    """The standard operator."""
    return [standard(call, call.op_type, call.inputs, call.attributes)]


@contrib("ExpandDims")
def rewrite_expand_dims(call: Call) -> list[Value]:
    """A Reshape with one more dimension; a negative axis counts from the result's end."""
    axis = int(call.content(1).reshape(()))
    rank = call.data.rank
    if not -rank - 1 <= axis <= rank:
        raise Mismatch(f"its axis is {axis}, its input has {rank} dimensions")
    axis %= rank + 1
    shape = call.data.shape
    return [call.reshaped(call.data, [*shape[:axis], 1, *shape[axis:]])]


@contrib("Inverse")
def rewrite_inverse(call: Call) -> list[Value]:
    """Gauss-Jordan elimination of small matrices, with the largest pivot of each column."""
    *batch, rows, columns = call.data.shape
    if rows != columns:
        raise ShapeMismatch(f"its matrices are {rows} x {columns}, which are not square")
    if rows > _LARGEST_INVERSE:
        reason = f"its matrices are {rows} x {rows}, larger than {_LARGEST_INVERSE} x"
        raise Unsupported(f"{reason} {_LARGEST_INVERSE}", "invert them before exporting")
    identity = call.expanded(call.scalar(np.eye(rows)), call.data.shape)
    whole = call.one("Concat", call.data, identity, axis=len(batch) + 1)
    for column in range(rows):
        whole = _eliminated(call, _pivoted(call, whole, column), column)
    return [call.part(whole, -1, rows, 2 * rows)]


def _pivoted(call: Call, matrix: Value, column: int) -> Value:
    """The row of the largest number of a column, at or after that row, exchanged with it."""
    rows = matrix.shape[-2]
    axis = matrix.rank - 2
    numbers = call.one("Abs", call.part(matrix, -1, column, column + 1))
    below = call.part(numbers, axis, column, rows)
    found = call.one("ArgMax", below, axis=axis, keepdims=1)
    found = call.one("Add", found, call.builder.constant(column, "int64"))
    order = call.builder.constant(np.arange(rows).reshape(rows, 1), "int64")
    here = call.builder.constant(column, "int64")
    order = call.one("Where", call.one("Equal", order, found), here, order)
    first = call.builder.constant(np.arange(rows).reshape(rows, 1) == column)
    order = call.one("Where", first, found, order)
    return call.one("GatherElements", matrix, call.expanded(order, matrix.shape), axis=axis)


def _eliminated(call: Call, matrix: Value, column: int) -> Value:
    """The pivot's row scaled to one, and subtracted from the others."""
    axis = matrix.rank - 2
    rows = matrix.shape[-2]
    row = call.part(matrix, axis, column, column + 1)
    row = call.one("Div", row, call.part(row, -1, column, column + 1))
    factors = call.part(matrix, -1, column, column + 1)
    others = call.one("Sub", matrix, call.one("Mul", factors, row))
    first = call.builder.constant(np.arange(rows).reshape(rows, 1) == column)
    return call.one("Where", first, row, others)
