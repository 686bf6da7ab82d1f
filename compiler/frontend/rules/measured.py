"""Rules for results whose sizes data decide: a kernel counts them, for a symbol of the graph.

All of them are made of one operator that measures, the positions of what is not zero.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod

import onnx

from compiler.frontend.domains import domain_of
from compiler.frontend.rules.call import Call
from compiler.frontend.unsupported import NeedsHost
from compiler.net.evaluation.rounding import is_floating
from compiler.net.graph import Value
from compiler.net.operators import KEPT_BOXES, NONZERO_POSITIONS
from compiler.support.registry import Registrar
from compiler.tensors.dtypes import element_type, numpy_dtype

MEASURING: dict[str, Callable[[Call], Sequence[Value]]] = {}
"""The rule of each operator on data that decide the size of its result."""

measured_rule = Registrar(MEASURING)
"""Registers a rule for operators, which holds where a run may measure sizes."""


def may_measure(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Whether rules for some nodes may measure sizes."""
    return any(node.op_type in MEASURING and not domain_of(node) for node in nodes)


def nonzero_positions(call: Call, value: Value) -> Value:
    """The row-major positions of the elements that are not zero, int64[as many as there are]."""
    symbol = call.builder.new_measured(prod(value.shape))
    positions, number = call.builder.emit(NONZERO_POSITIONS, [value], {"count": symbol}, 2)
    call.builder.measured[str(symbol)] = number
    return positions


def _along_axes(call: Call, positions: Value, shape: Sequence[int]) -> list[Value]:
    """The indices along each axis of a shape at row-major positions."""
    indices: list[Value] = []
    for axis, size in enumerate(shape):
        own = positions
        if (inner := prod(shape[axis + 1 :])) != 1:
            own = call.one("Div", own, call.builder.constant(inner, "int64"))
        if axis:
            own = call.one("Mod", own, call.builder.constant(size, "int64"))
        indices.append(own)
    return indices


@measured_rule("NonZero")
def rewrite_non_zero(call: Call) -> list[Value]:
    """A row of indices for each axis."""
    x = call.data
    if not x.rank:
        raise NeedsHost("it reads a number, which has no axes", "reshape it to a vector")
    positions = nonzero_positions(call, x)
    count = positions.shape[0]
    rows = [call.reshaped(own, [1, count]) for own in _along_axes(call, positions, x.shape)]
    return [call.one("Concat", *rows, axis=0) if len(rows) > 1 else rows[0]]


@measured_rule("Compress")
def rewrite_compress(call: Call) -> list[Value]:
    """The slices along an axis, or the elements, at the positions where a condition is true."""
    x, condition = call.operands
    axis = None if call["axis"] is None else call.axis()
    if axis is None:
        x = call.reshaped(x, [prod(x.shape)])
    length = x.shape[axis or 0]
    condition = call.reshaped(condition, [prod(condition.shape)])
    if condition.shape[0] > length:
        condition = call.part(condition, 0, 0, length)
    return [call.one("Gather", x, nonzero_positions(call, condition), axis=axis or 0)]


@measured_rule("NonMaxSuppression")
def rewrite_non_max_suppression(call: Call) -> list[Value]:
    """Rows (batch, class, box) of the boxes of each class that stay."""
    boxes = call.operand(0)
    scores = call.operand(1)
    images, classes, count = scores.shape
    limit = 0 if call.input(2) is None else int(call.content(2).reshape(-1)[0])
    most = min(limit, count)
    if most < 1:
        raise NeedsHost("no box stays", "let it give some")
    corners = _corners(call, boxes)
    zero = call.builder.constant(0.0, "float32")
    overlap, least = (_number(call, index) for index in (3, 4))
    operands = [corners, scores, zero if overlap is None else overlap, least]
    chosen, there = call.builder.emit(KEPT_BOXES, operands, {"most": most}, 2)
    positions = nonzero_positions(call, there)
    shape = [images, classes, most]
    kept = call.reshaped(chosen, [prod(shape)])
    columns = [
        *_along_axes(call, positions, shape)[:2],
        call.one("Gather", kept, positions, axis=0),
    ]
    columns = [call.reshaped(own, [positions.shape[0], 1]) for own in columns]
    return [call.one("Concat", *columns, axis=1)]


def _number(call: Call, index: int) -> Value | None:
    """An input of one number, perhaps in an axis, as a scalar; None if it is left out."""
    value = call.input(index)
    return None if value is None else call.reshaped(value, []) if value.rank else value


def _corners(call: Call, boxes: Value) -> Value:
    """Boxes as rows of smaller and larger coordinates."""
    first, second = (call.part(boxes, 2, start, start + 2) for start in (0, 2))
    if call["center_point_box"]:
        half = call.one("Div", second, call.builder.constant(2.0, "float32"))
        sides = call.one("Sub", first, half), call.one("Add", first, half)
    else:
        sides = call.one("Min", first, second), call.one("Max", first, second)
    return call.one("Concat", *sides, axis=2)


@measured_rule("Unique")
def rewrite_unique(call: Call) -> list[Value]:
    """Distinct elements, sorted; where each is first, which one each element is, and how many."""
    x = call.data
    if not call["sorted"] or (call["axis"] is not None and x.rank != 1):
        raise NeedsHost("it gives slices, or elements in their order", "sort elements")
    count = prod(x.shape)
    flat = call.reshaped(x, [count])
    attributes = {"k": count, "axis": 0, "largest": 0}
    ordered, source = call.builder.emit("TopK", [flat], attributes, 2)
    starts = _changes(call, ordered)
    positions = nonzero_positions(call, starts)
    numbers = call.one("Cast", starts, to=element_type("int64"))
    one = call.builder.constant(1, "int64")
    rank = call.one("Sub", call.one("CumSum", numbers, axis=0), one)
    zeros = call.filled(0, [count], "int64")
    inverse = call.one("ScatterElements", zeros, source, rank, axis=0)
    total = call.filled(0, [positions.shape[0]], "int64")
    ones = call.filled(1, [count], "int64")
    counts = call.one("ScatterElements", total, rank, ones, axis=0, reduction="add")
    values, first = (call.one("Gather", own, positions, axis=0) for own in (ordered, source))
    return [values, first, inverse, counts][: len(call.used)]


def _changes(call: Call, ordered: Value) -> Value:
    """Whether each element of a sorted vector is another than the one before; NaN is one."""
    count = ordered.shape[0]
    before, own = (call.part(ordered, 0, start, start + count - 1) for start in (0, 1))
    same = call.one("Equal", before, own)
    if is_floating(numpy_dtype(ordered.dtype)):
        neither = call.one("And", call.one("IsNaN", before), call.one("IsNaN", own))
        same = call.one("Or", same, neither)
    first = call.builder.constant([True], "bool")
    return call.one("Concat", first, call.one("Not", same), axis=0)


@measured_rule("TopK")
def rewrite_top_k(call: Call) -> list[Value]:
    """A number of elements that a run computes is measured as it is."""
    number = call.input(1)
    if number is None or number.array is not None:
        return call.emit()
    call.builder.node = f"{call.builder.node}/k"
    symbol = call.builder.new_measured(call.data.shape[call.axis()])
    # a negative number stays one, which a run refuses; only what is computed can be measured
    least = call.builder.constant(-1, "int64")
    call.builder.measured[str(symbol)] = call.one("Max", call.reshaped(number, [1]), least)
    given = {name: call[name] for name in ("largest", "sorted")}
    attributes = {"k": symbol, "axis": call.axis(), **given}
    return call.builder.emit_used("TopK", [call.data], attributes, call.used)
