"""The pass that chooses the layouts of tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError
from compiler.graph.layouts import AliasClasses, block_for, choose_blocked, read_alias_classes
from compiler.graph.signature import signature
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of
from compiler.ir.layouts import BLOCK_BYTES, block_of, with_block
from compiler.passes.base import GraphPass

LAYOUT_POLICIES = ("target", "always", "never")


@dataclass(frozen=True)
class AssignLayouts(GraphPass):
    """Store images that convolutions read in a channel-blocked layout (NCHWc).

    Requires: `fuse-operators` ran. Ensures: no kernel is added; views are still views; the inputs,
    outputs and weights of a graph and operands that a kernel reads as matrices are row-major; each
    group's `kernel` is its signature.

        %1 = dataflow.group "Conv_a" (%0, %w) : ... -> tensor<1x8x9x9xf32> {...}
        %2 = dataflow.group "Conv_b" (%1, %v) : (tensor<1x8x9x9xf32>, ...) -> ...
      becomes
        %1 = dataflow.group "Conv_c" (%0, %w) : ... -> tensor<1x8x9x9xf32, #channels<4>> {...}
        %2 = dataflow.group "Conv_d" (%1, %v) : (tensor<1x8x9x9xf32, #channels<4>>, ...) -> ...
    """

    name = "assign-layouts"

    policy: str = "target"
    """`target`: if the graph's target gains by it; `always`: for every target; `never`."""
    block_bytes: int = BLOCK_BYTES
    """Bytes of a block of channels: what one thread copies at a time."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lay out every `dataflow.graph` of the module."""
        if self.policy not in LAYOUT_POLICIES:
            raise PipelineError(
                f"unknown policy {self.policy!r}: use one of {', '.join(LAYOUT_POLICIES)}"
            )
        if self.block_bytes < 1:
            raise PipelineError(f"block-bytes must be at least 1, not {self.block_bytes}")
        for graph in graphs_of(op):
            blocks = self.policy == "always" or target_of(graph).blocked_layouts
            block_bytes = self.block_bytes if blocks and self.policy != "never" else 0
            aliases = read_alias_classes(graph, block_bytes)
            apply_layouts(
                graph, aliases, choose_blocked(aliases.classes, aliases.mismatches), block_bytes
            )


def apply_layouts(
    graph: GraphOp, aliases: AliasClasses, blocked: Sequence[bool], block_bytes: int
) -> None:
    """Set the types of the values of blocked alias classes, and rename the kernels on them."""
    changed = set[Operation | Block]()
    for value, number in aliases.numbers.items():
        block = block_for(value, block_bytes) if blocked[number] else 0
        if block != block_of(value.type):
            new = Rewriter.replace_value_with_new_type(value, with_block(value.type, block))
            changed |= {new.owner, *(use.operation for use in new.uses)}
    for group in graph.groups:
        if group.kernel is not None and group in changed:
            group.kernel = StringAttr(signature(group))
