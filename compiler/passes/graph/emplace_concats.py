"""The pass that turns Concats and Splits of channel-blocked tensors into views."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.graph.alias_classes import before_casts
from compiler.graph.aliases import plan_views
from compiler.graph.windows import GEMM_TYPES
from compiler.ir.dataflow import ConstantOp, GraphOp, GroupOp, NoneOp, OperatorOp
from compiler.ir.edit import clone_before, erase_dead, graphs_of, insert_before, replace
from compiler.ir.layouts import stored_block
from compiler.ir.movement import moved_operands
from compiler.ir.types import dtype_of
from compiler.net.operators import facts_of
from compiler.net.operators.injective import PARTS
from compiler.passes.base import GraphPass


@dataclass(frozen=True)
class EmplaceConcats(GraphPass):
    """Make channel-blocked Concats, Splits and Slices views: producers write into their buffer.

    Requires: `assign-layouts` ran; row-major images have their batch outermost, so that a Concat of
    several images is a kernel before it. Ensures: every operator outside groups is a view that
    needs no copy.

        %2 = dataflow.group "Concat_a" (%0, %1) : ... -> tensor<2x16x9x9xf32, #channels<4>> {...}
      becomes
        %2 = dataflow.op "Concat" (%0, %1) {axis = 1} : ... -> tensor<2x16x9x9xf32, #channels<4>>
    """

    name = "emplace-concats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Emplace the Concats of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            _emplace(graph)


def _emplace(graph: GraphOp) -> None:
    """Make all candidates views and undo those that would need a copy, to a fixed point."""
    candidates = {_outside(group, op): group for group in graph.groups if (op := _moving(group))}
    while candidates:
        plan = plan_views(graph)
        copied = {copy.user for copy in plan.copies}
        refused = [op for op in candidates if op not in plan.views or op in copied]
        for op in refused:
            _replace(op, candidates.pop(op))
        if not refused:
            break
    for group in candidates.values():
        Rewriter.erase_op(group)


def _moving(group: GroupOp) -> OperatorOp | None:
    """The Concat, Split or Slice of a group that has no other operators except lossless casts."""
    operators = [op for op in group.operators if not facts_of(op.type_name).converts]
    if len(operators) != 1 or operators[0].type_name not in PARTS or not _is_exact(group):
        return None
    op = operators[0]
    outside = [*group.inputs, *group.outputs]
    blocked = all(stored_block(value.type) for value in outside)
    traced = all(_argument(group, value) for value in moved_operands(op))
    sources = [before_casts(value) for value in group.results_yielded]
    return op if blocked and traced and sources == list(op.outputs) else None


def _is_exact(group: GroupOp) -> bool:
    """Whether inputs and outputs have one dtype, and inner types represent all of its values."""
    outside = {dtype_of(value.type) for value in (*group.inputs, *group.outputs)}
    inside = {dtype_of(value.type) for op in group.operators for value in op.outputs}
    return len(outside) == 1 and outside < set(GEMM_TYPES) and inside <= {*outside, "float32"}


def _argument(group: GroupOp, value: SSAValue) -> SSAValue | None:
    """The group input that a value is a cast of; None if the group computes it."""
    arguments: dict[SSAValue, SSAValue] = dict(
        zip(group.body.block.args, group.inputs, strict=True)
    )
    return arguments.get(before_casts(value))


def _outside(group: GroupOp, op: OperatorOp) -> OperatorOp:
    """Insert the operator as a view before its group, and replace the group's results by it."""
    operands = [_argument(group, value) or _constant(group, value) for value in op.inputs]
    types = [value.type for value in group.outputs]
    view = OperatorOp(op.type_name, operands, types, op.attributes, op.node_name)
    insert_before(group, view)
    for old, new in zip(group.outputs, view.outputs, strict=True):
        old.replace_all_uses_with(new)
    return view


def _constant(group: GroupOp, value: SSAValue) -> SSAValue:
    """Clone a constant or omitted operand out of a group."""
    assert isinstance(value.owner, ConstantOp | NoneOp)
    return clone_before(group, value.owner).output


def _replace(view: OperatorOp, group: GroupOp) -> None:
    """Undo a view: its group computes the result again; erases the constants cloned for it."""
    owners = dict.fromkeys(value.owner for value in view.inputs)
    replace(view, group.outputs)
    erase_dead([owner for owner in owners if isinstance(owner, ConstantOp | NoneOp)])
