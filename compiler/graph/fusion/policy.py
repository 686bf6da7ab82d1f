"""The fusion policy: which operators become one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.graph.fusion.fused_sets import FusedSets
from compiler.graph.fusion.rules import allows
from compiler.graph.fusion.state import FusedKernel, FusionRules, Growth
from compiler.graph.fusion.times import merged_times, start_alone
from compiler.graph.operator_table import Edge, OperatorTable
from compiler.net.operators import Kind

_ANCHORS = (Kind.CONTRACTION, Kind.REDUCTION, Kind.OPAQUE)


@dataclass(frozen=True)
class Fusion:
    """The kernels in a legal launch order, and the critical path before and after, in ns."""

    kernels: Sequence[Sequence[int]]
    path_before: int
    path_after: int


def plan_fusion(table: OperatorTable, rules: FusionRules) -> Fusion:
    """Grow kernels greedily in block order: fuse each operator with its producers if that helps.

    A kernel has at most one contraction or reduction and is convex. Unless `rules` allow it, no
    merge makes a path longer than the critical path without fusion.
    """
    dag = table.dag(rules.roofline)
    growth = Growth(table, rules, dag, FusedSets(dag))
    ranks = dag.upward_ranks()
    limit = max(ranks, default=0)
    for v in range(len(dag)):
        _add(growth, v, ranks, limit)
    order = sorted(growth.sets.members, key=growth.sets.order.__getitem__)
    after = max((kernel.finish for kernel in growth.kernels.values()), default=0)
    return Fusion([growth.members(fused) for fused in order], limit, after)


def _add(growth: Growth, v: int, ranks: list[int], limit: int) -> None:
    growth.kernels[v] = start_alone(growth, v)
    if growth.table.nodes[v].kind in _ANCHORS:
        growth.kernels[v].anchor = v
    edges = _producers(growth, v)
    refused = [edge for edge in edges if not _try_merge(growth, v, edge, ranks, limit)]
    if len(refused) < len(edges):  # merging one producer may have allowed others
        for edge in refused:
            _try_merge(growth, v, edge, ranks, limit)


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
    shape = growth.table.nodes[v].shape
    growth.kernels[merged] = FusedKernel(anchor, shape, times.start, times.finish, times.deadline)
    for fused, (start, finish) in times.delayed.items():
        growth.kernels[fused].start, growth.kernels[fused].finish = start, finish
    return True


def _producers(growth: Growth, v: int) -> list[Edge]:
    """Producers that have an anchor first, then those that finish last."""

    def urgency(edge: Edge) -> tuple[bool, int, int]:
        kernel = growth.kernels[growth.sets.set_of[edge.source]]
        return kernel.anchor < 0, -kernel.finish, -edge.source

    return sorted(growth.table.nodes[v].edges, key=urgency)
