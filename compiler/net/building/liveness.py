"""Dead code elimination of operators and optional results."""

from collections.abc import Set
from dataclasses import replace

from compiler.net.graph import Graph, Value
from compiler.net.node import Node
from compiler.net.operators import OPERATORS


def drop_dead(graph: Graph) -> None:
    """Remove operators on which no output of the graph depends, in place."""
    used = {value for _, value in graph.outputs}
    kept: list[Node[Value]] = []
    for operator in reversed(graph.operators):
        if used.isdisjoint(operator.outputs):
            continue
        used.update(value for value in operator.inputs if value is not None)
        several = len(operator.outputs) > 1
        kept.append(_without_unused(operator, used) if several else operator)
    graph.operators[:] = reversed(kept)


def _without_unused(operator: Node[Value], used: Set[Value]) -> Node[Value]:
    """An operator that leaves out optional results without users."""
    entry = OPERATORS.get(operator.type)  # control flow has none, and keeps what it gives
    slots = entry.outputs if entry is not None else ()
    outputs = list(operator.outputs)
    for i, value in enumerate(outputs):
        if i < len(slots) and slots[i].option == "?" and value not in used:
            outputs[i] = Value("")
    while outputs[-1].unknown:
        outputs.pop()
    return replace(operator, outputs=outputs)
