"""The minimum cut of a flow network, by Dinic's algorithm."""

from collections import deque
from collections.abc import Iterable

INFINITE = 1 << 40
"""The capacity of an edge that no minimum cut holds."""


class FlowNetwork:
    """Nodes are numbers from 0; edges have integer capacities."""

    def __init__(self, nodes: int):
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._target: list[int] = []
        self._left: list[int] = []

    def add_node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        """An edge of a capacity; several between two nodes add up."""
        for node, target, left in ((start, end, capacity), (end, start, 0)):
            self._edges[node].append(len(self._target))
            self._target.append(target)
            self._left.append(left)

    def cut(self, source: int, sink: int) -> set[int]:
        """The source's side of a minimum cut: the smallest such side."""
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return {node for node, depth in enumerate(level) if depth >= 0}
            self._saturate(source, sink, level)

    def _levels(self, source: int) -> list[int]:
        """How many edges with capacity left each node is from the source; -1 if none lead there."""
        level = [-1] * len(self._edges)
        level[source] = 0
        pending = deque([source])
        while pending:
            node = pending.popleft()
            for edge in self._edges[node]:
                target = self._target[edge]
                if self._left[edge] and level[target] < 0:
                    level[target] = level[node] + 1
                    pending.append(target)
        return level

    def _saturate(self, source: int, sink: int, level: list[int]) -> None:
        """Push flow along shortest paths until each has a full edge."""
        tried = [0] * len(self._edges)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                self._push(path)
                path, node = [], source
                continue
            edge = self._next(node, level, tried)
            if edge is not None:
                path.append(edge)
                node = self._target[edge]
            elif path:
                node = self._target[path.pop() ^ 1]
                tried[node] += 1
            else:
                return

    def _next(self, node: int, level: list[int], tried: list[int]) -> int | None:
        """The next edge of a node towards the sink that is not known to lead nowhere."""
        edges = self._edges[node]
        while tried[node] < len(edges):
            edge = edges[tried[node]]
            if self._left[edge] and level[self._target[edge]] == level[node] + 1:
                return edge
            tried[node] += 1
        return None

    def _push(self, path: Iterable[int]) -> None:
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
