"""The pass that lets depthwise convolutions read and write images with channels last."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from compiler.graph.fusion.channels_last import Chain, ChannelsLast, find_channels_last
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, OperatorOp, YieldOp
from compiler.ir.edit import clone_before, erase_dead, graphs_of
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group, ungroup


@dataclass(frozen=True)
class FuseChannelsLast(GraphPass):
    """Fuse a depthwise convolution with the Transposes around it.

    Requires: `fuse-operators` ran. Ensures, in a graph for a GPU: a depthwise convolution of at
    most 49 taps with constant weights, whose image is a Transpose of one with channels last, is in
    one group with that and the group after it, if this one begins with the Transpose back and goes
    on element by element; one of at most 25 taps also without the latter, if convolutions read its
    result; each group's `kernel` is its signature.

        %1 = dataflow.group "Transpose_a" (%0) : (tensor<1x49x8xf32>) -> tensor<1x8x49xf32>
        %2 = dataflow.op "Reshape" (%1, ...) : ... -> tensor<1x8x7x7xf32>
        %3 = dataflow.group "Conv_b" (%2, %window) ...
        %4 = dataflow.op "Reshape" (%3, ...) : ... -> tensor<1x8x49xf32>
        %5 = dataflow.group "Transpose_Gelu_c" (%4) : ... -> tensor<1x49x8xf32>
      becomes
        %5 = dataflow.group "Transpose_Reshape_Conv_Reshape_Transpose_Gelu_d" (%0, %window) ...
    """

    name = "fuse-channels-last"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse the Transposes of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).is_gpu:
                _fuse(graph)


def _fuse(graph: GraphOp) -> None:
    for group in list(graph.groups):
        match = find_channels_last(group) if group.parent_block() is not None else None
        if match is not None:
            _merge(match)


def _merge(match: ChannelsLast) -> None:
    """Make one group of a convolution, copies of the Transposes before it, and what is after it."""
    group = match.convolution
    follower = match.after
    following = (group if follower is None else follower.group).next_op
    copied: list[Operation] = []
    for number, chain in match.before.items():
        copies = _copy(chain, group)
        group.operands[number] = copies[-1].results[0]
        copied += copies
    operations = [*copied, *ungroup(group)]
    if follower is not None:
        operations += [*follower.views, *ungroup(follower.group)]
    merged = make_group([op for op in operations if isinstance(op, OperatorOp)], anchor=following)
    chains = match.before.values()
    replaced = dict.fromkeys(op for chain in chains for op in (chain.group, *chain.views))
    erase_dead([*replaced, *(op for op in operations if op.parent_op() is not merged)])


def _copy(chain: Chain, anchor: Operation) -> list[Operation]:
    """Copies of a group's operations and of the views after it, before another group."""
    group = chain.group
    values: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, group.inputs, strict=True))
    inside = [op for op in group.body.block.ops if not isinstance(op, YieldOp)]
    copies: list[Operation] = []
    for original in (*inside, *chain.views):
        copy = clone_before(anchor, original)
        copy.operands = [values.get(value, value) for value in original.operands]
        values |= dict(zip(original.results, copy.results, strict=True))
        values |= {group.outputs[0]: values.get(group.results_yielded[0], copy.results[0])}
        copies.append(copy)
    return copies
