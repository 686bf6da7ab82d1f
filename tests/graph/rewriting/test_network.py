"""Terms as plain operators: what reading the module of them gives."""

import numpy as np

from compiler.graph.network import Network, Node, read_network
from compiler.graph.rewriting.dataflow import module_of
from compiler.graph.rewriting.network import network_of
from compiler.ir.edit import graphs_of
from tests.rewrite.search.test_attention import ATTENTION, SPLIT, imported, read

TEXT = SPLIT + ATTENTION


def described(network: Network, node: Node) -> tuple[object, ...]:
    """An operator with the types of its values and the constants that it reads."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    known = [network.constants[v].tolist() if v in network.constants else None for v in values]
    types = [(network.values[v].dtype, tuple(network.values[v].shape)) for v in values]
    return node.type, dict(node.attributes), types, known


def test_the_network_of_terms_is_that_of_their_module():
    like = imported(TEXT)
    graph = read(like)
    (part,) = graphs_of(module_of(graph, like))
    expected, found = read_network(part), network_of(graph)
    assert [described(found, node) for node in found.operators] == [
        described(expected, node) for node in expected.operators
    ]
    assert [term.kind for term in found.terms] == [node.type for node in found.operators]
    assert len(found.constants) == len(expected.constants)
    assert any(np.array_equal(array, 0.5) for array in found.constants.values())
