"""Which operators may be fused, by the consumer's kind.

A rule says whether the fused set `mine` of node `v` may merge with `other`, that of a producer.
"""

from collections.abc import Callable

from compiler.graph.fusion.fusion_graph import Edge
from compiler.graph.fusion.state import MOST_RECOMPUTED, MOST_TENSORS, Growth
from compiler.net.node import Node
from compiler.net.operators import SCATTER_ORDER, SEGMENT_REDUCE, Kind, facts_of
from compiler.net.operators.einsum import einsum_terms
from compiler.net.operators.indices import GATHERS, INDEXED
from compiler.tensors.dtypes import FLOAT8
from compiler.tensors.extents import at_hints

DEEPEST_FUSION = 4
"""The longest chain of injective operators in a kernel: each uses its index several times (a
Reshape divides it and takes the remainder), so that index expressions grow exponentially."""

LARGEST_INDEX = 16
"""The most operators of a kernel on which an index from data may depend: every look-up computes its
index anew, so that a kernel of many with long ones would grow quadratically."""

MOST_LOOK_UPS = 2
"""The most look-ups at indices from data on a path in a kernel: each reads the index of the one
after it three times, and what it selects from at both places if others read that, too."""

FusionRule = Callable[[Growth, int, Edge, int, int], bool]


def allows(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    """Whether two fused sets may be one kernel, by their kinds, shapes and users."""
    members = growth.members(mine) + growth.members(other)
    if len(members) > growth.rules.max_operators or growth.anchor_kind(other) is Kind.OPAQUE:
        return False
    inside = set(members)
    if any(not inside.isdisjoint(growth.graph.apart[u]) for u in members):
        return False
    written = growth.anchor_kind(mine) in (Kind.CONTRACTION, Kind.OPAQUE)
    if written and any(growth.graph.unrolled(u) for u in members):
        return False  # templates have no expression for its terms
    if not _few_tensors(growth, members) or not _few_indices(growth, sorted(members)):
        return False
    rule = _RULES.get(growth.graph.kinds[v])
    return rule is not None and rule(growth, v, edge, mine, other)


def _few_tensors(growth: Growth, members: list[int]) -> bool:
    """Whether a kernel of these nodes reads few tensors, or at most as many as one of them."""
    reads = [growth.graph.costs[u].reads for u in members]
    counts = [*map(len, reads)]
    if sum(counts) <= MOST_TENSORS:
        return True
    read = {tensor for own in reads for tensor, _ in own}
    return len(read.difference(members)) <= max(MOST_TENSORS, *counts)


def _few_indices(growth: Growth, members: list[int]) -> bool:
    """Whether index expressions stay small in a kernel of these nodes, given in block order.

    A path has at most `DEEPEST_FUSION` injective operators, and at most one Gather whose index
    injective operators of the kernel compute: each repeats the index expression of its operand.
    No index from data depends on more than `LARGEST_INDEX` operators, and a path has at most
    `MOST_LOOK_UPS` look-ups at such indices.
    """
    depths: dict[int, int] = {}
    nested: dict[int, int] = {}
    needed: dict[int, int] = {}
    look_ups: dict[int, int] = {}
    nodes = growth.graph.network.operators
    for position, u in enumerate(members):
        node = nodes[u]
        inside = [edge for edge in growth.graph.edges[u] if edge.source in depths]
        depths[u] = max((depths[e.source] for e in inside), default=0)
        depths[u] += growth.graph.kinds[u] is Kind.INJECTIVE
        nested[u] = max((nested[e.source] + _indexes(node, e, depths) for e in inside), default=0)
        indices = [needed[e.source] for e in inside if _is_index(node, e)]
        if any(operators.bit_count() > LARGEST_INDEX for operators in indices):
            return False
        look_ups[u] = max((look_ups[e.source] for e in inside), default=0)
        look_ups[u] += node.type in INDEXED
        # a part of a tensor in memory is a read
        is_read = not inside and growth.graph.kinds[u] is Kind.INJECTIVE
        needed[u] = 0 if is_read else 1 << position
        for edge in inside:
            needed[u] |= needed[edge.source]
    few = max(look_ups.values()) <= MOST_LOOK_UPS and max(nested.values()) <= 1
    return few and max(depths.values()) <= DEEPEST_FUSION


def _is_index(node: Node[int], edge: Edge) -> bool:
    """Whether an edge leads to an index that data decide."""
    return node.type in INDEXED and edge.operand > 0


def _indexes(node: Node[int], edge: Edge, depths: dict[int, int]) -> bool:
    """Whether an edge leads from injective operators to a Gather's index."""
    return node.type in GATHERS and edge.operand > 0 and depths[edge.source] > 0


def _elementwise(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    shape = growth.graph.shapes[v]
    if growth.anchor_kind(other) is not None:
        if growth.graph.widens(v) and not _is_rounding(growth, v, edge):
            return False
        if growth.anchor_kind(mine) is not None:
            return _same_rows(growth, edge, mine, other)
        return _epilogue(growth, v, edge, other) or _rows(growth, v, edge, other)
    if edge.shape != shape or growth.kernels[other].shape != shape:
        return growth.only_for(other, v) and growth.cheap_again(other, v)
    return growth.anchor_kind(mine) is None or growth.only_for(other, v)


def _is_rounding(growth: Growth, v: int, edge: Edge) -> bool:
    """Whether bytes that a node widens become bytes again, or are made for it alone and are float8s
    or become a result of the model, which is written wide in any case, or are few."""
    u = edge.source
    wide = at_hints(growth.graph.costs[v].result_bytes)
    roofline = growth.rules.roofline
    if roofline.longest_row and wide / roofline.bytes_per_ns <= roofline.launch_ns / 16:
        return True
    source = growth.graph.node(v).operand(0)
    alone = set(growth.graph.users[u]) == {v} and u not in growth.graph.outputs
    float8 = growth.graph.network.values[source].dtype in FLOAT8
    rounded = facts_of(growth.graph.node(u).type).converts and float8
    return (alone and (rounded or _is_result(growth, v))) or _narrows_again(growth, v)


def _is_result(growth: Growth, v: int) -> bool:
    """Whether elementwise operators, each the only user of the one before, lead to an output."""
    shape = growth.graph.shapes[v]
    for _ in range(growth.rules.max_operators):
        if v in growth.graph.outputs:
            return True
        users = set(growth.graph.users[v])
        if len(users) != 1:
            return False
        (v,) = users
        if not growth.is_elementwise(v, shape):
            return False
    return False


def _narrows_again(growth: Growth, v: int) -> bool:
    """Whether bytes that a node widens become bytes again in the same kernel.

    Otherwise the wide tensor would be written: its readers had better read the bytes. An operator
    is fused into the kernel of its last operand, so none may be computed after the node.
    """
    graph = growth.graph
    w = v
    inside = {v}
    for _ in range(growth.rules.max_operators):
        users = set(graph.users[w])
        if len(users) != 1 or w in graph.outputs:
            return False
        (w,) = users
        if not growth.is_elementwise(w, graph.shapes[v]):
            return False
        others = (edge.source for edge in graph.edges[w] if edge.source not in inside)
        if any(_is_late(growth, u, v) for u in others):
            return False
        if graph.costs[w].result_bytes <= graph.costs[v].reads[0][1]:
            return True
        inside.add(w)
    return False


def _is_late(growth: Growth, u: int, v: int) -> bool:
    """Whether a node is after node `v`, and more than elementwise on what is before it."""
    if u < v:
        return False
    if growth.graph.kinds[u] is not Kind.ELEMENTWISE:
        return True
    return any(_is_late(growth, edge.source, v) for edge in growth.graph.edges[u])


def _epilogue(growth: Growth, v: int, edge: Edge, other: int) -> bool:
    """After an anchor, unless fusing only adds a result to write."""
    shape = growth.graph.shapes[v]
    same = edge.shape == shape and growth.kernels[other].shape == shape
    return same and (not growth.escapes(edge.source) or _is_written(growth, v))


def _is_written(growth: Growth, v: int) -> bool:
    """Whether a node's result is written to memory whichever kernel computes it."""
    kinds = {growth.graph.kinds[w] for w in growth.graph.users[v]}
    return v in growth.graph.outputs or kinds <= {Kind.CONTRACTION, Kind.OPAQUE, Kind.VIEW}


def _rows(growth: Growth, v: int, edge: Edge, other: int) -> bool:
    """An operator on a reduction's result and the rows that it reduced, as in a normalisation."""
    anchor = growth.kernels[other].anchor
    shape = growth.kernels[other].shape
    full = growth.rows(anchor)
    if full is None or full != growth.graph.shapes[v] or edge.shape != shape:
        return False
    reduced = (u for u in growth.members(other) if growth.graph.shapes[u] == shape)
    return all(_used_by(growth, u, other, v) for u in reduced)


def _used_by(growth: Growth, u: int, fused: int, v: int) -> bool:
    """Whether a node's only users are `v` or in its fused set."""
    users = growth.graph.users[u]
    inside = all(w == v or growth.sets.set_of[w] == fused for w in users)
    return inside and u not in growth.graph.outputs


def _injective(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    type = growth.graph.node(v).type
    if growth.graph.shapes[v] is None or not growth.only_for(other, v):
        return False
    if growth.anchor_kind(other) is Kind.CONTRACTION:
        allowed = growth.rules.injective_epilogue and facts_of(type).permutes
        return allowed and growth.anchor_kind(mine) is None
    if growth.anchor_kind(other) is not None or not _is_single(growth, other):
        return growth.anchor_kind(mine) is None and _concatenates_rows(growth, v, edge, other)
    return not facts_of(type).repeats or growth.cheap_again(other, v)


def _concatenates_rows(growth: Growth, v: int, edge: Edge, other: int) -> bool:
    """Whether a node concatenates the rows of scattered sums with those of other tensors.

    Copying these costs less than a kernel that reads both.
    """
    anchor = growth.kernels[other].anchor
    node = growth.graph.node(v)
    values = growth.graph.network.values
    summed = anchor >= 0 and growth.graph.node(anchor).type == SEGMENT_REDUCE
    if not summed or not facts_of(node.type).concatenates:
        return False
    shape = values[node.operand(edge.operand)].shape
    rows = values[growth.graph.node(anchor).output].shape
    alike = shape == rows and _is_single(growth, other)
    by_row = len(shape) > 1 and node["axis"] == 1
    return by_row and alike and growth.kernels[other].shape == edge.shape


def _is_single(growth: Growth, fused: int) -> bool:
    """Whether each node of a fused set has results of one shape."""
    return all(growth.graph.shapes[u] is not None for u in growth.members(fused))


def _reduction(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    if edge.operand != 0 or not _is_single(growth, other):
        return False
    if growth.anchor_kind(other) is not None:
        return _same_rows(growth, edge, mine, other)
    rows = growth.graph.rows.get(v)
    if rows is None or not rows.trailing:
        whole = growth.rows(v) == growth.kernels[other].shape == edge.shape
        return growth.only_for(other, v) and (growth.light(other, MOST_RECOMPUTED) or whole)
    written_once = growth.graph.shapes[v] != rows.shape
    clips = sum(facts_of(growth.graph.node(u).type).clips for u in growth.members(other))
    light = growth.light(other, MOST_RECOMPUTED + clips)
    return growth.kernels[other].shape == edge.shape and (written_once or light)


def _same_rows(growth: Growth, edge: Edge, mine: int, other: int) -> bool:
    """Whether the kernel of a reduction reads rows that that of another one computes for it alone.

    Both reduce the same rows, as the mean and the variance of a normalisation do.
    """
    first, second = (growth.kernels[fused].anchor for fused in (other, mine))
    rows = growth.rows(second) if growth.rules.roofline.longest_row else None
    if rows is None or rows != growth.rows(first):
        return False
    if growth.graph.shapes[first] != growth.graph.shapes[second]:
        return False
    inside = {*growth.members(mine), *growth.members(other)}
    alone = all(w in inside for _, w in growth.consumers(other))
    return alone and edge.shape == rows and growth.graph.outputs.isdisjoint(growth.members(other))


def _contraction(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    small = growth.light(other, MOST_RECOMPUTED) and growth.only_for(other, v)
    free = growth.anchor_kind(other) is None
    first = growth.rules.contraction_prologue and edge.operand == 0
    return free and small and (first or _is_read_once(growth, v, edge))


def _is_read_once(growth: Growth, v: int, edge: Edge) -> bool:
    """Whether an Einsum reads each element of an operand once, as a vector and matrices are.

    Then the operand need not be written, for instance weights that a router gathers for a token.
    """
    node = growth.graph.node(v)
    if node.type != "Einsum":
        return False
    ranks = [len(growth.graph.network.values[i or 0].shape) for i in node.inputs]
    terms, _ = einsum_terms(node["equation"], ranks)
    own = terms[edge.operand]
    return len(set(own)) == len(own) and set(own) == set("".join(terms))


def _opaque(growth: Growth, v: int, edge: Edge, mine: int, other: int) -> bool:
    """Light operators that compute the indices of a sort of updates."""
    free = growth.graph.node(v).type == SCATTER_ORDER and growth.anchor_kind(other) is None
    return free and growth.light(other, MOST_RECOMPUTED) and growth.only_for(other, v)


_RULES: dict[Kind, FusionRule] = {
    Kind.ELEMENTWISE: _elementwise,
    Kind.INJECTIVE: _injective,
    Kind.REDUCTION: _reduction,
    Kind.CONTRACTION: _contraction,
    Kind.OPAQUE: _opaque,
}
