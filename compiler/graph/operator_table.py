"""The operators of a graph as plain lists, on which the fusion policy decides."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from math import prod

from xdsl.ir import SSAValue

from compiler.graph import cost
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, OperatorOp, YieldOp
from compiler.ir.nodes import node_of
from compiler.ir.types import shape_of
from compiler.net.attributes import Shape
from compiler.net.operators import KINDS, OPERATORS, Kind
from compiler.support.dag import DAG


def squeezed_shape(shape: Sequence[int]) -> Shape:
    """A shape without its ones; tensors of one squeezed shape hold elements in the same order."""
    return tuple(size for size in shape if size != 1)


@dataclass(frozen=True, slots=True)
class Edge:
    """A data dependency, direct or through reshapes that only add and drop ones."""

    source: int
    operand: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class KernelNode:
    """One operator (or an existing group, or a copy) that launches a kernel.

    `shape` is the squeezed shape of all results, None if they differ; `full` that of the operand
    of a reduction over whole axes, else None; `trailing` says that these are the last ones.
    `reads` holds (tensor, bytes) pairs.
    """

    kind: Kind
    name: str
    shape: Shape | None
    full: Shape | None
    trailing: bool
    flops: int
    light: bool
    edges: tuple[Edge, ...]
    reads: tuple[tuple[int, int], ...]
    result_bytes: int

    @property
    def widens(self) -> bool:
        """Whether the node casts bytes to a type of four bytes and more."""
        return (
            self.name == "Cast" and bool(self.reads) and self.result_bytes >= 4 * self.reads[0][1]
        )


@dataclass
class OperatorTable:
    """All nodes in block order, with their users.

    `apart[v]` are producers that `v` uses through a view that stays outside groups; `outputs`
    are nodes whose results the graph yields, directly or through views.
    """

    operations: list[OperatorOp | GroupOp] = field(default_factory=list[OperatorOp | GroupOp])
    nodes: list[KernelNode] = field(default_factory=list[KernelNode])
    apart: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    users: list[list[int]] = field(default_factory=list[list[int]])
    outputs: set[int] = field(default_factory=set[int])

    def dag(self, roofline: cost.Roofline) -> DAG:
        """The nodes' dependencies, with the estimated ns of each as a separate kernel.

        Contractions that fill the device follow each other: they could only share it.
        """
        costs = [
            cost.cost_of(op, roofline)
            if isinstance(op, GroupOp)
            else cost.estimate(self.work([v]), roofline)
            for v, op in enumerate(self.operations)
        ]
        edges = ((u, v) for u, us in enumerate(self.users) for v in us)
        if roofline.filling is None:
            filling = []
        else:
            contractions = (v for v, x in enumerate(self.nodes) if x.kind is Kind.CONTRACTION)
            filling = [
                v for v in contractions if prod(self.nodes[v].shape or ()) >= roofline.filling
            ]
        return DAG.from_edges(costs, chain(edges, pairwise(filling)))

    def work(self, members: Sequence[int]) -> cost.Work:
        """The work of a kernel of these nodes."""
        inside = set(members)
        flops = written = 0
        reads: dict[int, int] = {}
        for v in members:
            node = self.nodes[v]
            flops += node.flops
            for tensor, size in node.reads:
                if tensor not in inside:
                    reads[tensor] = max(size, reads.get(tensor, 0))
            if v in self.outputs or not inside.issuperset(self.users[v]):
                written += node.result_bytes
        return cost.Work(flops, sum(reads.values()) + written)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The nodes that produce a tensor; `direct` if all views in between may move into groups."""

    sources: frozenset[int]
    direct: bool


_NOWHERE = _Origin(frozenset(), True)


class _Reader:
    def __init__(self, views: frozenset[OperatorOp], copies: frozenset[OperatorOp]) -> None:
        self.views = views
        self.copies = copies
        self.table = OperatorTable()
        self.origins: dict[SSAValue, _Origin] = {}
        self.tensors: dict[SSAValue, int] = {}

    def read(self, graph: GraphOp) -> OperatorTable:
        for op in graph.body.block.ops:
            if isinstance(op, OperatorOp) and op in self.views:
                self._view(op)
            elif isinstance(op, OperatorOp | GroupOp):
                self._node(op)
            elif isinstance(op, YieldOp):
                for value in op.operands:
                    self.table.outputs.update(self.origins.get(value, _NOWHERE).sources)
        return self.table

    def _view(self, op: OperatorOp) -> None:
        origins = [self.origins.get(value, _NOWHERE) for value in op.inputs]
        sources = frozenset[int]().union(*(origin.sources for origin in origins))
        direct = is_absorbable(op) and origins[0].direct
        self.origins.update(dict.fromkeys(op.outputs, _Origin(sources, direct)))

    def _node(self, op: OperatorOp | GroupOp) -> None:
        v = len(self.table.nodes)
        origins = [self.origins.get(value, _NOWHERE) for value in op.inputs]
        apart = frozenset[int]().union(*(o.sources for o in origins if not o.direct))
        edges = tuple(
            Edge(next(iter(origin.sources)), i, squeezed_shape(shape_of(op.inputs[i].type)))
            for i, origin in enumerate(origins)
            if origin.direct and origin.sources and not origin.sources & apart
        )
        self.table.operations.append(op)
        self.table.nodes.append(self._describe(op, edges))
        self.table.apart.append(apart)
        self.table.users.append([])
        for u in sorted({u for origin in origins for u in origin.sources}):
            self.table.users[u].append(v)
        self.origins.update(dict.fromkeys(op.results, _Origin(frozenset([v]), True)))

    def _describe(self, op: OperatorOp | GroupOp, edges: tuple[Edge, ...]) -> KernelNode:
        result_bytes = sum(map(cost.nbytes, op.results))
        if isinstance(op, GroupOp) or op in self.copies:
            return KernelNode(
                kind=Kind.OPAQUE,
                name="",
                shape=None,
                full=None,
                trailing=False,
                flops=0,
                light=False,
                edges=(),
                reads=self._reads(op),
                result_bytes=result_bytes,
            )
        shapes = {squeezed_shape(shape_of(v.type)) for v in op.outputs if cost.nbytes(v)}
        reduces = OPERATORS[op.type_name].facts.reduces
        rows = None
        trailing = False
        if reduces is not None and prod(shape := shape_of(op.inputs[0].type)):
            axes = set(reduces(node_of(op)))
            first = min(axes, default=len(shape))
            trailing = {i for i in range(first, len(shape)) if shape[i] != 1} <= axes
            rows = squeezed_shape(shape)
        return KernelNode(
            kind=KINDS[op.type_name],
            name=op.type_name,
            shape=shapes.pop() if len(shapes) == 1 else None,
            full=rows,
            trailing=trailing,
            flops=cost.flops_of(op),
            light=cost.is_cheap(op),
            edges=edges,
            reads=self._reads(op),
            result_bytes=result_bytes,
        )

    def _reads(self, op: OperatorOp | GroupOp) -> tuple[tuple[int, int], ...]:
        """Tensors by producing node, or by a unique negative number, with the bytes read."""
        reads: list[tuple[int, int]] = []
        for i, value in enumerate(op.operands):
            if isinstance(value.owner, ConstantOp) or not cost.nbytes(value):
                continue
            size = cost.read_bytes(op, i) if isinstance(op, OperatorOp) else cost.nbytes(value)
            origin = self.origins.get(value, _NOWHERE)
            single = origin.direct and len(origin.sources) == 1
            number = -1 - self.tensors.setdefault(value, len(self.tensors))
            reads.append((next(iter(origin.sources)) if single else number, size))
        return tuple(reads)


def is_absorbable(op: OperatorOp) -> bool:
    """Whether a view may move into a group: it only adds or drops axes of one element."""
    before, after = shape_of(op.inputs[0].type), shape_of(op.outputs[0].type)
    return KINDS[op.type_name] is Kind.VIEW and squeezed_shape(before) == squeezed_shape(after)


def read_operators(
    graph: GraphOp, views: frozenset[OperatorOp], copies: frozenset[OperatorOp]
) -> OperatorTable:
    """The table of a graph whose `views` launch nothing and whose `copies` are never fused."""
    return _Reader(views, copies).read(graph)
