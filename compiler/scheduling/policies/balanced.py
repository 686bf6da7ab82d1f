"""Partitions of equal work whose clusters are intervals of a topological order, then refined."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from compiler.dag import DAG

ROUNDS = 8
IMBALANCE = 1.1
"""No move makes a cluster's work larger than this times the mean, or than its largest node."""


def depth_first_order(dag: DAG) -> list[int]:
    """A topological order that follows a path as long as it can, so that intervals are chains."""
    waiting = [len(before) for before in dag.predecessors]
    stack = [v for v in reversed(range(len(dag))) if not waiting[v]]
    order: list[int] = []
    while stack:
        v = stack.pop()
        order.append(v)
        for w in reversed(dag.successors[v]):
            waiting[w] -= 1
            if not waiting[w]:
                stack.append(w)
    return order


def equal_intervals(dag: DAG, order: Sequence[int], clusters: int) -> list[int]:
    """The cluster of each node when an order is cut where the work is nearest to equal."""
    ends = list(accumulate((dag.costs[v] for v in order), initial=0))
    cluster_of = [0] * len(dag)
    for place, v in enumerate(order):
        middle = ends[place] + ends[place + 1]
        total = 2 * max(ends[-1], 1)
        cluster_of[v] = min(clusters - 1, middle * clusters // total)
    return cluster_of


def refine(dag: DAG, cluster_of: list[int], limit: float) -> None:
    """Move nodes to where their neighbours are, while clusters stay below the limit, in place.

    Moreira, Popp and Schulz (SEA 2017): a node may go anywhere between its latest predecessor's
    cluster and its earliest successor's, as no circle can close there. A round is linear, and
    looks at the neighbours of what the last one moved.
    """
    work = [0] * (1 + max(cluster_of, default=0))
    for v, cluster in enumerate(cluster_of):
        work[cluster] += dag.costs[v]
    active: Sequence[int] = range(len(dag))
    for _ in range(ROUNDS):
        moved: list[int] = []
        for v in active:
            here, best = cluster_of[v], _best_move(dag, v, cluster_of, work, limit)
            if best != here:
                work[here] -= dag.costs[v]
                work[best] += dag.costs[v]
                cluster_of[v] = best
                moved.append(v)
        neighbours = ((*dag.predecessors[v], *dag.successors[v]) for v in moved)
        active = sorted({v for near in neighbours for v in near})


def _best_move(
    dag: DAG, v: int, cluster_of: Sequence[int], work: Sequence[int], limit: float
) -> int:
    """The legal cluster that holds most neighbours of a node; its own unless another has more.

    Only two hold any: that of its latest predecessors, and that of its earliest successors.
    """
    here, cost = cluster_of[v], dag.costs[v]
    before = [cluster_of[u] for u in dag.predecessors[v]]
    after = [cluster_of[w] for w in dag.successors[v]]
    low, high = max(before, default=here), min(after, default=here)
    if low == high:
        return here
    gains = {here: 0, low: before.count(low), high: after.count(high)}
    fits = (c for c in gains if c == here or work[c] + cost <= limit)
    return max(fits, key=lambda c: (gains[c], c == here, -work[c]))


def partition_balanced(dag: DAG, max_nodes: int) -> list[int]:
    """Clusters of equal work: intervals of a depth-first order, refined to cut fewer edges.

    After Moreira, Popp and Schulz, "Graph Partitioning with Acyclicity Constraints" (SEA 2017).
    O(n + e) a round.
    """
    clusters = max(1, -(-len(dag) // max_nodes))
    cluster_of = equal_intervals(dag, depth_first_order(dag), clusters)
    mean = sum(dag.costs) / clusters
    refine(dag, cluster_of, max(IMBALANCE * mean, max(dag.costs, default=0)))
    used = sorted(set(cluster_of))
    return [bisect_left(used, cluster) for cluster in cluster_of]
