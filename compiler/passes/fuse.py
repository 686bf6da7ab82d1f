"""The pass that groups operators into kernels."""

import logging
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from compiler.analysis.aliases import plan_views
from compiler.analysis.cost import CPU, DEVICES
from compiler.analysis.fusion import FusionRules, plan_fusion
from compiler.analysis.fusion_state import MOST_OPERATORS
from compiler.analysis.operator_table import read_operators
from compiler.analysis.targets import target_kind
from compiler.analysis.units import graphs_of
from compiler.errors import PipelineError
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp, YieldOp
from compiler.passes.base import GraphPass
from compiler.passes.few_parts import divide_parts
from compiler.passes.group_maker import make_group
from compiler.passes.reorder import reorder_groups

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fuse(GraphPass):
    """Group operators into kernels: a convolution, matrix product or reduction with the
    elementwise operators around it, or a web of elementwise and injective operators.

    Requires: nothing; groups that are there stay as they are. Ensures: every operator outside
    groups is a view that needs no copy; every group has its signature as `kernel`; dead operators
    are gone; by the cost model the longest path is no longer than before.

        %3 = dataflow.op "Conv" (%0, %1) ...
        %4 = dataflow.op "Relu" (%3) ...
      becomes
        %4 = dataflow.group "Conv_Relu_3f9a2c41d0e7" (%0, %1) : ... {
        ^bb0(%5 : ..., %6 : ...):
          %7 = dataflow.op "Conv" (%5, %6) ...
          %8 = dataflow.op "Relu" (%7) ...
          dataflow.yield %8 ...
        }
    """

    name = "fuse"

    max_ops: int = 0
    """The largest number of operators in a group, at most 128; 0 for what suits the device."""
    contraction_prologue: bool = False
    """Let cheap elementwise operators be recomputed inside a convolution or matrix product."""
    injective_epilogue: bool = False
    """Let a Transpose follow a convolution or matrix product in its group."""
    allow_longer_path: bool = False
    """Fuse even where the cost model says that the longest path grows; a warning is logged."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse every `dataflow.graph` of the module."""
        if not 0 <= self.max_ops <= MOST_OPERATORS:
            raise PipelineError(f"max-ops must be from 0 to {MOST_OPERATORS}, not {self.max_ops}")
        for graph in graphs_of(op):
            device = DEVICES.get(target_kind(graph), CPU)
            rules = FusionRules(
                self.max_ops or device.operators,
                self.contraction_prologue,
                self.injective_epilogue,
                self.allow_longer_path,
                device,
            )
            _fuse(graph, rules)


def _fuse(graph: GraphOp, rules: FusionRules) -> None:
    _remove_dead(graph)
    plan = plan_views(graph)
    if divide_parts(graph, plan.views):
        plan = plan_views(graph)
    copies = frozenset(_insert_copy(copy.user, copy.operand) for copy in plan.copies)
    table = read_operators(graph, plan.views, copies)
    fusion = plan_fusion(table, rules)
    if fusion.path_after > fusion.path_before:
        _LOG.warning(
            "fuse: the longest path grows from %d to %d ns", fusion.path_before, fusion.path_after
        )
    groups: list[GroupOp] = []
    for kernel in fusion.kernels:
        operators = [op for v in kernel if isinstance(op := table.operations[v], OperatorOp)]
        existing = table.operations[kernel[0]]
        groups.append(
            existing if isinstance(existing, GroupOp) else make_group(operators, plan.views)
        )
    _remove_dead(graph)
    reorder_groups(graph, groups)


def _remove_dead(graph: GraphOp) -> None:
    for op in reversed(list(graph.body.block.ops)):
        unused = all(result.first_use is None for result in op.results)
        if unused and not isinstance(op, YieldOp):
            op.detach()
            op.erase()


def _insert_copy(user: Operation, operand: int) -> OperatorOp:
    value = user.operands[operand]
    copy = OperatorOp("Identity", [value], [value.type])
    block = user.parent_block()
    assert block is not None
    block.insert_op_before(copy, user)
    user.operands[operand] = copy.outputs[0]
    return copy
