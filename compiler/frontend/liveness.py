"""Dead code elimination of nodes, operators and optional results."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

import onnx

from compiler.frontend.node_order import names_read
from compiler.net.graph import Graph, Value
from compiler.net.node import Node
from compiler.net.operators import OPERATORS


def live_nodes(
    nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]
) -> list[tuple[onnx.NodeProto, set[str]]]:
    """The nodes of a body on which its outputs depend, in order, with the used results of each."""
    used = set(outputs) - {""}
    kept: list[tuple[onnx.NodeProto, set[str]]] = []
    for node in reversed(nodes):
        needed = used.intersection(node.output)
        if needed:
            used.update(names_read(node))
            kept.append((node, needed))
    return kept[::-1]


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
