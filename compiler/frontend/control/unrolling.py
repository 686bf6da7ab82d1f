"""Inlining of `If` with a constant condition, of `Loop` and `Scan` of constant length, and of
`SequenceMap`.

Others stay control flow in the graph where the target runs it.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.frontend.control.bodies import (
    check_carried,
    check_number,
    check_passed,
    scanned_axes,
)
from compiler.frontend.control.regions import (
    ScannedRows,
    TooLarge,
    attempt_to_unroll,
    if_region,
    loop_region,
    map_region,
    scan_region,
)
from compiler.frontend.evaluate import dtype_name
from compiler.frontend.sequences import sequence_length, single_tensors, tensors_of
from compiler.frontend.unsupported import NeedsHost, Unsupported
from compiler.net.graph import Inputs, TensorRows, Value, constant, inner_graphs
from compiler.net.node import Node
from compiler.net.operators import Mismatch, ShapeMismatch
from compiler.net.operators.shapes import axis_in

if TYPE_CHECKING:
    from compiler.frontend.importing.specialise import BodyNode, Specialiser

import numpy as np
import onnx

from compiler.tensors.dtypes import numpy_dtype

LONGEST_LOOP = 64
"""The most iterations of a Loop or a Scan that it pays to unroll."""

MOST_UNROLLED = 1024
"""The most operators that a Loop or a Scan becomes which could be repeated as well.

Each takes 3 ms or more to compile. Loops in each other multiply: of three with 60 iterations, the
innermost alone is unrolled.
"""

_REMEDY = "export the model with a constant condition, or split the model there"
_SHORTEN = "export the model with shorter loops, or with fewer in each other"


def if_(walker: "Specialiser", node: "BodyNode") -> Sequence[Value]:
    """The branch that a constant condition selects."""
    condition = node.inputs[0]
    if condition is None or condition.array is None:
        if walker.context.regions and condition is not None:
            return if_region(walker, node, condition)
        raise NeedsHost("its condition is computed at run time", _REMEDY)
    branch = node.attributes["then_branch" if condition.array.all() else "else_branch"]
    return walker.body(branch, node.scope.inner(node.scope.prefix), [])


def _stack(walker: "Specialiser", like: Value, values: Sequence[Value], axis: int) -> Value:
    """Values, of which there may be none, of the type of `like` stacked along a new axis."""
    builder = walker.builder
    axis = axis_in(axis, like.rank + 1)
    if not values:
        shape = (*like.shape[:axis], 0, *like.shape[axis:])
        return constant("", np.zeros(shape, numpy_dtype(like.dtype)))
    parts = [builder.one("Unsqueeze", value, axes=[axis]) for value in values]
    return parts[0] if len(parts) == 1 else builder.one("Concat", *parts, axis=axis)


def _given(values: Inputs) -> list[Value]:
    """Values of which none is omitted, as `check_bodies` has found."""
    given = [value for value in values if value is not None]
    assert len(given) == len(values)
    return given


def _trip_count(limit: Value | None) -> int:
    if limit is None:
        return sys.maxsize
    if limit.array is None:
        raise NeedsHost("its trip count is computed at run time", _REMEDY)
    return int(limit.array.reshape(()))


@dataclass
class _Growth:
    """The operators of a loop's iterations, of which there will be `trips`.

    `most` are the operators that it may become. Where `certain`, no condition ends it earlier.
    """

    walker: "Specialiser"
    trips: int
    certain: bool
    most: int
    operators: int = 0

    def __post_init__(self) -> None:
        if self.walker.longest_loop < self.trips < sys.maxsize:
            raise NeedsHost(f"its {self.trips} iterations are too many to unroll")
        self._read = len(self.walker.builder.graph.operators)
        self._visited = self.walker.expansion.visited

    def add(self, step: int) -> None:
        """Count an iteration; raises TooLarge if it and those to come are more than is unrolled.

        An endless loop raises ModelError.
        """
        graph = self.walker.builder.graph
        expansion = self.walker.expansion
        own = graph.operators[self._read :]
        count = operator_count(own)
        visited = expansion.visited - self._visited
        self._read = len(graph.operators)
        self._visited = expansion.visited
        self.operators += count
        rest = self.trips - step - 1 if self.certain else 0
        if self.certain and self.trips == sys.maxsize:
            expansion.expect(rest, f"{self.trips} iterations")
        operators = self.operators + rest * count
        nodes = expansion.visited + rest * visited
        if operators > self.most or nodes > expansion.most:
            what = f"{operators:,} operators" if operators > self.most else f"{nodes:,} nodes"
            more = "" if self.certain else " or more"
            raise TooLarge(f"unrolled it would become {what}{more}", _SHORTEN)


def operator_count(operators: Sequence[Node[Value]]) -> int:
    """The operators, and those in their bodies."""
    return sum(1 + sum(operator_count(b.operators) for b in inner_graphs(o)) for o in operators)


def _most(walker: "Specialiser", repeats: bool) -> int:
    """The most operators of an unrolled loop, which the target or the host may repeat instead."""
    alternative = repeats or walker.longest_loop < sys.maxsize
    return MOST_UNROLLED if alternative else walker.expansion.most


def _holds(condition: Value | None) -> bool:
    if condition is None:
        return True
    check_number(condition, "bool", "condition")
    if condition.array is None:
        raise NeedsHost("its condition is computed at run time", _REMEDY)
    return bool(condition.array.all())


def _keeps_going(body: onnx.GraphProto) -> bool:
    """Whether a Loop's body returns its condition unchanged."""
    sources = {n.output[0]: n.input[0] for n in body.node if n.op_type == "Identity"}
    name = body.output[0].name
    while name in sources:
        name = sources.pop(name)
    return name == body.input[1].name


def loop(walker: "Specialiser", node: "BodyNode") -> Sequence[Value]:
    """A Loop, unrolled if its trip count and conditions are known and it is not long."""
    if not walker.context.regions:
        return _unrolled_loop(walker, node)
    limit, condition = node.inputs[:2]
    args = limit, condition, _given(node.inputs[2:])
    if not _is_long(limit) and node.key not in walker.repeated:
        try:
            with attempt_to_unroll(walker, node):
                return _unrolled_loop(walker, node, repeats=True)
        except TooLarge:
            pass
        except Unsupported:
            return loop_region(walker, node, *args)
    try:
        return loop_region(walker, node, *args)
    except Unsupported:
        return _unrolled_loop(walker, node)


def _is_long(limit: Value | None) -> bool:
    """Whether a trip count is data, or a number above `LONGEST_LOOP`."""
    if limit is None:
        return False
    return limit.array is None or int(limit.array.reshape(())) > LONGEST_LOOP


def _unrolled_loop(
    walker: "Specialiser", node: "BodyNode", repeats: bool = False
) -> Sequence[Value]:
    """A Loop whose trip count and conditions are known; `repeats` if it need not be unrolled."""
    body = node.attributes["body"]
    limit, condition = node.inputs[:2]
    carried = _given(node.inputs[2:])
    stacked: list[list[Value]] = []
    trips = _trip_count(limit)
    step = 0
    growth = _Growth(walker, trips, _keeps_going(body), _most(walker, repeats))
    while step < trips and _holds(condition):
        walker.expansion.count(f"iteration {step}")
        number = constant("", np.array(step, np.int64))
        test = condition or _true()
        scope = node.scope.inner(f"{node.name}/{step}/")
        passed = [number, test, *carried]
        check_passed(body, passed, 2 if walker.shapes_bind and not step else 0)
        condition, *results = walker.body(body, scope, passed)
        check_carried(carried, results, with_shapes=False)
        carried, rows = results[: len(carried)], results[len(carried) :]
        stacked.append(rows)
        walker.builder.node = node.name
        growth.add(step)
        step += 1
    wanted = node.used[len(carried) :]
    columns = [[rows[i] for rows in stacked] for i in range(len(wanted))]
    first = [constant("", np.array(0, np.int64)), condition or _true(), *carried]
    return [*carried, *_stacked(walker, node, columns, [0] * len(wanted), first)]


def _stacked(
    walker: "Specialiser",
    node: "BodyNode",
    columns: Sequence[Sequence[Value]],
    axes: Sequence[int],
    first: Sequence[Value],
) -> list[Value]:
    """The last outputs of a node, stacked over all iterations; `first` is given to the first."""
    wanted = node.used[len(node.used) - len(columns) :]
    types = [column[0] if column else Value("") for column in columns]
    if any(wanted) and not all(columns):
        types = walker.types_of(node.attributes["body"], node, first)[-len(columns) :]
    stacks = zip(types, columns, axes, strict=False)
    pairs = zip(wanted, stacks, strict=False)
    return [_stack(walker, *stack) if want else Value("") for want, stack in pairs]


def _true() -> Value:
    return constant("", np.array(True))


def scan(walker: "Specialiser", node: "BodyNode") -> Sequence[Value]:
    """A Scan (opset 9 and newer) over its static sequence, unrolled if it is not long."""
    if node.opset < 9:
        raise Unsupported("Scan of opset 8 scans a batch", "export the model with opset 9 or newer")
    attributes = node.attributes
    count = node.attributes["num_scan_inputs"]
    states, sequences = _given(node.inputs[:-count]), _given(node.inputs[-count:])
    outputs = len(attributes["body"].output) - len(states)
    rows_of = ScannedRows(
        input_axes=scanned_axes(attributes, sequences),
        input_backwards=attributes.get("scan_input_directions", [0] * count),
        output_axes=attributes.get("scan_output_axes", [0] * outputs),
        output_backwards=attributes.get("scan_output_directions", [0] * outputs),
    )
    args = walker, node, states, sequences, rows_of
    if not walker.context.regions:
        return _unrolled_scan(*args)
    length = sequences[0].shape[rows_of.input_axes[0]]
    if length <= LONGEST_LOOP and node.key not in walker.repeated:
        with suppress(TooLarge), attempt_to_unroll(walker, node):
            return _unrolled_scan(*args, repeats=True)
    with suppress(Unsupported):
        return scan_region(*args)
    return _unrolled_scan(*args)


def _unrolled_scan(
    walker: "Specialiser",
    node: "BodyNode",
    states: Sequence[Value],
    sequences: Sequence[Value],
    rows_of: ScannedRows,
    repeats: bool = False,
) -> Sequence[Value]:
    """A Scan of known length; `repeats` if it need not be unrolled."""
    body = node.attributes["body"]
    builder = walker.builder
    axes = rows_of.input_axes
    backwards = rows_of.input_backwards
    length = sequences[0].shape[axes[0]]
    growth = _Growth(walker, length, True, _most(walker, repeats))
    rows: list[list[Value]] = []
    for step in range(length):
        walker.expansion.count(f"iteration {step}")
        scope = node.scope.inner(f"{node.name}/{step}/")
        slices: list[Value] = []
        for value, axis, back in zip(sequences, axes, backwards, strict=True):
            index = builder.constant(length - 1 - step if back else step, "int64")
            slices.append(builder.one("Gather", value, index, axis=axis))
        passed = [*states, *slices]
        check_passed(body, passed, len(passed) if walker.shapes_bind and not step else 0)
        results = walker.body(body, scope, passed)
        check_carried(states, results[: len(states)], with_shapes=True)
        states = results[: len(states)]
        rows.append(results[len(states) :])
        builder.node = node.name
        growth.add(step)
    count = len(node.used) - len(states)
    columns = [[row[i] for row in rows] for i in range(count)]
    backwards = rows_of.output_backwards
    columns = [c[::-1] if back else c for c, back in zip(columns, backwards, strict=False)]
    slices = [
        Value("slice", value.dtype, (*value.shape[:axis], *value.shape[axis + 1 :]))
        for value, axis in zip(sequences, axes, strict=True)
    ]
    return [*states, *_stacked(walker, node, columns, rows_of.output_axes, [*states, *slices])]


def sequence_map(walker: "Specialiser", node: "BodyNode") -> Sequence[Value]:
    """A SequenceMap: its body for each tensor of the first sequence, and of others with it."""
    body = node.attributes["body"]
    inputs = _given(node.inputs)
    if inputs[0].items is None:
        raise Mismatch("its first input is a tensor, it must be a sequence")
    sequences = [tensors_of(value) for value in inputs if value.items is not None]
    length, *others = map(sequence_length, sequences)
    for other in others:
        if other != length:
            raise ShapeMismatch(f"its sequences have {length} and {other} tensors")
    columns: list[list[Value | TensorRows]] = [[] for _ in node.used]
    for tensors in _together(walker, inputs):
        for column, results in zip(columns, _map_rows(walker, node, tensors), strict=True):
            column += results
    return [_mapped(*pair) for pair in zip(columns, body.output, strict=False)]


def _together(
    walker: "Specialiser", inputs: Sequence[Value]
) -> Iterator[Sequence[Value | TensorRows]]:
    """The inputs of a SequenceMap's body: each time tensors, or rows of as many tensors."""
    sequences = [value.items for value in inputs if value.items is not None]
    counts = [[sequence_length([item]) for item in items] for items in sequences]
    if any(count != counts[0] for count in counts):
        sequences = [single_tensors(walker.builder, items) for items in sequences]
    for items in zip(*sequences, strict=True):
        each = iter(items)
        yield [value if value.items is None else next(each) for value in inputs]


def _map_rows(
    walker: "Specialiser", node: "BodyNode", inputs: Sequence[Value | TensorRows]
) -> Sequence[Sequence[Value | TensorRows]]:
    """The tensors of each output for some of the tensors: a Loop over rows where it can be one."""
    rows = [value for value in inputs if isinstance(value, TensorRows)]
    if rows and walker.context.regions:
        with suppress(Unsupported):
            return [[TensorRows(stack)] for stack in map_region(walker, node, inputs)]
    count = rows[0].count if rows else 1
    singles = [
        single_tensors(walker.builder, [value])
        if isinstance(value, TensorRows)
        else [value] * count
        for value in inputs
    ]
    body = node.attributes["body"]
    results: list[list[Value]] = []
    for passed in zip(*singles, strict=True):
        walker.expansion.count(f"tensor {len(results)}")
        check_passed(body, passed, 0)
        before = walker.expansion.visited
        scope = node.scope.inner(f"{node.name}/{len(results)}/")
        results.append(walker.body(body, scope, passed))
        walker.builder.node = node.name
        rest = (count - len(results)) * (walker.expansion.visited - before)
        walker.expansion.expect(rest, f"{count} tensors")
    return [list(column) for column in zip(*results, strict=True)]


def _mapped(items: Sequence[Value | TensorRows], declared: onnx.ValueInfoProto) -> Value:
    """A sequence of results of a body, of the declared type if there are none.

    It is unknown if one of its tensors is.
    """
    tensors = [item.stack if isinstance(item, TensorRows) else item for item in items]
    if any(tensor.unknown for tensor in tensors):
        return Value("")
    dtypes = {tensor.dtype for tensor in tensors}
    dtypes = dtypes or {dtype_name(declared.type.tensor_type.elem_type)}
    if len(dtypes) > 1:
        raise Mismatch(f"its body gives {' and '.join(sorted(dtypes))}, a sequence has one dtype")
    return Value("", items=items, item_dtype=dtypes.pop())


CONTROL: dict[str, Callable[["Specialiser", "BodyNode"], Sequence[Value]]] = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
