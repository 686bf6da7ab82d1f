"""Clusters of a graph's nodes that may be merged as long as none waits for itself."""

from collections.abc import Iterator, Sequence

from compiler.dag import DAG

_SEARCH_LIMIT = 512


class Clusters:
    """A clustering of a DAG with a topological order of the clusters, kept up to date.

    Each node starts alone. `order[c]` is a cluster's place: edges between clusters lead to larger
    places. Places are repaired locally after a merge, as Pearce and Kelly (ACM JEA 11, 2007) do.
    """

    def __init__(self, dag: DAG) -> None:
        self.dag = dag
        self.cluster_of = list(range(len(dag)))
        self.members: dict[int, list[int]] = {v: [v] for v in range(len(dag))}
        self.order = list(range(len(dag)))

    def successors(self, cluster: int) -> Iterator[int]:
        """The clusters that wait for this one, possibly repeated."""
        return self._neighbours(cluster, self.dag.successors)

    def predecessors(self, cluster: int) -> Iterator[int]:
        """The clusters that this one waits for, possibly repeated."""
        return self._neighbours(cluster, self.dag.predecessors)

    def _neighbours(self, cluster: int, edges: Sequence[Sequence[int]]) -> Iterator[int]:
        for v in self.members[cluster]:
            for w in edges[v]:
                if (other := self.cluster_of[w]) != cluster:
                    yield other

    def between(self, low: int, high: int) -> set[int] | None:
        """The clusters placed between two that wait for the lower one.

        None if the higher one waits for one of them, so that merging would close a circle, or if
        there are too many to search in reasonable time.
        """
        found: set[int] = set()
        stack = [low]
        while stack:
            cluster = stack.pop()
            for other in self.successors(cluster):
                if other == high and cluster != low:
                    return None
                if self.order[other] < self.order[high] and other not in found:
                    found.add(other)
                    stack.append(other)
                    if len(found) > _SEARCH_LIMIT:
                        return None
        return found

    def can_merge(self, a: int, b: int) -> bool:
        """Whether the two may become one (False also where the search was given up)."""
        low, high = sorted((a, b), key=self.order.__getitem__)
        return self.between(low, high) is not None

    def merge(self, a: int, b: int) -> int:
        """Merge two clusters for which `can_merge` holds; returns the merged one, the lower."""
        low, high = sorted((a, b), key=self.order.__getitem__)
        after = self.between(low, high)
        assert after is not None
        self._make_room(low, high, after)
        moved = self.members.pop(high)
        for v in moved:
            self.cluster_of[v] = low
        self.members[low] = sorted(self.members[low] + moved)
        return low

    def _make_room(self, low: int, high: int, after: set[int]) -> None:
        """Give `low` a place behind all that `high` waits for and before all of `after`."""
        if not after:
            self.order[low] = self.order[high]
            return
        before = self._waited_for(low, high)
        place = self.order.__getitem__
        sequence = [*sorted(before, key=place), low, *sorted(after, key=place)]
        places = sorted([*(place(c) for c in sequence), place(high)])
        del places[len(before)]
        for cluster, free in zip(sequence, places, strict=True):
            self.order[cluster] = free

    def _waited_for(self, low: int, high: int) -> set[int]:
        """The clusters placed between the two that the higher one waits for."""
        found: set[int] = set()
        stack = [high]
        while stack:
            for other in self.predecessors(stack.pop()):
                if self.order[other] > self.order[low] and other not in found:
                    found.add(other)
                    stack.append(other)
        return found
