"""An arena layout without reuse for the values of a graph and the workspaces of its kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from compiler.graph.aliases import ViewPlan
from compiler.ir.dataflow import GraphOp, GroupOp
from compiler.ir.types import nbytes_of
from compiler.schedule.tasks import arena_aligned


@dataclass(frozen=True)
class Layout:
    """Disjoint ranges in an arena of `size` bytes, all offsets aligned.

    `roots` are the offsets of roots; `workspaces` the (offset, size) of each group's workspaces.
    """

    roots: Mapping[SSAValue, int]
    workspaces: Mapping[GroupOp, Sequence[tuple[int, int]]]
    size: int


def lay_out(graph: GraphOp, plan: ViewPlan) -> Layout:
    """Give every root that a kernel writes, except outputs, its own bytes, in launch order."""
    roots: dict[SSAValue, int] = {}
    workspaces: dict[GroupOp, list[tuple[int, int]]] = {}
    size = 0
    for group in graph.groups:
        for root in [plan.locations[value].root for value in group.outputs]:
            if root not in plan.outputs and root not in roots:
                roots[root] = size
                size += arena_aligned(max(nbytes_of(root.type), 1))
        for workspace in group.workspaces or ():
            workspaces.setdefault(group, []).append((size, workspace.value.data))
            size += arena_aligned(max(workspace.value.data, 1))
    return Layout(roots, workspaces, size)
