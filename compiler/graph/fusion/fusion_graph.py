"""A graph as the fusion policy reads it: which nodes launch kernels, and what they wait for."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from math import prod

from compiler.graph import cost
from compiler.graph.aliases import is_absorbable
from compiler.graph.network import GraphNetwork, read_network
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.ir.nodes import node_of
from compiler.ir.types import shape_of
from compiler.net.attributes import Shape
from compiler.net.node import Node
from compiler.net.operators import KINDS, OPERATORS, Kind, facts_of
from compiler.support.dag import DAG
from compiler.tensors.row_major import squeezed_shape

_INLINE = (Kind.ELEMENTWISE, Kind.INJECTIVE)

_ROW_BY_ROW = (Kind.ELEMENTWISE, Kind.VIEW)


@dataclass(frozen=True, slots=True)
class Edge:
    """A data dependency, direct or through reshapes that only add and drop ones."""

    source: int
    operand: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class ReducedRows:
    """The squeezed shape of what a reduction over whole axes reads; whether these are the last."""

    shape: Shape
    trailing: bool


@dataclass(frozen=True, slots=True)
class NodeCost:
    """The operations and the bytes of a node as a separate kernel.

    A result of a `light` one costs about as much to compute again as to load. `reads` holds
    (tensor, bytes) pairs, of tensors by producing node, or by a negative number.
    """

    flops: int
    light: bool
    reads: tuple[tuple[int, int], ...]
    result_bytes: int


@dataclass
class FusionGraph:
    """The nodes of a network that launch kernels, by their numbers in it, with their users.

    `shapes` are the squeezed shapes of all results, None where they differ. `apart` are producers
    that a node uses through a view that stays outside groups; `outputs` are nodes whose results the
    graph yields, directly or through views. `terms` is how often reductions of few terms, of which
    each repeats what it reads, may compute an element of an operand.
    """

    network: GraphNetwork
    kinds: dict[int, Kind] = field(default_factory=dict[int, Kind])
    shapes: dict[int, Shape | None] = field(default_factory=dict[int, Shape | None])
    rows: dict[int, ReducedRows] = field(default_factory=dict[int, ReducedRows])
    costs: dict[int, NodeCost] = field(default_factory=dict[int, NodeCost])
    terms: dict[int, int] = field(default_factory=dict[int, int])
    edges: dict[int, tuple[Edge, ...]] = field(default_factory=dict[int, tuple[Edge, ...]])
    apart: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    users: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    outputs: set[int] = field(default_factory=set[int])

    def node(self, v: int) -> Node[int]:
        """A node of the network."""
        return self.network.operators[v]

    def unrolled(self, v: int) -> bool:
        """Whether a node is a reduction of few terms, which are computed where it is read."""
        return self.kinds[v] is Kind.INJECTIVE and v in self.rows

    def widens(self, v: int) -> bool:
        """Whether a node casts bytes to a type of four bytes and more."""
        own = self.costs[v]
        casts = facts_of(self.node(v).type).converts and bool(own.reads)
        return casts and own.result_bytes >= 4 * own.reads[0][1]

    def dag(self, roofline: cost.Roofline) -> DAG:
        """The nodes' dependencies, with the estimated ns of each as a separate kernel.

        Contractions that fill the device follow each other: they could only share it. A view costs
        nothing, and nothing waits for it.
        """
        costs = [0] * len(self.network.operators)
        for v in self.kinds:
            op = self.network.operations[v]
            if isinstance(op, GroupOp):
                costs[v] = cost.cost_of(op, roofline)
            else:
                costs[v] = cost.estimate(self.work([v]), roofline)
        edges = ((u, v) for u, users in self.users.items() for v in users)
        if roofline.filling is None:
            filling = []
        else:
            contractions = (v for v, kind in self.kinds.items() if kind is Kind.CONTRACTION)
            filling = [v for v in contractions if prod(self.shapes[v] or ()) >= roofline.filling]
        return DAG.from_edges(costs, chain(edges, pairwise(filling)))

    def work(self, members: Sequence[int]) -> cost.Work:
        """The work of a kernel of these nodes."""
        inside = set(members)
        flops = written = 0
        reads: dict[int, int] = {}
        for v in members:
            own = self.costs[v]
            flops += own.flops
            for tensor, size in own.reads:
                if tensor not in inside:
                    reads[tensor] = max(size, reads.get(tensor, 0))
            if v in self.outputs or not inside.issuperset(self.users[v]):
                written += own.result_bytes
        return cost.Work(flops, sum(reads.values()) + written)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The nodes that produce a tensor; `direct` if all views in between may move into groups."""

    sources: frozenset[int]
    direct: bool


_NOWHERE = _Origin(frozenset(), True)


def read_fusion_graph(
    graph: GraphOp, views: frozenset[OperatorOp], few_terms: int = 0
) -> FusionGraph:
    """The form of a graph whose `views` launch nothing; any other one copies and is not fused.

    Reductions of at most `few_terms` are injective: kernels compute them where they are read.
    """
    network = read_network(graph)
    result = FusionGraph(network)
    origins: dict[int | None, _Origin] = {}
    for v, op in enumerate(network.operations):
        node = network.operators[v]
        reads = [origins.get(value, _NOWHERE) for value in node.inputs]
        if isinstance(op, OperatorOp) and op in views:
            sources = frozenset[int]().union(*(origin.sources for origin in reads))
            origin = _Origin(sources, is_absorbable(op) and reads[0].direct)
        else:
            result.kinds[v] = KINDS.get(node.type, Kind.OPAQUE)
            result.costs[v] = _cost(network, v, reads)
            _describe(result, v)
            _connect(result, v, reads)
            _unroll(result, v, few_terms)
            origin = _Origin(frozenset([v]), True)
        origins.update(dict.fromkeys(node.outputs, origin))
    for value in network.outputs:
        result.outputs.update(origins.get(value, _NOWHERE).sources)
    return result


def _connect(graph: FusionGraph, v: int, origins: Sequence[_Origin]) -> None:
    apart = frozenset[int]().union(*(o.sources for o in origins if not o.direct))
    values = [graph.network.values[value or 0] for value in graph.node(v).inputs]
    graph.apart[v] = apart
    graph.edges[v] = tuple(
        Edge(next(iter(origin.sources)), i, squeezed_shape(values[i].shape))
        for i, origin in enumerate(origins)
        if origin.direct and origin.sources and not origin.sources & apart
    )
    graph.users[v] = []
    for u in sorted({u for origin in origins for u in origin.sources}):
        graph.users[u].append(v)


def _describe(graph: FusionGraph, v: int) -> None:
    """Enter the shapes of a node's results, and of its rows if it reduces whole ones."""
    node = graph.node(v)
    op = graph.network.operations[v]
    values = graph.network.values
    results = zip(node.outputs, op.outputs, strict=True)
    shapes = {squeezed_shape(values[i].shape) for i, value in results if cost.nbytes(value)}
    graph.shapes[v] = shapes.pop() if len(shapes) == 1 else None
    if isinstance(op, GroupOp):
        return
    reduces = OPERATORS[node.type].facts.reduces
    if reduces is not None and prod(shape := values[node.operand(0)].shape):
        axes = set(reduces(node_of(op)))
        first = min(axes, default=len(shape))
        trailing = {i for i in range(first, len(shape)) if shape[i] != 1} <= axes
        graph.rows[v] = ReducedRows(squeezed_shape(shape), trailing)


def _unroll(graph: FusionGraph, v: int, few_terms: int) -> None:
    """Make a node injective if it is a reduction of few terms, and count its terms in any case."""
    node = graph.node(v)
    op = graph.network.operations[v]
    terms = 0
    rows = graph.rows.get(v)
    repeated = max((graph.terms[edge.source] for edge in graph.edges[v]), default=1)
    if isinstance(op, OperatorOp) and rows and (reduces := OPERATORS[node.type].facts.reduces):
        shape = graph.network.values[node.operand(0)].shape
        axes = set(reduces(node_of(op)))
        terms = cost.unrolled_terms(node.type, axes, shape, repeated, few_terms)
        terms = 0 if terms and _meets(op, rows.shape) else terms
    if terms:
        graph.kinds[v] = Kind.INJECTIVE
        graph.costs[v] = replace(graph.costs[v], light=False)
        graph.terms[v] = terms
    else:
        graph.terms[v] = repeated if graph.kinds[v] in _INLINE else 1


def _meets(reduction: OperatorOp, rows: Shape) -> bool:
    """Whether elementwise operators on a reduction's result give rows again, as a normalisation.

    Each of a row's elements would compute the reduction anew.
    """
    pending = [reduction.outputs[0]]
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.operation
            if not isinstance(user, OperatorOp) or KINDS[user.type_name] not in _ROW_BY_ROW:
                continue
            shape = squeezed_shape(shape_of(user.outputs[0].type))
            if shape == rows:
                return True
            if shape == squeezed_shape(shape_of(value.type)):
                pending.append(user.outputs[0])
    return False


def _cost(network: GraphNetwork, v: int, origins: Sequence[_Origin]) -> NodeCost:
    op = network.operations[v]
    computes = isinstance(op, OperatorOp)
    reads: list[tuple[int, int]] = []
    for i, value in enumerate(op.inputs):
        tensor = network.operators[v].inputs[i]
        if tensor is None or tensor in network.constants or not cost.nbytes(value):
            continue
        size = cost.read_bytes(op, i) if computes else cost.nbytes(value)
        single = origins[i].direct and len(origins[i].sources) == 1
        reads.append((next(iter(origins[i].sources)) if single else -1 - tensor, size))
    return NodeCost(
        flops=cost.flops_of(op) if computes else 0,
        light=computes and cost.is_cheap(op),
        reads=tuple(reads),
        result_bytes=sum(map(cost.nbytes, op.results)),
    )
