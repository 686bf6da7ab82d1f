"""If, Loop and Scan whose bodies stay graphs, which a run repeats or chooses from.

Raises Unsupported where a body is not one static graph; then nothing of the attempt remains.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx

from compiler.errors import ModelError, ShapeError
from compiler.frontend.builder import supported
from compiler.frontend.control.bodies import check_passed
from compiler.frontend.sequences import Earlier
from compiler.frontend.unsupported import NeedsHost, Unsupported
from compiler.net.building.liveness import drop_dead
from compiler.net.building.masks import drop_masks
from compiler.net.graph import Graph, TensorRows, Value, constant
from compiler.net.node import Node
from compiler.net.operators.shapes import axis_in, listed
from compiler.schedule.tasks import ControlForm

if TYPE_CHECKING:
    from compiler.frontend.importing.specialise import BodyNode, Specialiser

UNBOUNDED = 2**63 - 1
"""The trip count of a loop that only its condition ends."""


@contextmanager
def attempt(walker: "Specialiser") -> Generator[None]:
    """Undo the additions of an attempt that raises Unsupported."""
    builder = walker.builder
    graph = walker.builder.graph
    operators = len(graph.operators)
    problems = len(walker.problems)
    node = builder.node
    reported = set(walker.reported)
    watched = dict(walker.watch.outputs)
    try:
        yield
    except Unsupported:
        del graph.operators[operators:], walker.problems[problems:]
        builder.graph = graph
        builder.node = node
        walker.reported, walker.watch.outputs = reported, watched
        raise


class TooLarge(NeedsHost):
    """Raised for a loop of so many operators that it is better repeated than unrolled."""


@contextmanager
def attempt_to_unroll(walker: "Specialiser", node: "BodyNode") -> Generator[None]:
    """An attempt that is made once for a loop, however often loops around repeat it."""
    visited = walker.expansion.visited
    try:
        with attempt(walker):
            yield
    except Unsupported as error:
        walker.repeated.add(node.key)
        if isinstance(error, TooLarge):  # nothing of it remains, and it is not done again
            walker.expansion.visited = visited
        raise


@dataclass(frozen=True, slots=True)
class TracedBody:
    """The graph of a body without outputs, and its results."""

    graph: Graph
    results: list[Value]


def _traced(
    walker: "Specialiser", node: "BodyNode", attribute: str, given: Sequence[Value]
) -> TracedBody:
    """The graph of a body, whose inputs are those given that are not constants."""
    body: onnx.GraphProto = node.attributes[attribute]
    outer = walker.builder.graph
    problems = len(walker.problems)
    watched = len(walker.watch.outputs)
    graph = Graph([value for value in given if value.array is None])
    walker.builder.graph = graph
    try:
        check_passed(body, given, 0)
        results = walker.body(body, node.scope.inner(f"{node.name}/{attribute}/"), given)
    except (ModelError, ShapeError) as error:
        raise NeedsHost(f"its {attribute} does not fit its inputs: {error}") from error
    finally:
        walker.builder.graph, walker.builder.node = outer, node.name
    if len(walker.problems) > problems:
        found = walker.problems[problems]
        raise NeedsHost(
            f"its {attribute} cannot be a static graph: {found.op_type} {found.node!r}:"
            f" {found.error.reason}",
            found.error.remedy,
        )
    if len(walker.watch.outputs) > watched:
        raise NeedsHost(f"its {attribute} reads at indices that shall be checked")
    return TracedBody(graph, results)


def _finish(graph: Graph, outputs: Sequence[Value]) -> None:
    """Give a body its outputs, and simplify it."""
    for value in outputs:
        supported(value)
    graph.outputs = [(f"out{index}", value) for index, value in enumerate(outputs)]
    drop_masks(graph)
    drop_dead(graph)


def _captured(graphs: Sequence[Graph]) -> list[Value]:
    """The run-time values from around some graphs that they use."""
    found: dict[Value, None] = {}
    for graph in graphs:
        own = {*graph.inputs, *(v for op in graph.operators for v in op.outputs)}
        found |= {v: None for v in graph.uses() if v.array is None and v not in own}
    return list(found)


def _place(
    walker: "Specialiser",
    node: "BodyNode",
    form: ControlForm,
    read: Sequence[Value],
    results: Sequence[Value],
    graphs: Sequence[Graph],
) -> list[Value]:
    """Append the operator of a form to the graph; its results are of the types given."""
    captured = _captured(graphs)
    for graph in graphs:
        graph.inputs += captured
    for value in (*read, *captured):
        supported(value)
    outputs = [Value("", value.dtype, value.shape) for value in results]
    attributes = {"form": form, "bodies": list(graphs)}
    operator = Node(
        form.kind.capitalize(), attributes, [*read, *captured], tuple(outputs), node.name
    )
    walker.builder.graph.operators.append(operator)
    return outputs


def _spread(found: Sequence[Value], wanted: Sequence[bool]) -> list[Value]:
    """Values at the places that are wanted, unknown ones elsewhere."""
    values = iter(found)
    return [next(values) if want else Value("") for want in wanted]


def if_region(walker: "Specialiser", node: "BodyNode", condition: Value) -> Sequence[Value]:
    """An If whose condition is computed at run time, of branches with results of one type."""
    with attempt(walker):
        traced = [_traced(walker, node, name, []) for name in ("then_branch", "else_branch")]
        wanted = node.used
        columns = [[v for v, w in zip(t.results, wanted, strict=False) if w] for t in traced]
        for one, other in zip(*columns, strict=True):
            _check_same(one, other, "its branches give")
        for body, results in zip(traced, columns, strict=True):
            _finish(body.graph, results)
        graphs = [body.graph for body in traced]
        found = _place(walker, node, ControlForm("if"), [condition], columns[0], graphs=graphs)
        return _spread(found, wanted)


def _check_same(one: Value, other: Value, what: str) -> None:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        types = f"{one.dtype}{listed(one.shape)} and {other.dtype}{listed(other.shape)}"
        raise NeedsHost(f"{what} {types}", "give both one type and shape")


def _carried(node: "BodyNode", values: Sequence[Value]) -> list[Value]:
    """New values of the types of those that a loop begins with."""
    return [
        Value(f"{node.name}/{value.name}", value.dtype, value.shape)
        if value.items is None
        else replace(value, items=[Earlier("", value.item_dtype)])
        for value in values
    ]


def loop_region(
    walker: "Specialiser",
    node: "BodyNode",
    limit: Value | None,
    condition: Value | None,
    carried: Sequence[Value],
) -> Sequence[Value]:
    """A Loop of any number of iterations, whose carried tensors keep their shapes.

    Sequences that it carries are only appended to: a tensor in each iteration, or none.
    """
    with attempt(walker):
        number = Value(f"{node.name}/iteration", "int64")
        formals = _carried(node, carried)
        true = constant("true", np.array(True))
        body = _traced(walker, node, "body", [number, true, *formals])
        going, *results = body.results
        states = results[: len(carried)]
        for before, after in zip(formals, states, strict=True):
            _check_same(before, after, "it carries")
        wanted = node.used[len(carried) :]
        rows = [row for row, want in zip(results[len(carried) :], wanted, strict=False) if want]
        added = [_appended(before, after) for before, after in zip(formals, states, strict=True)]
        rows += [row for tensors in added for row in tensors]
        body.graph.inputs = [number, *(value for value in formals if value.items is None)]
        kept = [value for value in states if value.items is None]
        traced = TracedBody(body.graph, [going, *kept, *rows])
        first = [value for value in carried if value.items is None]
        made = iter(_place_trips(walker, node, limit, condition, first, traced))
        last = [next(made) if value.items is None else value for value in carried]
        stacks = [next(made) if want else Value("") for want in wanted]
        grown = [
            replace(value, items=[*value.items, *(TensorRows(next(made)) for _ in tensors)])
            if value.items is not None
            else value
            for value, tensors in zip(last, added, strict=True)
        ]
        return [*grown, *stacks]


def _place_trips(
    walker: "Specialiser",
    node: "BodyNode",
    limit: Value | None,
    condition: Value | None,
    carried: Sequence[Value],
    body: TracedBody,
) -> list[Value]:
    """Append a Loop to the graph, whose body says if it goes on, then gives carried tensors, rows.

    Raises NeedsHost for rows whose number a run decides.
    """
    going, *results = body.results
    rows = results[len(carried) :]
    conditional = not (going.array is not None and going.array.all())
    length = None if conditional else _length(limit, condition)
    if rows and length is None:
        reason = "a run decides how often it runs, and so how many rows it has"
        raise NeedsHost(reason, "make its trip count a constant")
    form = ControlForm(
        kind="loop",
        carried=len(carried),
        length=length,
        conditional=conditional,
        stacks=(False,) * len(rows),
    )
    _finish(body.graph, [*[going] * conditional, *results])
    most = limit or constant("unbounded", np.array(UNBOUNDED, np.int64))
    head = [] if length is not None else [most, condition or constant("true", np.array(True))]
    stacked = [Value("", row.dtype, (length or 0, *row.shape)) for row in rows]
    types = [*results[: len(carried)], *stacked]
    return _place(walker, node, form, [*head, *carried], types, graphs=[body.graph])


def _appended(before: Value, after: Value) -> Sequence[Value]:
    """The tensor that an iteration appends to a sequence, if any; none for tensors."""
    if before.items is None:
        return []
    items = after.items or []
    added = [item for item in items[1:] if isinstance(item, Value)]
    if items[:1] != before.items or len(added) != len(items) - 1 or len(added) > 1:
        raise NeedsHost("it carries a sequence that is not only appended to", "stack its tensors")
    return added


def _length(limit: Value | None, condition: Value | None) -> int | None:
    """The number of iterations of a loop that goes on until its trip count, if it is known."""
    if limit is None or limit.array is None:
        return None
    known = condition is None or (condition.array is not None and condition.array.all())
    return max(0, int(limit.array.reshape(()))) if known else None


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """The axis and direction of each sequence that a Scan reads and writes."""

    input_axes: Sequence[int]
    input_backwards: Sequence[int]
    output_axes: Sequence[int]
    output_backwards: Sequence[int]


def scan_region(
    walker: "Specialiser",
    node: "BodyNode",
    states: Sequence[Value],
    sequences: Sequence[Value],
    rows: ScannedRows,
) -> Sequence[Value]:
    """A Scan as a Loop that reads and writes rows."""
    with attempt(walker):
        length = sequences[0].shape[rows.input_axes[0]]
        first = [
            walker.builder.moved(value, axis, 0)
            for value, axis in zip(sequences, rows.input_axes, strict=True)
        ]
        formals = _carried(node, states)
        slices = [Value(f"{node.name}/row", v.dtype, v.shape[1:]) for v in first]
        body = _traced(walker, node, "body", [*formals, *slices])
        for before, after in zip(formals, body.results, strict=False):
            _check_same(before, after, "it carries")
        wanted = node.used[len(states) :]
        kept = [i for i, want in enumerate(wanted) if want]
        body.results[len(states) :] = [body.results[len(states) + i] for i in kept]
        form = ControlForm(
            kind="loop",
            carried=len(states),
            length=length,
            scans=tuple(map(bool, rows.input_backwards)),
            stacks=tuple(bool(rows.output_backwards[i]) for i in kept),
        )
        body.graph.inputs = [*formals, *slices]
        made = _place_loop(walker, node, form, [*states, *first], body)
        columns = zip(made[len(states) :], kept, strict=True)
        stacks = [
            walker.builder.moved(value, 0, axis_in(rows.output_axes[i], value.rank))
            for value, i in columns
        ]
        return [*made[: len(states)], *_spread(stacks, wanted)]


def map_region(
    walker: "Specialiser", node: "BodyNode", inputs: Sequence[Value | TensorRows]
) -> list[Value]:
    """A SequenceMap over rows as a Loop: of each output the results of all rows, stacked."""
    with attempt(walker):
        stacks = [value.stack for value in inputs if isinstance(value, TensorRows)]
        slices = [Value(f"{node.name}/row", v.dtype, v.shape[1:]) for v in stacks]
        each = iter(slices)
        given = [next(each) if isinstance(value, TensorRows) else value for value in inputs]
        body = _traced(walker, node, "body", given)
        results = zip(body.results, node.used, strict=False)
        body.results[:] = [value for value, want in results if want]
        form = ControlForm(
            kind="loop",
            length=stacks[0].shape[0],
            scans=(False,) * len(stacks),
            stacks=(False,) * len(body.results),
        )
        body.graph.inputs = slices
        return _spread(_place_loop(walker, node, form, stacks, body), node.used)


def _place_loop(
    walker: "Specialiser",
    node: "BodyNode",
    form: ControlForm,
    read: Sequence[Value],
    body: TracedBody,
) -> list[Value]:
    """Append a Loop of known length over the rows of scans to the graph."""
    length = form.length or 0
    body.graph.inputs.insert(0, Value(f"{node.name}/iteration", "int64"))
    _finish(body.graph, body.results)
    carried, rows = body.results[: form.carried], body.results[form.carried :]
    stacked = [Value("", row.dtype, (length, *row.shape)) for row in rows]
    return _place(walker, node, form, read, [*carried, *stacked], graphs=[body.graph])
