"""Sets of a DAG's nodes that can be fused as long as the graph of the sets stays acyclic."""

from collections.abc import Iterator, Sequence

from compiler.support.dag import DAG

_SEARCH_LIMIT = 512


class FusedSets:
    """A partition of a DAG's nodes into fused sets, with a topological order of the sets.

    Each node starts alone. `order[s]` is the position of a set, and edges between sets lead to
    larger positions. A merge repairs positions locally (Pearce and Kelly, ACM JEA 11, 2007).
    """

    def __init__(self, dag: DAG) -> None:
        self.dag = dag
        self.set_of = list(range(len(dag)))
        self.members: dict[int, list[int]] = {v: [v] for v in range(len(dag))}
        self.order = list(range(len(dag)))

    def successors(self, fused: int) -> Iterator[int]:
        """The sets that depend on this one, possibly repeated."""
        return self._neighbours(fused, self.dag.successors)

    def predecessors(self, fused: int) -> Iterator[int]:
        """The sets that this one depends on, possibly repeated."""
        return self._neighbours(fused, self.dag.predecessors)

    def _neighbours(self, fused: int, edges: Sequence[Sequence[int]]) -> Iterator[int]:
        for v in self.members[fused]:
            for w in edges[v]:
                if (other := self.set_of[w]) != fused:
                    yield other

    def between(self, low: int, high: int) -> set[int] | None:
        """The sets ordered between two that depend on the lower one.

        None if the higher one depends on one of them, so that merging would make a cycle, or if
        there are too many to search in reasonable time.
        """
        between: set[int] = set()
        stack = [low]
        while stack:
            fused = stack.pop()
            for other in self.successors(fused):
                if other == high and fused != low:
                    return None
                if self.order[other] < self.order[high] and other not in between:
                    between.add(other)
                    stack.append(other)
                    if len(between) > _SEARCH_LIMIT:
                        return None
        return between

    def can_merge(self, a: int, b: int) -> bool:
        """Whether merging two sets keeps the graph acyclic (False also if the search gave up)."""
        low, high = sorted((a, b), key=self.order.__getitem__)
        return self.between(low, high) is not None

    def merge(self, a: int, b: int) -> int:
        """Merge two sets for which `can_merge` holds; the merged set has the lower one's number."""
        low, high = sorted((a, b), key=self.order.__getitem__)
        after = self.between(low, high)
        assert after is not None
        self._make_room(low, high, after)
        moved = self.members.pop(high)
        for v in moved:
            self.set_of[v] = low
        self.members[low] = sorted(self.members[low] + moved)
        return low

    def _make_room(self, low: int, high: int, after: set[int]) -> None:
        """Order `low` after all sets that `high` depends on, and before all of `after`."""
        if not after:
            self.order[low] = self.order[high]
            return
        # The sets ordered between the two that the higher one depends on.
        between: set[int] = set()
        stack = [high]
        while stack:
            for other in self.predecessors(stack.pop()):
                if self.order[other] > self.order[low] and other not in between:
                    between.add(other)
                    stack.append(other)
        before = between
        position = self.order.__getitem__
        sequence = [*sorted(before, key=position), low, *sorted(after, key=position)]
        positions = sorted([*(position(s) for s in sequence), position(high)])
        del positions[len(before)]
        for fused, free in zip(sequence, positions, strict=True):
            self.order[fused] = free
