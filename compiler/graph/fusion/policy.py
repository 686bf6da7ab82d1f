"""The fusion policy: which operators become one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.graph.cost import estimate
from compiler.graph.fusion.fused_sets import FusedSets
from compiler.graph.fusion.fusion_graph import Edge, FusionGraph
from compiler.graph.fusion.rules import allows
from compiler.graph.fusion.state import NEVER, FusedKernel, FusionRules, Growth
from compiler.net.operators import Kind, facts_of

_UPDATE_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Times:
    """Start, finish and deadline of the merged kernel; start and finish of delayed ones; in ns."""

    start: int
    finish: int
    deadline: int
    delayed: dict[int, tuple[int, int]]


def merged_times(
    growth: Growth, mine: int, other: int, ranks: list[int], limit: int
) -> Times | None:
    """The times after a merge, or None if it delays other kernels too much.

    No other kernel may get an operand later by more than the time of the launch that is saved, and
    no path may become longer than `limit`; `ranks` are the nodes' upward ranks without fusion. What
    only widens bytes is worth any delay: it would write several times what it reads.
    """
    sets = growth.sets
    before = {*sets.predecessors(mine), *sets.predecessors(other)} - {mine, other}
    start = max((growth.kernels[c].finish for c in before), default=0)
    members = [*growth.members(other), *growth.members(mine)]
    work = growth.graph.work(members)
    finish = start + estimate(work, growth.rules.roofline)
    deadline = min(_deadline(growth, other, mine), _deadline(growth, mine, other))
    alone = growth.kernels[mine].finish + growth.rules.roofline.launch_ns
    times = Times(start, finish, deadline, {})
    if growth.rules.allow_longer_path or growth.widens(other):
        return times if _delay(growth, (mine, other), times, ranks, NEVER) else None
    late = finish > min(deadline, alone)
    return None if late or not _delay(growth, (mine, other), times, ranks, limit) else times


def _deadline(growth: Growth, fused: int, partner: int) -> int:
    """The latest finish of a fused set after a merge with its partner."""
    kernel = growth.kernels[fused]
    set_of = growth.sets.set_of
    for u, w in growth.consumers(fused):
        if set_of[w] != partner and growth.escapes(u):
            return min(kernel.deadline, kernel.finish + growth.rules.roofline.launch_ns)
    return kernel.deadline


def _delay(
    growth: Growth, merged: tuple[int, int], times: Times, ranks: list[int], limit: int
) -> bool:
    """Collect the fused sets that start later; False if a path becomes too long."""
    pending = [(fused, times.finish) for fused in merged]
    while pending:
        fused, finish = pending.pop()
        if finish > limit:
            return False
        for w in growth.dependents(fused):
            waiting = growth.sets.set_of[w]
            if waiting in merged:
                continue
            kernel = growth.kernels.get(waiting)
            if kernel is None:
                if finish + ranks[w] > limit:
                    return False
            elif finish > times.delayed.get(waiting, (kernel.start, 0))[0]:
                end = finish + kernel.finish - kernel.start
                times.delayed[waiting] = (finish, end)
                if len(times.delayed) > _UPDATE_LIMIT:
                    return False
                pending.append((waiting, end))
    return True


_ANCHORS = (Kind.CONTRACTION, Kind.REDUCTION, Kind.OPAQUE)


@dataclass(frozen=True)
class Fusion:
    """The kernels in a legal launch order, and the critical path before and after, in ns."""

    kernels: Sequence[Sequence[int]]
    path_before: int
    path_after: int


def plan_fusion(graph: FusionGraph, rules: FusionRules) -> Fusion:
    """Grow kernels greedily in block order: fuse each operator with its producers if that helps.

    A kernel has at most one contraction or reduction and is convex. Unless `rules` allow it, no
    merge makes a path longer than the critical path without fusion.
    """
    dag = graph.dag(rules.roofline)
    growth = Growth(graph, rules, dag, FusedSets(dag))
    ranks = dag.upward_ranks()
    limit = max(ranks, default=0)
    for v in graph.kinds:
        _add(growth, v, ranks, limit)
    order = sorted(growth.kernels, key=growth.sets.order.__getitem__)
    after = max((kernel.finish for kernel in growth.kernels.values()), default=0)
    return Fusion([growth.members(fused) for fused in order], limit, after)


def _add(growth: Growth, v: int, ranks: list[int], limit: int) -> None:
    kernels = growth.kernels
    start = max((kernels[c].finish for c in growth.sets.predecessors(v)), default=0)
    growth.kernels[v] = FusedKernel(-1, growth.graph.shapes[v], start, start + growth.dag.costs[v])
    if growth.graph.kinds[v] in _ANCHORS:
        growth.kernels[v].anchor = v
    edges = _producers(growth, v)
    refused = [edge for edge in edges if not _try_merge(growth, v, edge, ranks, limit)]
    if len(refused) < len(edges):  # merging one producer may have allowed others
        for edge in refused:
            _try_merge(growth, v, edge, ranks, limit)
        if growth.rules.roofline.few_terms:
            while _absorb(growth, v, ranks, limit):
                pass


def _absorb(growth: Growth, v: int, ranks: list[int], limit: int) -> bool:
    """Merge a kernel that several operators of a node's kernel read, and no others; False if none.

    Each of them was refused while the others were in separate kernels. A Concat stays apart: its
    operands may be written in place.
    """
    set_of = growth.sets.set_of
    mine = set_of[v]
    edges = [(w, e) for w in growth.members(mine) for e in growth.graph.edges[w]]
    for other in dict.fromkeys(set_of[edge.source] for _, edge in edges):
        readers = growth.readers(other)
        if other == mine or len(readers) == 1 or not readers.issubset(growth.members(mine)):
            continue
        if any(facts_of(growth.graph.node(u).type).concatenates for u in growth.members(other)):
            continue
        growth.joint = frozenset(readers)
        own = [(w, edge) for w, edge in edges if set_of[edge.source] == other]
        allowed = all(allows(growth, w, edge, mine, other) for w, edge in own)
        merged = allowed and _try_merge(growth, *own[-1], ranks, limit)
        growth.joint = frozenset()
        if merged:
            return True
    return False


def _try_merge(growth: Growth, v: int, edge: Edge, ranks: list[int], limit: int) -> bool:
    """Merge a node's kernel with a producer's if that is allowed and helps."""
    mine, other = (growth.sets.set_of[u] for u in (v, edge.source))
    if mine == other:
        return True
    if not allows(growth, v, edge, mine, other):
        return False
    times = merged_times(growth, mine, other, ranks, limit)
    if times is None or not growth.sets.can_merge(mine, other):
        return False
    parts = growth.kernels.pop(mine), growth.kernels.pop(other)
    anchor = max(part.anchor for part in parts)
    merged = growth.sets.merge(mine, other)
    shape = growth.graph.shapes[max(growth.members(merged))]
    growth.kernels[merged] = FusedKernel(anchor, shape, times.start, times.finish, times.deadline)
    for fused, (start, finish) in times.delayed.items():
        growth.kernels[fused].start, growth.kernels[fused].finish = start, finish
    return True


def _producers(growth: Growth, v: int) -> list[Edge]:
    """Producers that have an anchor first, then those that finish last."""

    def urgency(edge: Edge) -> tuple[bool, int, int]:
        kernel = growth.kernels[growth.sets.set_of[edge.source]]
        return kernel.anchor < 0, -kernel.finish, -edge.source

    return sorted(growth.graph.edges[v], key=urgency)
