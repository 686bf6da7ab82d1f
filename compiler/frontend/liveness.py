"""Drops operators, and optional results, that nothing uses."""

from compiler.frontend.builder import NORMALISED_OPSET
from compiler.frontend.evaluate import schema_of
from compiler.frontend.graph import Graph, Operator, Value

_OPTIONAL = "FormalParameterOption.Optional"


def _trim(operator: Operator, used: set[Value]) -> None:
    """Leave out optional results that nothing uses."""
    formal = schema_of(operator.op_type, NORMALISED_OPSET).outputs
    for i, value in enumerate(operator.outputs):
        optional = i < len(formal) and str(formal[i].option) == _OPTIONAL
        if optional and value not in used:
            operator.outputs[i] = None
    while operator.outputs[-1] is None:
        operator.outputs.pop()


def drop_dead(graph: Graph) -> None:
    """Keep only what the graph's outputs depend on, in place."""
    used = {value for _, value in graph.outputs}
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if used.isdisjoint(operator.outputs):
            continue
        _trim(operator, used)
        used.update(value for value in operator.inputs if value is not None)
        kept.append(operator)
    graph.operators[:] = reversed(kept)
