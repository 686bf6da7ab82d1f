"""The fusion policy's state: fused sets, with what its rules ask about them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import prod

from compiler.graph.cost import CPU, Roofline
from compiler.graph.fusion.fused_sets import FusedSets
from compiler.graph.fusion.fusion_graph import FusionGraph
from compiler.net.attributes import Shape
from compiler.net.operators import Kind
from compiler.support.dag import DAG
from compiler.tensors.extents import at_hints

NEVER = 1 << 62

MOST_FUSED_OPERATORS = 128
"""The most operators of a kernel: beyond, LLVM's time grows faster than linearly."""

MOST_RECOMPUTED = 4
"""The operators that may be computed again for each element of a result, if they are cheap."""

INDEX_FLOPS = 8
"""How many operations of float32 a GPU computes in the time of one of its 64-bit integers."""

LONG_BYTES = 8
"""The bytes of a number of 64 bits."""

WIDENING = 4
"""The most operators by which bytes become the numbers that they stand for."""

MOST_TENSORS = 64
"""The most tensors of a Concat or Split in one kernel, and the most that a fused kernel reads."""


@dataclass(frozen=True, slots=True)
class FusionRules:
    """The policy's options; see those of the pass `fuse-operators`."""

    max_operators: int = 32
    contraction_prologue: bool = False
    injective_epilogue: bool = False
    allow_longer_path: bool = False
    roofline: Roofline = CPU


@dataclass(slots=True)
class FusedKernel:
    """A fused set's state: `anchor` is -1 without one, `shape` that of its epilogue.

    `start` and `finish` are times (ns) with unlimited streams; `deadline` is the latest finish
    that does not delay users of only some of the results.
    """

    anchor: int
    shape: Shape | None
    start: int
    finish: int
    deadline: int = NEVER


@dataclass
class Growth:
    """The fused sets so far, with the kernel of each by its number.

    Nodes that are `joint` are asked together whether a kernel may be theirs.
    """

    graph: FusionGraph
    rules: FusionRules
    dag: DAG
    sets: FusedSets
    kernels: dict[int, FusedKernel] = field(default_factory=dict[int, FusedKernel])
    joint: frozenset[int] = frozenset()
    _escaping: dict[int, bool] = field(default_factory=dict[int, bool])

    def members(self, fused: int) -> list[int]:
        """The nodes of a fused set, ascending."""
        return self.sets.members[fused]

    def anchor_kind(self, fused: int) -> Kind | None:
        """The kind of a fused set's anchor, None without one."""
        anchor = self.kernels[fused].anchor
        return self.graph.kinds[anchor] if anchor >= 0 else None

    def consumers(self, fused: int) -> Iterator[tuple[int, int]]:
        """Pairs of a member and a node outside that uses it."""
        for u in self.members(fused):
            for w in self.graph.users[u]:
                if self.sets.set_of[w] != fused:
                    yield u, w

    def dependents(self, fused: int) -> Iterator[int]:
        """The nodes outside that follow the fused set: users of its results, and contractions that
        wait for the device."""
        for u in self.members(fused):
            for w in self.dag.successors[u]:
                if self.sets.set_of[w] != fused:
                    yield w

    def readers(self, fused: int) -> set[int]:
        """The nodes outside that use the fused set's results."""
        return {w for _, w in self.consumers(fused)}

    def only_for(self, fused: int, v: int) -> bool:
        """Whether node `v` is the only user of the fused set's results, alone or with `joint`."""
        yields = not self.graph.outputs.isdisjoint(self.members(fused))
        return not yields and self.readers(fused) <= {v, *self.joint}

    def light(self, fused: int, most: int) -> bool:
        """Whether the fused set has at most `most` operators, all cheap enough to recompute."""
        members = self.members(fused)
        return len(members) <= most and all(self.graph.costs[u].light for u in members)

    def cheap_again(self, fused: int, v: int) -> bool:
        """Whether each element of a node's result may compute what the fused set has for it.

        Such are few cheap operators, and on GPUs all that takes less than half a launch more.
        """
        if self.light(fused, MOST_RECOMPUTED):
            return True
        shape = self.kernels[fused].shape
        if shape is None or not self.rules.roofline.longest_row:
            return False
        each = sum(self._flops_an_element(u) for u in self.members(fused))
        more = max(0, at_hints(prod(self.graph.shapes[v] or ())) - at_hints(prod(shape)))
        roofline = self.rules.roofline
        return more * each / roofline.flops_per_ns <= roofline.launch_ns / 2

    def _flops_an_element(self, u: int) -> int:
        """How many operations of float32 take the time of an element of a node's result."""
        own = self.graph.costs[u]
        elements = max(1, at_hints(prod(self.graph.shapes[u] or ())))
        wide = at_hints(own.result_bytes) >= LONG_BYTES * elements
        return max(1, at_hints(own.flops) // elements) * (INDEX_FLOPS if wide else 1)

    def rows(self, v: int) -> Shape | None:
        """The shape of the rows that a node reduces, if what reads them may be in its kernel."""
        rows = self.graph.rows.get(v)
        shape = self.graph.shapes[v]
        if rows is None or rows.trailing or shape is None:
            return rows.shape if rows is not None and rows.trailing else None
        longest = self.rules.roofline.longest_row
        few = at_hints(prod(rows.shape)) <= longest * at_hints(prod(shape))
        return rows.shape if few else None

    def widens(self, fused: int) -> bool:
        """Whether a fused set only casts bytes and computes cheaply on them."""
        first = self.members(fused)[0]
        return self.light(fused, WIDENING) and self.graph.widens(first)

    def is_elementwise(self, v: int, shape: Shape | None) -> bool:
        """Whether a node is elementwise, with results of a squeezed shape."""
        return self.graph.kinds[v] is Kind.ELEMENTWISE and self.graph.shapes[v] == shape

    def escapes(self, u: int) -> bool:
        """Whether a node's result is used beyond the elementwise operators that follow it.

        It is not if all paths from it meet in one operator, with only elementwise operators of the
        same shape before that: those can all become one kernel.
        """
        if u not in self._escaping:
            self._escaping[u] = not self._meets_again(u)
        return self._escaping[u]

    def _meets_again(self, u: int) -> bool:
        shape = self.graph.shapes[u]
        outputs = self.graph.outputs
        ahead = list(self.graph.users[u])
        heapify(ahead)
        if u in outputs or not ahead:
            return False
        for _ in range(self.rules.max_operators):
            w = heappop(ahead)
            while ahead and ahead[0] == w:
                heappop(ahead)
            if not ahead:
                return True
            if not self.is_elementwise(w, shape) or w in outputs:
                return False
            for other in self.graph.users[w]:
                heappush(ahead, other)
        return False
