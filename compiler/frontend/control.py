"""Inlines control flow: `If` with a constant condition, `Loop` and `Scan` of constant length."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from compiler.frontend.graph import Unsupported, Value, axis_of, constant

if TYPE_CHECKING:
    from compiler.frontend.specialise import Node, Specialiser

import numpy as np

_LONGEST_LOOP = 1_000
_REMEDY = "export the model with a constant condition, or cut the model there"


def if_(walker: "Specialiser", node: "Node") -> Sequence[Value]:
    """The branch that a constant condition takes."""
    condition = node.inputs[0]
    if condition is None or condition.array is None:
        raise Unsupported("its condition is computed at run time", _REMEDY)
    branch = node.attributes["then_branch" if condition.array.all() else "else_branch"]
    return walker.body(branch, node.scope.inner(node.scope.prefix), [])


def _stack(walker: "Specialiser", values: Sequence[Value], axis: int = 0) -> Value:
    """Values joined along a new axis."""
    if not values:
        raise Unsupported("it runs zero times and stacks its results", "remove it from the model")
    builder = walker.builder
    axes = builder.integers([axis_of(axis, values[0].rank + 1)])
    parts = [builder.one("Unsqueeze", value, axes) for value in values]
    return parts[0] if len(parts) == 1 else builder.one("Concat", *parts, axis=int(axes.array[0]))


def _trip_count(limit: Value | None) -> int:
    if limit is None:
        return _LONGEST_LOOP + 1
    if limit.array is None:
        raise Unsupported("its trip count is computed at run time", _REMEDY)
    return int(limit.array.reshape(()))


def _holds(condition: Value | None) -> bool:
    if condition is None:
        return True
    if condition.array is None:
        raise Unsupported("its condition is computed at run time", _REMEDY)
    return bool(condition.array.all())


def loop(walker: "Specialiser", node: "Node") -> Sequence[Value]:
    """A Loop whose trip count and conditions are known, unrolled."""
    body = node.attributes["body"]
    limit, condition, *carried = node.inputs
    trips, stacked, step = _trip_count(limit), [], 0
    while step < trips and _holds(condition):
        if step >= _LONGEST_LOOP:
            raise Unsupported(f"it runs more than {_LONGEST_LOOP} times", _REMEDY)
        scope = node.scope.inner(f"{node.name}/{step}/")
        number, test = constant("", np.array(step, np.int64)), condition or _true()
        condition, *results = walker.body(body, scope, [number, test, *carried])
        carried, rows = results[: len(carried)], results[len(carried) :]
        stacked.append(rows)
        walker.builder.node = node.name
        step += 1
    count = len(body.output) - 1 - len(carried)
    columns = [[rows[i] for rows in stacked] for i in range(count)]
    wanted = [bool(name) for name in node.proto.output[len(carried) :]]
    pairs = zip(columns, wanted, strict=False)
    return [*carried, *(_stack(walker, c) if w else Value("") for c, w in pairs)]


def _true() -> Value:
    return constant("", np.array(True))


def scan(walker: "Specialiser", node: "Node") -> Sequence[Value]:
    """A Scan (opset 9 and newer), unrolled over its static sequence."""
    if node.opset < 9:
        raise Unsupported("Scan of opset 8 scans a batch", "export the model with opset 9 or newer")
    attributes, body, builder = node.attributes, node.attributes["body"], walker.builder
    count = attributes["num_scan_inputs"]
    states, sequences = node.inputs[: len(node.inputs) - count], node.inputs[-count:]
    axes = attributes.get("scan_input_axes", [0] * count)
    backwards = attributes.get("scan_input_directions", [0] * count)
    length = sequences[0].shape[axes[0]]
    rows = []
    for step in range(length):
        scope = node.scope.inner(f"{node.name}/{step}/")
        slices = []
        for value, axis, back in zip(sequences, axes, backwards, strict=True):
            index = builder.constant(length - 1 - step if back else step, "int64")
            slices.append(builder.one("Gather", value, index, axis=axis_of(axis, value.rank)))
        results = walker.body(body, scope, [*states, *slices])
        states = results[: len(states)]
        rows.append(results[len(states) :])
        builder.node = node.name
    count = len(body.output) - len(states)
    outputs = [[row[i] for row in rows] for i in range(count)]
    axes = attributes.get("scan_output_axes", [0] * len(outputs))
    backwards = attributes.get("scan_output_directions", [0] * len(outputs))
    columns = [c[::-1] if back else c for c, back in zip(outputs, backwards, strict=True)]
    wanted = [bool(name) for name in node.proto.output[len(states) :]]
    triples = zip(columns, axes, wanted, strict=False)
    return [*states, *(_stack(walker, c, a) if w else Value("") for c, a, w in triples)]


CONTROL: dict[str, Callable[["Specialiser", "Node"], Sequence[Value]]] = {
    "If": if_,
    "Loop": loop,
    "Scan": scan,
}
