"""The costs of the search for substitutions: sums, mixed critical paths, simulated makespans."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from compiler.autotune.substitution.kernels import KernelCosts
from compiler.graph.attention import find_attentions
from compiler.graph.cost import roofline_of
from compiler.graph.network import GraphNetwork, read_network
from compiler.graph.rewriting.dataflow import module_of
from compiler.graph.rewriting.terms import Graph, Term, Terms, reachable
from compiler.graph.windows import StridedOperand
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.ir.edit import graphs_of
from compiler.net.operators import KINDS, Kind
from compiler.net.spec import KnownTensor
from compiler.rewrite.search.cost_model import CostPolicy
from compiler.rewrite.search.kernels import TermKernel, kernels_of, mixed_cost
from compiler.scheduling.simulator import Simulator, TaskDemand
from compiler.target.target import GpuTarget
from compiler.tensors.dtypes import FLOATS


def attention_key(module: ModuleOp, node: str, target: GpuTarget) -> Hashable:
    """A key that attentions of one time have in common; None where the operators of an ONNX node
    are not one attention of a graph with views around it, so that they become several kernels."""
    (graph,) = graphs_of(module)
    network = read_network(graph)
    names = [op.node_name if isinstance(op, OperatorOp) else "" for op in network.operations]
    members = {i for i, name in enumerate(names) if name == node}
    attention = next((a for a in find_attentions(network) if members.issuperset(a.operators)), None)
    if attention is None:
        return None
    around = network.operators_at(sorted(members.difference(attention.operators)))
    if any(KINDS.get(op.type_name) is not Kind.VIEW for op in around):
        return None
    from compiler.kernels.building.estimate import layout_key

    operands = (attention.query, attention.key, attention.value, attention.result)
    described = tuple(_operand_key(network, operand) for operand in operands)
    views = tuple(tuple(op.result_types) for op in around)
    # The operators that compute, and what each reads: results of one before it, constants or
    # other values.
    scores = (attention.first, *attention.scores, attention.softmax)
    weights = (*attention.weights, *attention.views, attention.second)
    inner = sorted({*scores, *weights, *attention.results})
    producers = {
        v: (i, k) for i, n in enumerate(inner) for k, v in enumerate(network.operators[n].outputs)
    }
    return (
        described,
        layout_key(attention, target),
        tuple(
            (
                op.type_name,
                frozenset(op.attributes.items()),
                tuple(_read(network, producers, v) for v in network.operators[n].inputs),
                tuple(op.result_types),
            )
            for n, op in zip(inner, network.operators_at(inner), strict=True)
        ),
        views,
    )


def _operand_key(network: GraphNetwork, operand: StridedOperand) -> Hashable:
    """An operand without its strides."""
    keep_type = None if operand.keep is None else network.values[operand.keep]
    dtype = network.values[operand.source].dtype
    return operand.window.shape, dtype, operand.factor, operand.norm_floor, keep_type


def _read(
    network: GraphNetwork, producers: dict[int, tuple[int, int]], value: int | None
) -> Hashable:
    if value is None:
        return None
    constant = network.constants.get(value)
    content = None if constant is None else constant.tobytes()
    return producers.get(value), network.values[value], content


MARKED_NODE = "the kernel in question"
"""The node name of the term whose kernel is estimated."""

FUSED_NANOSECONDS = 1.0
"""The time of an operator in an epilogue, so that of two graphs the smaller one is cheaper."""

MOST_CHANNELS = 1 << 13
"""The channels of the widest tensor that such an operator makes."""

MAKERS = ("Conv", "MatMul")
"""The operators that make and read its tensors."""


class TermCosts:
    """The costs of graphs by the kernels of their terms, each estimated once."""

    def __init__(self, like: GraphOp, kernels: KernelCosts):
        self.like = like
        self.kernels = kernels
        self._bandwidth = kernels.target.device.bandwidth
        self._few_terms = roofline_of(kernels.target).few_terms
        self._known: dict[Hashable, TaskDemand] = {}
        self._by_term: dict[Term, TaskDemand] = {}
        self._by_members: dict[tuple[Term, ...], TaskDemand] = {}
        self._terms = Terms()

    def cost(self, policy: CostPolicy, alpha: float) -> Callable[[Graph], float]:
        """The cost that a policy minimises, in nanoseconds."""
        if policy == "makespan":
            return self.makespan
        weight = alpha if policy == "autograph" else 0.0

        def mixed(graph: Graph) -> float:
            kernels = kernels_of(graph, self._few_terms)
            times = [self.time(kernel) for kernel in kernels]
            return mixed_cost(kernels, times, weight)

        return mixed

    def makespan(self, graph: Graph) -> float:
        """The simulated time of a graph with a stream for each chain."""
        kernels = kernels_of(graph, self._few_terms)
        demands = [self.kernel(kernel) for kernel in kernels]
        simulator = Simulator(demands, self.kernels.target.device)
        edges = [(u, v) for v, kernel in enumerate(kernels) for u in kernel.after]
        return simulator.makespan(chains(kernels), range(len(kernels)), np.array(edges))

    def kernel(self, kernel: TermKernel) -> TaskDemand:
        """The demand of a kernel, its epilogue included."""
        return replace(self._without_epilogue(kernel), time=self.time(kernel))

    def time(self, kernel: TermKernel) -> float:
        """The time of a kernel: what is fused with it costs the bytes that it reads."""
        time = self._without_epilogue(kernel).time
        if not kernel.fused:
            return time
        return time + (FUSED_NANOSECONDS * kernel.fused + kernel.nbytes / self._bandwidth)

    def _without_epilogue(self, kernel: TermKernel) -> TaskDemand:
        return self.attention(kernel) if kernel.members else self.demand(kernel.term)

    def demand(self, term: Term) -> TaskDemand:
        """The demand of the kernel of a term alone."""
        if term not in self._by_term:
            # terms of one shape, of which a model has many, share an estimate
            shapes = tuple(t and (t.dtype, t.shape, t.constant) for t in term.node.inputs)
            key = (term.node.type, frozenset(term.node.attributes.items()), shapes, term.types)
            if key not in self._known:
                self._known[key] = self._estimated(term)
            self._by_term[term] = self._known[key]
        return self._by_term[term]

    def attention(self, kernel: TermKernel) -> TaskDemand:
        """The demand of the kernel of an attention, or of the kernels that it becomes."""
        if kernel.members not in self._by_members:
            last = self._alone(kernel.members)
            if last not in self._by_term:
                reads = (term for term in reachable((last,)) if term.node.type in MAKERS)
                unmarked = [term for term in reads if not term.node.node]
                around = tuple(_contraction(self._terms, value) for value in (*unmarked, last))
                module = module_of(around, self.like)
                key = attention_key(module, MARKED_NODE, self.kernels.target) or last
                if key not in self._known:
                    self._known[key] = self.kernels.marked(module, MARKED_NODE)
                self._by_term[last] = self._known[key]
            self._by_members[kernel.members] = self._by_term[last]
        return self._by_members[kernel.members]

    def _alone(self, members: Sequence[Term]) -> Term:
        """The last one of some operators on other operands: the same for attentions of a kind."""
        terms = self._terms
        copies = dict[Term, Term]()
        for term in members:
            for operand in term.operands:
                if operand not in copies:
                    copies[operand] = _operand(terms, len(copies), operand)
            inputs = [operand and copies[operand] for operand in term.node.inputs]
            copies[term] = _marked(terms, term, inputs)
        return copies[members[-1]]

    def _estimated(self, term: Term) -> TaskDemand:
        """The demand of the term's kernel between two others, so that its tensors are stored as
        they are inside a model; a view has none."""
        terms = Terms()
        inputs = [o and _operand(terms, i, o) for i, o in enumerate(term.node.inputs)]
        copy = _marked(terms, term, inputs)
        reads = [operand for operand in copy.operands if operand.node.type in MAKERS]
        around = [_contraction(terms, value) for value in (*reads, *terms.results(copy))]
        return self.kernels.marked(module_of(tuple(around), self.like), MARKED_NODE)


def _marked(terms: Terms, term: Term, inputs: Sequence[Term | None]) -> Term:
    """A copy of a term on other inputs, whose kernel is the one in question."""
    node = term.node
    return terms.opaque(node.type, inputs, node.attributes, term.types, MARKED_NODE)


def _operand(terms: Terms, position: int, operand: Term) -> Term:
    """A leaf, or the result of another kernel, in place of an operand."""
    if operand.constant and not operand.node.inputs:
        return terms.leaf(operand.node.type, operand.types[0], **operand.node.attributes)
    kind, name = ("weight", "key") if operand.constant else ("input", "operand")
    leaf = terms.leaf(kind, operand.types[0], **{name: f"operand {position}"})
    return leaf if operand.constant else _contraction(terms, leaf)


def _contraction(terms: Terms, value: Term) -> Term:
    """A contraction that keeps the shape of a tensor of floating-point numbers."""
    rank = len(value.shape)
    if rank < 2 or value.dtype not in FLOATS:
        return value
    kind, channels = ("Conv", value.shape[1]) if rank in (4, 5) else ("MatMul", value.shape[-1])
    if channels > MOST_CHANNELS:
        return value
    shape = (channels, channels) + (1,) * (rank - 2 if kind == "Conv" else 0)
    weight = terms.leaf("weight", KnownTensor(value.dtype, shape), key="around")
    return terms.apply(kind, [value, weight])


def chains(kernels: Sequence[TermKernel]) -> list[int]:
    """Opara's streams: each kernel follows the first one it waits for that has no successor yet."""
    streams: list[int] = []
    followed: set[int] = set()
    for number, kernel in enumerate(kernels):
        free = next((u for u in kernel.after if u not in followed), None)
        if free is not None:
            followed.add(free)
        streams.append(number if free is None else streams[free])
    return streams
