"""Directed acyclic graphs as plain data: longest paths, transitive reduction, quotients.

The functions on bare adjacency lists serve schedules, too. Edges go from lower to higher numbers.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Self, TypeVar

_Number = TypeVar("_Number", int, float)
Adjacency = Sequence[Sequence[int]]
"""For each node its neighbours in one direction, successors or predecessors."""


def adjacency(count: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The successors of each of `count` nodes, in the order of the edges."""
    successors: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        successors[source].append(target)
    return successors


def reverse(neighbours: Adjacency) -> list[list[int]]:
    """The successors where predecessors are given, and the other way round; ascending."""
    edges = ((target, node) for node, targets in enumerate(neighbours) for target in targets)
    return adjacency(len(neighbours), edges)


def finish_times(costs: Sequence[_Number], predecessors: Adjacency) -> list[_Number]:
    """The cost of the longest path that ends with each node, its own cost included."""
    finish: list[_Number] = []
    for cost, sources in zip(costs, predecessors, strict=True):
        finish.append(cost + max([finish[u] for u in sources], default=0))
    return finish


def upward_ranks(costs: Sequence[_Number], successors: Adjacency) -> list[_Number]:
    """The cost of the longest path that starts with each node (HEFT's upward rank)."""
    ranks = list(costs)
    for v in reversed(range(len(ranks))):
        ranks[v] += max([ranks[w] for w in successors[v]], default=0)
    return ranks


def critical_path(costs: Sequence[_Number], successors: Adjacency) -> list[int]:
    """The nodes of a longest path by cost, from its source on; of several the first."""
    ranks = upward_ranks(costs, successors)
    path: list[int] = []
    candidates: Sequence[int] = range(len(ranks))
    while candidates:
        path.append(max(candidates, key=lambda v: (ranks[v], -v)))
        candidates = successors[path[-1]]
    return path


def without_implied(predecessors: Adjacency) -> list[tuple[int, ...]]:
    """The transitive reduction: for each node the fewest predecessors that imply all; ascending.

    O(n * e / 64) time, and n bits for each node whose last successor has not been seen yet.
    """
    last_successor = {u: v for v, sources in enumerate(predecessors) for u in sources}
    ancestors: list[int] = []
    reduced: list[tuple[int, ...]] = []
    for v, sources in enumerate(predecessors):
        implied = 0
        for u in sources:
            implied |= ancestors[u]
        fewest = [u for u in sources if not implied >> u & 1]
        reduced.append(tuple(sorted(fewest)))
        for u in fewest:
            implied |= 1 << u
        ancestors.append(implied)
        for u in sources:
            # No later node asks for these bits: on long graphs they are most of the memory.
            if last_successor[u] == v:
                ancestors[u] = 0
    return reduced


def topological_order(
    predecessors: Adjacency, successors: Adjacency, priority: Callable[[int], float]
) -> list[int]:
    """The order that always takes the ready node of the least priority, in O(n log n + e).

    Nodes on a cycle are missing from it, as are those that follow one.
    """
    waiting = [len(sources) for sources in predecessors]
    ready = [(priority(v), v) for v, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready)[1])
        for w in successors[order[-1]]:
            waiting[w] -= 1
            if not waiting[w]:
                heappush(ready, (priority(w), w))
    return order


def runs(labels: Iterable[int | None]) -> list[range]:
    """The places of neighbours that share a label, in order; those labelled None stand alone."""
    ranges: list[range] = []
    last: int | None = None
    for position, label in enumerate(labels):
        if label is None or label != last:
            ranges.append(range(position, position + 1))
        else:
            ranges[-1] = range(ranges[-1].start, position + 1)
        last = label
    return ranges


@dataclass(frozen=True, slots=True)
class DAG:
    """A weighted graph on nodes 0..n-1, numbered so that every edge goes from low to high.

    `costs` are the nodes' times in ns; the neighbours of a node are ascending and distinct.
    `shares` are the parts of the device, up to 1, that nodes occupy; empty where unknown.
    """

    costs: Sequence[int]
    successors: Sequence[Sequence[int]]
    predecessors: Sequence[Sequence[int]]
    shares: Sequence[float] = ()

    @classmethod
    def from_edges(
        cls,
        costs: Sequence[int],
        edges: Iterable[tuple[int, int]],
        shares: Sequence[float] = (),
    ) -> Self:
        """The graph of these edges; raises ValueError for one that does not go from low to high."""
        count = len(costs)
        successors: list[list[int]] = [[] for _ in costs]
        predecessors: list[list[int]] = [[] for _ in costs]
        for source, target in edges:
            if not 0 <= source < target < count:
                raise ValueError(f"edge {source} -> {target} is not between ordered nodes")
            successors[source].append(target)
        for source, targets in enumerate(successors):
            if len(targets) > 1:
                targets[:] = sorted(set(targets))
            for target in targets:
                predecessors[target].append(source)
        return cls(costs, successors, predecessors, shares)

    def __len__(self) -> int:
        return len(self.costs)

    @property
    def edges(self) -> Iterable[tuple[int, int]]:
        """Every edge once, ascending."""
        return ((u, v) for u, targets in enumerate(self.successors) for v in targets)

    def depths(self) -> list[int]:
        """The largest number of edges on a path from a source to each node."""
        depths: list[int] = []
        for sources in self.predecessors:
            depths.append(1 + max((depths[u] for u in sources), default=-1))
        return depths

    def finish_times(self) -> list[int]:
        """`finish_times` of the nodes, in ns."""
        return finish_times(self.costs, self.predecessors)

    def upward_ranks(self) -> list[int]:
        """`upward_ranks` of the nodes, in ns."""
        return upward_ranks(self.costs, self.successors)

    def longest_path(self) -> int:
        """The cost of the critical path, in ns: no schedule can be faster."""
        return max(self.finish_times(), default=0)


def depth_first_order(dag: DAG) -> list[int]:
    """A topological order that follows a path as long as it can, so that intervals are chains."""
    waiting = [len(sources) for sources in dag.predecessors]
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


def descendants(dag: DAG) -> list[int]:
    """The nodes that each node reaches, as bit sets: n * n bits."""
    sets = [0] * len(dag)
    for u in reversed(range(len(dag))):
        for v in dag.successors[u]:
            sets[u] |= sets[v] | 1 << v
    return sets


def transitive_reduction(dag: DAG) -> DAG:
    """The graph with the fewest edges that reaches the same nodes: `without_implied`."""
    reduced = without_implied(dag.predecessors)
    edges = ((u, v) for v, sources in enumerate(reduced) for u in sources)
    return DAG.from_edges(dag.costs, edges, dag.shares)


def is_order(dag: DAG, order: Sequence[int]) -> bool:
    """Whether `order` holds every node once, after all its predecessors."""
    position = {v: i for i, v in enumerate(order)}
    complete = len(order) == len(position) == len(dag)
    return complete and all(position[u] < position[v] for u, v in dag.edges)


@dataclass(frozen=True, slots=True)
class QuotientGraph:
    """A graph's partitions: `members` of each, ascending, and the graph they form."""

    members: Sequence[Sequence[int]]
    dag: DAG


def quotient(dag: DAG, labels: Sequence[Hashable]) -> QuotientGraph:
    """The partitions of nodes that share a label, numbered in a topological order.

    Partitions keep the order of their first nodes as far as edges allow; costs are sums. Raises
    ValueError where partitions depend on each other in a cycle.
    """
    members: dict[Hashable, list[int]] = {}
    for v, label in enumerate(labels):
        members.setdefault(label, []).append(v)
    groups = list(members.values())
    if len(groups) == len(dag):
        return QuotientGraph(groups, dag)
    index = {label: i for i, label in enumerate(members)}
    ends = ((index[labels[u]], index[labels[v]]) for u, v in dag.edges)
    edges = {(a, b) for a, b in ends if a != b}
    predecessors = adjacency(len(groups), ((b, a) for a, b in edges))
    order = topological_order(predecessors, adjacency(len(groups), edges), lambda group: group)
    if len(order) != len(groups):
        raise ValueError("partitions wait for each other in a cycle")
    number = {group: i for i, group in enumerate(order)}
    costs = [sum(dag.costs[v] for v in groups[group]) for group in order]
    shares = [_share(dag, groups[group]) for group in order] if dag.shares else ()
    renumbered = ((number[a], number[b]) for a, b in edges)
    return QuotientGraph(
        [groups[group] for group in order], DAG.from_edges(costs, renumbered, shares)
    )


def _share(dag: DAG, nodes: Sequence[int]) -> float:
    """The mean part of the device that nodes occupy when run one after another."""
    total = sum(dag.costs[v] for v in nodes)
    return sum(dag.costs[v] * dag.shares[v] for v in nodes) / total if total else 0.0


def subgraph(dag: DAG, nodes: Sequence[int]) -> DAG:
    """The induced subgraph of some nodes, given in a topological order."""
    number = {v: i for i, v in enumerate(nodes)}
    edges = ((number[u], number[v]) for u in nodes for v in dag.successors[u] if v in number)
    shares = [dag.shares[v] for v in nodes] if dag.shares else ()
    return DAG.from_edges([dag.costs[v] for v in nodes], edges, shares)
