"""The fusion policy: which operators become one kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.graph.fusion.clusters import Clusters
from compiler.graph.fusion.rules import allows
from compiler.graph.fusion.state import FusionRules, Growth, Kernel
from compiler.graph.fusion.times import Times, merged_times, start_alone
from compiler.graph.operator_table import Edge, OperatorTable
from compiler.ir.operators import Kind

_ANCHORS = (Kind.CONTRACTION, Kind.REDUCTION, Kind.OPAQUE)


@dataclass(frozen=True)
class Fusion:
    """The kernels in a legal launch order, and the longest path before and after, in ns."""

    kernels: Sequence[Sequence[int]]
    path_before: int
    path_after: int


def plan_fusion(table: OperatorTable, rules: FusionRules) -> Fusion:
    """Grow kernels greedily in block order: each operator joins its producers where that helps.

    A kernel has one contraction or reduction at most, is convex, and none waits for itself.
    Unless `rules` allow it, no merge makes a path longer than the longest one without fusion.
    """
    dag = table.dag(rules.roofline)
    growth = Growth(table, rules, dag, Clusters(dag))
    ranks = dag.upward_ranks()
    limit = max(ranks, default=0)
    for v in range(len(dag)):
        _add(growth, v, ranks, limit)
    order = sorted(growth.clusters.members, key=growth.clusters.order.__getitem__)
    after = max((kernel.finish for kernel in growth.kernels.values()), default=0)
    return Fusion([growth.members(cluster) for cluster in order], limit, after)


def _add(growth: Growth, v: int, ranks: list[int], limit: int) -> None:
    growth.kernels[v] = start_alone(growth, v)
    if growth.table.nodes[v].kind in _ANCHORS:
        growth.kernels[v].anchor = v
    edges = _producers(growth, v)
    refused = [edge for edge in edges if not _join(growth, v, edge, ranks, limit)]
    if len(refused) < len(edges):  # a producer that has joined may have been what others waited for
        for edge in refused:
            _join(growth, v, edge, ranks, limit)


def _join(growth: Growth, v: int, edge: Edge, ranks: list[int], limit: int) -> bool:
    """Merge a node's kernel with a producer's where that is allowed and helps."""
    mine, other = (growth.clusters.cluster_of[u] for u in (v, edge.source))
    if mine == other:
        return True
    if not allows(growth, v, edge, mine, other):
        return False
    times = merged_times(growth, mine, other, ranks, limit)
    if times is None or not growth.clusters.can_merge(mine, other):
        return False
    _merge(growth, v, mine, other, times)
    return True


def _producers(growth: Growth, v: int) -> list[Edge]:
    """Producers that have an anchor first, then those that finish last."""

    def urgency(edge: Edge) -> tuple[bool, int, int]:
        kernel = growth.kernels[growth.clusters.cluster_of[edge.source]]
        return kernel.anchor < 0, -kernel.finish, -edge.source

    return sorted(growth.table.nodes[v].edges, key=urgency)


def _merge(growth: Growth, v: int, mine: int, other: int, times: Times) -> None:
    parts = growth.kernels.pop(mine), growth.kernels.pop(other)
    anchor = max(part.anchor for part in parts)
    merged = growth.clusters.merge(mine, other)
    shape = growth.table.nodes[v].shape
    growth.kernels[merged] = Kernel(anchor, shape, times.start, times.finish, times.deadline)
    for cluster, (start, finish) in times.delayed.items():
        growth.kernels[cluster].start, growth.kernels[cluster].finish = start, finish
