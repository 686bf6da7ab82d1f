"""Partitions of equal work whose partitions are intervals of a topological order, then refined."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from compiler.support.dag import DAG, depth_first_order

ROUNDS = 8
IMBALANCE = 1.1
"""No move makes a partition's work larger than this times the mean, or than its largest node."""


def equal_intervals(dag: DAG, order: Sequence[int], partitions: int) -> list[int]:
    """The partition of each node when an order is divided into intervals of nearly equal work."""
    ends = list(accumulate((dag.costs[v] for v in order), initial=0))
    partition_of = [0] * len(dag)
    for position, v in enumerate(order):
        middle = ends[position] + ends[position + 1]
        total = 2 * max(ends[-1], 1)
        partition_of[v] = min(partitions - 1, middle * partitions // total)
    return partition_of


def refine(dag: DAG, partition_of: list[int], limit: float) -> None:
    """Move nodes to where their neighbours are, while partitions stay below the limit, in place.

    Moreira, Popp and Schulz (SEA 2017): a node may go anywhere between its latest predecessor's
    partition and its earliest successor's, as no cycle can close there. A round is linear, and
    looks at the neighbours of what the last one moved.
    """
    work = [0] * (1 + max(partition_of, default=0))
    for v, partition in enumerate(partition_of):
        work[partition] += dag.costs[v]
    active: Sequence[int] = range(len(dag))
    for _ in range(ROUNDS):
        moved: list[int] = []
        for v in active:
            current = partition_of[v]
            best = _best_move(dag, v, partition_of, work, limit)
            if best != current:
                work[current] -= dag.costs[v]
                work[best] += dag.costs[v]
                partition_of[v] = best
                moved.append(v)
        neighbours = ((*dag.predecessors[v], *dag.successors[v]) for v in moved)
        active = sorted({v for adjacent in neighbours for v in adjacent})


def _best_move(
    dag: DAG, v: int, partition_of: Sequence[int], work: Sequence[int], limit: float
) -> int:
    """The legal partition that holds most neighbours of a node; its own unless another has more.

    Only two hold any: that of its latest predecessors, and that of its earliest successors.
    """
    current = partition_of[v]
    cost = dag.costs[v]
    earlier = [partition_of[u] for u in dag.predecessors[v]]
    later = [partition_of[w] for w in dag.successors[v]]
    low = max(earlier, default=current)
    high = min(later, default=current)
    if low == high:
        return current
    gains = {current: 0, low: earlier.count(low), high: later.count(high)}
    fits = (c for c in gains if c == current or work[c] + cost <= limit)
    # Of equal gains the node stays: it might move back and forth in every round.
    return max(fits, key=lambda c: (gains[c], c == current, -work[c]))


def partition_balanced(dag: DAG, max_nodes: int) -> list[int]:
    """Partitions of equal work: intervals of a depth-first order, refined to cross fewer edges.

    After Moreira, Popp and Schulz, "Graph Partitioning with Acyclicity Constraints" (SEA 2017).
    O(n + e) a round.
    """
    partitions = max(1, -(-len(dag) // max_nodes))
    partition_of = equal_intervals(dag, depth_first_order(dag), partitions)
    mean = sum(dag.costs) / partitions
    refine(dag, partition_of, max(IMBALANCE * mean, max(dag.costs, default=0)))
    used = sorted(set(partition_of))
    return [bisect_left(used, partition) for partition in partition_of]
