"""Kernels while the fusion policy grows them, and the questions its rules ask."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from compiler.analysis.clusters import Clusters
from compiler.analysis.cost import CPU, Device
from compiler.analysis.graph import DAG
from compiler.analysis.operator_table import OperatorTable, Shape
from compiler.ir.operators import Kind

NEVER = 1 << 62

MOST_OPERATORS = 128
"""Operators that any kernel may have: LLVM's time grows faster than linearly beyond."""

MOST_TENSORS = 64
"""Tensors that an operator may concatenate or cut in a kernel, and that fusion may make it read."""


@dataclass(frozen=True, slots=True)
class FusionRules:
    """What the policy may do; see the options of the pass `fuse`."""

    max_operators: int = 32
    contraction_prologue: bool = False
    injective_epilogue: bool = False
    allow_longer_path: bool = False
    device: Device = CPU


@dataclass(slots=True)
class Kernel:
    """A cluster's state: `anchor` is -1 without one, `shape` what an epilogue must have.

    `start` and `finish` are times (ns) with a stream for everyone; `deadline` is the latest
    finish that does not hold up users who need a part of the results only.
    """

    anchor: int
    shape: Shape | None
    start: int
    finish: int
    deadline: int = NEVER


@dataclass
class Growth:
    """The clustering so far, with the state of each cluster by its number."""

    table: OperatorTable
    rules: FusionRules
    dag: DAG
    clusters: Clusters
    kernels: dict[int, Kernel] = field(default_factory=dict[int, Kernel])
    _escaping: dict[int, bool] = field(default_factory=dict[int, bool])

    def members(self, cluster: int) -> list[int]:
        """The nodes of a cluster, ascending."""
        return self.clusters.members[cluster]

    def anchor_kind(self, cluster: int) -> Kind | None:
        """The kind of a cluster's anchor, None without one."""
        anchor = self.kernels[cluster].anchor
        return self.table.nodes[anchor].kind if anchor >= 0 else None

    def consumers(self, cluster: int) -> Iterator[tuple[int, int]]:
        """Pairs of a member and a node outside that uses it."""
        for u in self.members(cluster):
            for w in self.table.users[u]:
                if self.clusters.cluster_of[w] != cluster:
                    yield u, w

    def only_for(self, cluster: int, v: int) -> bool:
        """Whether nobody but node `v` needs anything of the cluster."""
        yields = not self.table.outputs.isdisjoint(self.members(cluster))
        return not yields and all(w == v for _, w in self.consumers(cluster))

    def light(self, cluster: int, most: int) -> bool:
        """Whether the cluster is at most some cheap operators, worth computing twice."""
        members = self.members(cluster)
        return len(members) <= most and all(self.table.nodes[u].light for u in members)

    def escapes(self, u: int) -> bool:
        """Whether a node's result is needed beyond the elementwise operators right behind it.

        It is not when all paths from it meet again in one operator, with elementwise operators
        of the same shape before that: those may all become one kernel.
        """
        if u not in self._escaping:
            self._escaping[u] = not self._meets_again(u)
        return self._escaping[u]

    def _meets_again(self, u: int) -> bool:
        shape, outputs = self.table.nodes[u].shape, self.table.outputs
        ahead = list(self.table.users[u])
        heapify(ahead)
        if u in outputs or not ahead:
            return False
        for _ in range(self.rules.max_operators):
            w = heappop(ahead)
            while ahead and ahead[0] == w:
                heappop(ahead)
            if not ahead:
                return True
            node = self.table.nodes[w]
            if node.kind is not Kind.ELEMENTWISE or node.shape != shape or w in outputs:
                return False
            for other in self.table.users[w]:
                heappush(ahead, other)
        return False
