"""Dead code elimination of nodes, operators and optional results."""

from collections.abc import Iterable, Sequence

import onnx

from compiler.frontend.graph import Graph, Operator
from compiler.frontend.node_order import names_read
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
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if used.isdisjoint(operator.outputs):
            continue
        # Omit optional results without users.
        entry = OPERATORS.get(operator.op_type)  # control flow has none, and keeps what it gives
        slots = entry.outputs if entry is not None else ()
        for i, value in enumerate(operator.outputs):
            if i < len(slots) and slots[i].option == "?" and value not in used:
                operator.outputs[i] = None
        while operator.outputs[-1] is None:
            operator.outputs.pop()
        used.update(value for value in operator.inputs if value is not None)
        kept.append(operator)
    graph.operators[:] = reversed(kept)
