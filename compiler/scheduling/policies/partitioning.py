"""Policies that divide a graph into partitions, each launched as one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from compiler.scheduling.policies.balanced import partition_balanced
from compiler.scheduling.policies.registry import PolicyRegistry
from compiler.support.dag import DAG

Partitioning = Callable[[DAG, int], list[int]]
"""Gives each node its partition: numbered from 0, in a topological order of partitions.

The second argument is about the largest number of nodes a partition should hold.
"""

PARTITIONINGS: PolicyRegistry[Partitioning] = PolicyRegistry("partition")
"""Every known policy by its name."""


@dataclass
class _Ready:
    """The nodes whose predecessors all have a partition, from two points of view.

    A master is the shallowest node. A companion adds the fewest edges between partitions: its
    outgoing edges, less those that it takes in from the partition that grows.
    """

    dag: DAG
    depths: list[int]
    masters: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    companions: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    local: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def key(self, v: int, internal: int) -> tuple[int, ...]:
        """The order of companions: added edges, then as for masters; the node comes last."""
        leaving = len(self.dag.successors[v])
        return leaving - internal, self.depths[v], len(self.dag.predecessors[v]), v

    def release(self, v: int, internal: int) -> None:
        """Add a node that has `internal` predecessors in the partition that grows."""
        heappush(self.local, self.key(v, internal))

    def settle(self) -> None:
        """Forget the finished partition: nodes it released and left are like any other."""
        for *_, v in self.local:
            leaving, depth, fan_in, _ = self.key(v, 0)
            heappush(self.masters, (depth, fan_in, leaving, v))
            heappush(self.companions, (leaving, depth, fan_in, v))
        self.local.clear()

    def pop_master(self, part_of: list[int]) -> int | None:
        """Take the next master, or None when no node is left."""
        return _pop(self.masters, part_of)

    def pop_companion(self, part_of: list[int]) -> int | None:
        """Take the next companion, or None when no node is ready."""
        while self.companions and part_of[self.companions[0][-1]] >= 0:
            heappop(self.companions)
        outside = self.companions and (not self.local or self.companions[0] < self.local[0])
        return _pop(self.companions if outside else self.local, part_of)


def _pop(heap: list[tuple[int, ...]], part_of: list[int]) -> int | None:
    while heap:
        v = heappop(heap)[-1]
        if part_of[v] < 0:
            return v
    return None


@PARTITIONINGS.register("ppd")
def partition_ppd(dag: DAG, max_nodes: int) -> list[int]:
    """PPD (ACM TODAES 31(2) art. 20), Algorithm 1: partitions of equal work with few edges between.

    Partitions grow while their work is below `max_nodes` times the mean cost. Every node is added
    after its predecessors, so partitions never wait for each other in a cycle. O((n + e) log n).
    """
    threshold = sum(dag.costs) * max_nodes / max(len(dag), 1)
    partition_of = [-1] * len(dag)
    waiting = [len(predecessors) for predecessors in dag.predecessors]
    ready = _Ready(dag, dag.depths())
    for v in (v for v, count in enumerate(waiting) if count == 0):
        ready.release(v, 0)
    ready.settle()
    partition = 0
    while (master := ready.pop_master(partition_of)) is not None:
        work = 0
        node = master
        while node is not None:
            partition_of[node] = partition
            work += dag.costs[node]
            _release_successors(dag, node, waiting, partition_of, ready)
            node = ready.pop_companion(partition_of) if work < threshold else None
        ready.settle()
        partition += 1
    return partition_of


def _release_successors(
    dag: DAG, node: int, waiting: list[int], partition_of: list[int], ready: _Ready
) -> None:
    for v in dag.successors[node]:
        waiting[v] -= 1
        if waiting[v] == 0:
            predecessors = dag.predecessors[v]
            ready.release(v, sum(partition_of[u] == partition_of[node] for u in predecessors))


@PARTITIONINGS.register("none")
def partition_none(dag: DAG, max_nodes: int) -> list[int]:
    """A partition for every node, whatever `max_nodes` says."""
    del max_nodes
    return list(range(len(dag)))


PARTITIONINGS.register("balanced")(partition_balanced)
