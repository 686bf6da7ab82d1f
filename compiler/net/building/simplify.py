"""Simplification of a whole graph: what its constants allow, and names of its operators."""

from compiler.net.building.affine import fold_affine
from compiler.net.building.liveness import drop_dead
from compiler.net.building.masks import drop_masks
from compiler.net.building.naming import name_apart
from compiler.net.graph import Graph, inner_graphs
from compiler.net.operators import BYTE_CONTRACTIONS
from compiler.net.operators.quantisation import QUANTISATION

ON_CODES = frozenset({*BYTE_CONTRACTIONS, "MatMulNBits"})
"""The contractions of bytes, and of weights of four bits."""

QUANTISED = ON_CODES | QUANTISATION.keys()
"""The operators of graphs that are lowered before they are simplified."""


def holds_codes(graph: Graph) -> bool:
    """Whether it, or a body in it, has contractions of codes, or values that stand for others."""
    return any(
        operator.type in QUANTISED
        or any(value is not None and value.code for value in operator.inputs)
        or any(map(holds_codes, inner_graphs(operator)))
        for operator in graph.operators
    )


def simplify_graph(graph: Graph) -> None:
    """Simplify a graph and the bodies in it, in place, and name its operators apart."""
    drop_masks(graph)
    drop_dead(graph)
    fold_affine(graph)
    name_apart(graph)
    for operator in graph.operators:
        for body in inner_graphs(operator):
            simplify_graph(body)
