"""Gives every operator a node name of its own, as runtimes ask for."""

from collections import Counter

from compiler.frontend.graph import Graph


def name_apart(graph: Graph) -> None:
    """Rename operators that came from one ONNX node, in place: the last keeps the node's name.

    The others get their operator type after it: `bn` and `bn/Mul`, `bn/Mul.2`.
    """
    taken = {operator.node for operator in graph.operators}
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    for operator in reversed(graph.operators):
        if operator.node not in seen:
            seen.add(operator.node)
            continue
        base = name = f"{operator.node}/{operator.op_type}"
        while name in taken:
            counts[base] += 1
            name = f"{base}.{counts[base] + 1}"
        taken.add(name)
        operator.node = name
