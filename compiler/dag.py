"""Directed acyclic graphs of plain data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Self


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
        for before in self.predecessors:
            depths.append(1 + max((depths[u] for u in before), default=-1))
        return depths

    def finish_times(self) -> list[int]:
        """The cost of the longest path that ends with each node, in ns, its own cost included."""
        finish: list[int] = []
        for cost, before in zip(self.costs, self.predecessors, strict=True):
            finish.append(cost + max((finish[u] for u in before), default=0))
        return finish

    def upward_ranks(self) -> list[int]:
        """The cost of the longest path that starts with each node, in ns (HEFT's upward rank)."""
        ranks = [0] * len(self)
        for v in reversed(range(len(self))):
            ranks[v] = self.costs[v] + max((ranks[w] for w in self.successors[v]), default=0)
        return ranks

    def longest_path(self) -> int:
        """The cost of the critical path, in ns: no schedule can be faster."""
        return max(self.finish_times(), default=0)


def reaches(dag: DAG, source: int, target: int) -> bool:
    """Whether a path of at least one edge leads from `source` to `target`."""
    seen = {source}
    stack = [source]
    while stack:
        for v in dag.successors[stack.pop()]:
            if v == target:
                return True
            if v < target and v not in seen:
                seen.add(v)
                stack.append(v)
    return False


def descendants(dag: DAG) -> list[int]:
    """The nodes that each node reaches, as bit sets: n * n bits."""
    sets = [0] * len(dag)
    for u in reversed(range(len(dag))):
        for v in dag.successors[u]:
            sets[u] |= sets[v] | 1 << v
    return sets


def transitive_reduction(dag: DAG) -> DAG:
    """The graph with the fewest edges that reaches the same nodes, in O(n * e / 64)."""
    sets = descendants(dag)
    edges: list[tuple[int, int]] = []
    for u, targets in enumerate(dag.successors):
        covered = 0
        for v in targets:
            if not covered >> v & 1:
                edges.append((u, v))
            covered |= sets[v]
    return DAG.from_edges(dag.costs, edges, dag.shares)


def is_convex(dag: DAG, nodes: Iterable[int]) -> bool:
    """Whether all paths between two of the nodes are inside."""
    inside = set(nodes)
    last = max(inside, default=0)
    seen: set[int] = set()
    stack = [v for u in inside for v in dag.successors[u] if v not in inside]
    while stack:
        u = stack.pop()
        if u in inside:
            return False
        if u < last and u not in seen:
            seen.add(u)
            stack.extend(dag.successors[u])
    return True


def is_order(dag: DAG, order: Sequence[int]) -> bool:
    """Whether `order` holds every node once, after all its predecessors."""
    position = {v: i for i, v in enumerate(order)}
    complete = len(order) == len(position) == len(dag)
    return complete and all(position[u] < position[v] for u, v in dag.edges)


@dataclass(frozen=True, slots=True)
class Quotient:
    """The quotient graph of a DAG's units: `members` of each, ascending, and the edges between."""

    members: Sequence[Sequence[int]]
    dag: DAG


def quotient(dag: DAG, unit_of: Sequence[int]) -> Quotient:
    """The quotient by units, the nodes with one number in `unit_of`, in a topological order.

    Units keep the order of their first nodes as far as edges allow; costs are sums. Raises
    ValueError if the quotient is cyclic.
    """
    members: dict[int, list[int]] = {}
    for v, unit in enumerate(unit_of):
        members.setdefault(unit, []).append(v)
    if len(members) == len(dag):
        return Quotient(list(members.values()), dag)
    edges = {(unit_of[u], unit_of[v]) for u, v in dag.edges if unit_of[u] != unit_of[v]}
    order = _order_units(members, edges)
    number = {unit: i for i, unit in enumerate(order)}
    costs = [sum(dag.costs[v] for v in members[unit]) for unit in order]
    shares = [_share(dag, members[unit]) for unit in order] if dag.shares else ()
    renumbered = ((number[a], number[b]) for a, b in edges)
    return Quotient([members[unit] for unit in order], DAG.from_edges(costs, renumbered, shares))


def _share(dag: DAG, nodes: Sequence[int]) -> float:
    """The mean part of the device that nodes occupy when run one after another."""
    total = sum(dag.costs[v] for v in nodes)
    return sum(dag.costs[v] * dag.shares[v] for v in nodes) / total if total else 0.0


def _order_units(members: dict[int, list[int]], edges: Iterable[tuple[int, int]]) -> list[int]:
    successors: dict[int, list[int]] = {unit: [] for unit in members}
    waiting = dict.fromkeys(members, 0)
    for a, b in edges:
        successors[a].append(b)
        waiting[b] += 1
    ready = [(members[unit][0], unit) for unit, count in waiting.items() if count == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        unit = heappop(ready)[1]
        order.append(unit)
        for other in successors[unit]:
            waiting[other] -= 1
            if waiting[other] == 0:
                heappush(ready, (members[other][0], other))
    if len(order) != len(members):
        raise ValueError("the graph of the units is cyclic")
    return order


def subgraph(dag: DAG, nodes: Sequence[int]) -> DAG:
    """The induced subgraph of some nodes, given in a topological order."""
    number = {v: i for i, v in enumerate(nodes)}
    edges = ((number[u], number[v]) for u in nodes for v in dag.successors[u] if v in number)
    shares = [dag.shares[v] for v in nodes] if dag.shares else ()
    return DAG.from_edges([dag.costs[v] for v in nodes], edges, shares)
