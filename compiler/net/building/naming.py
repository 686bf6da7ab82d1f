"""Unique node names for operators, which runtimes require."""

from collections import Counter
from dataclasses import replace

from compiler.net.graph import Graph


def name_apart(graph: Graph) -> None:
    """Rename operators of one ONNX node, in place: the last keeps the node's name.

    The operator type is appended to the others' names: `bn` and `bn/Mul`, `bn/Mul.2`.
    """
    names = {operator.node for operator in graph.operators}
    seen: set[str] = set()
    counts: Counter[str] = Counter()
    for i in reversed(range(len(graph.operators))):
        operator = graph.operators[i]
        if operator.node not in seen:
            seen.add(operator.node)
            continue
        base = name = f"{operator.node}/{operator.type}"
        while name in names:
            counts[base] += 1
            name = f"{base}.{counts[base] + 1}"
        names.add(name)
        graph.operators[i] = replace(operator, node=name)
