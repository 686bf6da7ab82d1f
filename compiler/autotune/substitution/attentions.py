"""Keys of attentions whose kernels take the same time, however their terms are laid out."""

from collections.abc import Hashable

from compiler.graph.attention import Attention, find_attentions
from compiler.graph.rewriting.network import TermNetwork, network_of
from compiler.graph.rewriting.terms import Graph
from compiler.graph.windows import StridedOperand
from compiler.net.operators import KINDS, Kind
from compiler.target.target import GpuTarget


def attention_key(graph: Graph, node: str, target: GpuTarget) -> Hashable:
    """A key that attentions of one time have in common; None where the operators of an ONNX node
    are not one attention of a graph with views around it, so that they become several kernels."""
    network = network_of(graph)
    members = {i for i, term in enumerate(network.terms) if term.node == node}
    attention = next((a for a in find_attentions(network) if members.issuperset(a.operators)), None)
    if attention is None:
        return None
    around = [network.terms[i] for i in sorted(members.difference(attention.operators))]
    if any(KINDS.get(term.kind) is not Kind.VIEW for term in around):
        return None
    from compiler.kernels.building.kernel import attention_layout

    operands = (attention.query, attention.key, attention.value, attention.result)
    described = tuple(_operand(network, operand) for operand in operands)
    views = tuple(term.types for term in around)
    return described, attention_layout(attention, target), _inner(network, attention), views


def _operand(network: TermNetwork, operand: StridedOperand) -> Hashable:
    """An operand without its strides."""
    keep_type = None if operand.keep is None else network.values[operand.keep]
    dtype = network.values[operand.source].dtype
    return operand.window.shape, dtype, operand.factor, operand.norm_floor, keep_type


def _inner(network: TermNetwork, attention: Attention) -> Hashable:
    """The operators that compute, and what each reads: results of one before it, constants or
    other values."""
    scores = (attention.first, *attention.scores, attention.softmax)
    weights = (*attention.weights, *attention.views, attention.second)
    inner = sorted({*scores, *weights, *attention.results})
    producers = {
        v: (i, k) for i, n in enumerate(inner) for k, v in enumerate(network.operators[n].outputs)
    }
    return tuple(
        (
            network.operators[n].type,
            frozenset(network.terms[n].attributes.items()),
            tuple(_read(network, producers, v) for v in network.operators[n].inputs),
            network.terms[n].types,
        )
        for n in inner
    )


def _read(
    network: TermNetwork, producers: dict[int, tuple[int, int]], value: int | None
) -> Hashable:
    if value is None:
        return None
    constant = network.constants.get(value)
    content = None if constant is None else constant.tobytes()
    return producers.get(value), network.values[value], content
