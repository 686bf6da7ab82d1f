"""An arena layout without reuse for the values of a graph and the workspaces of its kernels.

Behind a tensor whose size a run decides, offsets are symbols, which example sizes make numbers. As
sums of the sizes before them the offsets of NASNet-mobile had hundreds of terms, and a comparison
of one took a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from compiler.graph.aliases import ViewPlan
from compiler.ir.dataflow import GraphOp, GroupOp
from compiler.ir.types import nbytes_of
from compiler.schedule.tasks import arena_aligned
from compiler.tensors.extents import Extent, Symbol, at_hints, extent_of
from compiler.tensors.substitution import is_symbolic


@dataclass(frozen=True)
class Layout:
    """Disjoint ranges in an arena of `size` bytes, all offsets aligned.

    `roots` are the offsets of roots; `workspaces` the (offset, size) of each group's workspaces.
    `size` is that for the example sizes.
    """

    roots: Mapping[SSAValue, Extent]
    workspaces: Mapping[GroupOp, Sequence[tuple[Extent, Extent]]]
    size: int


def lay_out(graph: GraphOp, plan: ViewPlan) -> Layout:
    """Give every root that a kernel writes, except outputs, its own bytes, in launch order."""
    roots: dict[SSAValue, Extent] = {}
    workspaces: dict[GroupOp, list[tuple[Extent, Extent]]] = {}
    arena = _Arena()
    for group in graph.groups:
        for root in [plan.locations[value].root for value in group.outputs]:
            if root not in plan.outputs and root not in roots:
                roots[root] = arena.take(nbytes_of(root.type))
        for workspace in group.workspaces or ():
            nbytes = workspace.value.data
            workspaces.setdefault(group, []).append((arena.take(nbytes), nbytes))
    return Layout(roots, workspaces, arena.size)


class _Arena:
    """The bytes that are taken so far, for the example sizes."""

    def __init__(self) -> None:
        self.size = 0
        self._symbols = 0
        self._decided = True

    def take(self, nbytes: Extent) -> Extent:
        """The offset of the next bytes, of which there is at least one."""
        offset: Extent = self.size
        if not self._decided:
            offset = extent_of(Symbol(f"offset {self._symbols}", hint=self.size))
            self._symbols += 1
        self._decided = self._decided and not is_symbolic(nbytes)
        self.size += arena_aligned(max(at_hints(nbytes), 1))
        return offset
