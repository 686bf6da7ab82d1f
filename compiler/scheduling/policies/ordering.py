"""Policies that choose the order in which the partitions of a graph are launched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from compiler.scheduling.policies.registry import PolicyRegistry
from compiler.support.dag import DAG, topological_order


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a partition on the device while it runs.

    `memory_bound` says whether bytes or FLOPs bound its time; `share` is the largest fraction
    that it takes of any resource of the device.
    """

    memory_bound: bool
    share: float


Ordering = Callable[[DAG, Sequence[Demand]], list[int]]
"""Gives the nodes in launch order, each after its predecessors; one demand a node."""

ORDERINGS: PolicyRegistry[Ordering] = PolicyRegistry("order")
"""Every known policy by its name."""


@ORDERINGS.register("source")
def order_source(dag: DAG, demands: Sequence[Demand]) -> list[int]:
    """The order in which the partitions are written."""
    del demands
    return list(range(len(dag)))


@ORDERINGS.register("critical-path")
def order_critical_path(dag: DAG, demands: Sequence[Demand]) -> list[int]:
    """Of the ready nodes, the one with the longest path to the end first: HEFT's order.

    Topcuoglu et al. (IEEE TPDS 13(3), 2002), section 5. O(n log n + e).
    """
    del demands
    ranks = dag.upward_ranks()
    return topological_order(dag.predecessors, dag.successors, lambda v: -ranks[v])


@ORDERINGS.register("opara")
def order_opara(dag: DAG, demands: Sequence[Demand]) -> list[int]:
    """Opara (IEEE TC 2024), Algorithm 2: overlap memory-bound nodes with compute-bound ones.

    Two ready lists alternate while both hold nodes; within a list the least demand goes first.
    O(n log n + e).
    """
    waiting = [len(predecessors) for predecessors in dag.predecessors]
    # Indexed by whether a node is memory-bound.
    ready: tuple[list[tuple[float, int]], list[tuple[float, int]]] = ([], [])
    for v in (v for v, count in enumerate(waiting) if not count):
        heappush(ready[demands[v].memory_bound], (demands[v].share, v))
    order: list[int] = []
    turn = True
    while ready[0] or ready[1]:
        turn = not turn if ready[not turn] else turn
        v = heappop(ready[turn])[1]
        order.append(v)
        for w in _released(dag, v, waiting):
            heappush(ready[demands[w].memory_bound], (demands[w].share, w))
    return order


def _released(dag: DAG, v: int, waiting: list[int]) -> list[int]:
    for w in dag.successors[v]:
        waiting[w] -= 1
    return [w for w in dag.successors[v] if waiting[w] == 0]
