"""Which operator may join which kernel, by the operator's kind.

A rule is asked about node `v`, in cluster `mine`, joining the cluster of a producer, `other`.
"""

from collections.abc import Callable

from compiler.analysis.fusion_state import MOST_TENSORS, Growth
from compiler.analysis.operator_table import Edge, Node
from compiler.ir.operators import Kind

_FEW = 4
_INDEXING = ("Gather", "GatherElements", "GatherND", "OneHot")
_EXPANDING = (*_INDEXING, "Resize", "Tile")

DEEPEST = 4
"""Injective operators that may follow one another in a kernel: each uses the index that it gets
several times (a Reshape divides it and takes the remainder), so that indices grow exponentially."""

Rule = Callable[[Growth, int, Edge, int, int], bool]


def allows(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    """Whether the kinds, shapes and users of two clusters let them be one kernel."""
    members = growth.members(mine) + growth.members(other)
    if len(members) > growth.rules.max_operators or growth.anchor_kind(other) is Kind.OPAQUE:
        return False
    inside = set(members)
    if any(not inside.isdisjoint(growth.table.apart[u]) for u in members):
        return False
    if not _few_tensors(growth, members) or not _few_indices(growth, sorted(members)):
        return False
    rule = _RULES.get(growth.table.nodes[v].kind)
    return rule is not None and rule(growth, v, edge, mine, other)


def _few_tensors(growth: Growth, members: list[int]) -> bool:
    """Whether a kernel of these nodes reads few tensors, or no more than one of them does."""
    nodes = [growth.table.nodes[u] for u in members]
    counts = [len(node.reads) for node in nodes]
    if sum(counts) <= MOST_TENSORS:
        return True
    read = {tensor for node in nodes for tensor, _ in node.reads}
    return len(read.difference(members)) <= max(MOST_TENSORS, *counts)


def _few_indices(growth: Growth, members: list[int]) -> bool:
    """Whether indices stay small in a kernel of these nodes, given in block order.

    At most `DEEPEST` injective operators follow one another on a path, and the index of a Gather
    is computed by others whose own indices are not: each writes the index that it gets out often.
    """
    depths: dict[int, int] = {}
    nested: dict[int, int] = {}
    for u in members:
        node = growth.table.nodes[u]
        inside = [edge for edge in node.edges if edge.source in depths]
        depths[u] = max((depths[e.source] for e in inside), default=0)
        depths[u] += node.kind is Kind.INJECTIVE
        nested[u] = max((nested[e.source] + _indexes(node, e, depths) for e in inside), default=0)
    return max(depths.values()) <= DEEPEST and max(nested.values()) <= 1


def _indexes(node: Node, edge: Edge, depths: dict[int, int]) -> bool:
    """Whether an edge leads from injective operators to an index."""
    return node.name in _INDEXING and edge.operand > 0 and depths[edge.source] > 0


def _elementwise(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    shape = growth.table.nodes[v].shape
    if growth.anchor_kind(other) is not None:
        alone = growth.anchor_kind(mine) is None
        return alone and (_epilogue(growth, v, edge, other) or _rows(growth, v, edge, other))
    if edge.shape != shape or growth.kernels[other].shape != shape:
        return growth.light(other, _FEW) and growth.only_for(other, v)
    return growth.anchor_kind(mine) is None or growth.only_for(other, v)


def _epilogue(growth: Growth, v: int, edge: Edge, other: int) -> bool:
    """Behind an anchor, unless that only adds a result to be written."""
    shape = growth.table.nodes[v].shape
    same = edge.shape == shape and growth.kernels[other].shape == shape
    return same and (not growth.escapes(edge.source) or _is_written(growth, v))


def _is_written(growth: Growth, v: int) -> bool:
    """Whether a node's result goes to memory wherever the node is."""
    kinds = {growth.table.nodes[w].kind for w in growth.table.users[v]}
    return v in growth.table.outputs or kinds <= {Kind.CONTRACTION, Kind.OPAQUE}


def _rows(growth: Growth, v: int, edge: Edge, other: int) -> bool:
    """A reduction's result meets the rows it came from again, as in a normalisation."""
    anchor, shape = growth.kernels[other].anchor, growth.kernels[other].shape
    full = growth.table.nodes[anchor].full
    if full is None or full != growth.table.nodes[v].shape or edge.shape != shape:
        return False
    reduced = (u for u in growth.members(other) if growth.table.nodes[u].shape == shape)
    return all(_used_by(growth, u, other, v) for u in reduced)


def _used_by(growth: Growth, u: int, cluster: int, v: int) -> bool:
    """Whether a node's only users are in its cluster, or `v`."""
    users = growth.table.users[u]
    inside = all(w == v or growth.clusters.cluster_of[w] == cluster for w in users)
    return inside and u not in growth.table.outputs


def _injective(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    node = growth.table.nodes[v]
    if node.shape is None or not growth.only_for(other, v):
        return False
    if growth.anchor_kind(other) is Kind.CONTRACTION:
        allowed = growth.rules.injective_epilogue and node.name == "Transpose"
        return allowed and growth.anchor_kind(mine) is None
    if growth.anchor_kind(other) is not None or not _is_single(growth, other):
        return False
    return node.name not in _EXPANDING or growth.light(other, _FEW)


def _is_single(growth: Growth, cluster: int) -> bool:
    """Whether all results within a cluster have a shape of their own node."""
    return all(growth.table.nodes[u].shape is not None for u in growth.members(cluster))


def _reduction(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    node = growth.table.nodes[v]
    if edge.operand != 0 or growth.anchor_kind(other) is not None or not _is_single(growth, other):
        return False
    if node.full is None:
        return growth.light(other, _FEW) and growth.only_for(other, v)
    once = node.shape != node.full
    return growth.kernels[other].shape == edge.shape and (once or growth.light(other, _FEW))


def _contraction(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    small = growth.light(other, _FEW) and growth.only_for(other, v)
    free = growth.anchor_kind(other) is None
    return growth.rules.contraction_prologue and edge.operand == 0 and free and small


_RULES: dict[Kind, Rule] = {
    Kind.ELEMENTWISE: _elementwise,
    Kind.INJECTIVE: _injective,
    Kind.REDUCTION: _reduction,
    Kind.CONTRACTION: _contraction,
}
