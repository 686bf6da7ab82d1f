"""The pass that groups operators into kernels."""

import logging
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from compiler.errors import PipelineError
from compiler.graph.aliases import plan_views
from compiler.graph.cost import roofline_of
from compiler.graph.fusion.fusion_graph import read_fusion_graph
from compiler.graph.fusion.policy import FusionRules, plan_fusion
from compiler.graph.fusion.state import MOST_FUSED_OPERATORS
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp
from compiler.ir.edit import erase_dead, graphs_of, insert_before, reorder_groups
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group
from compiler.passes.graph.split_wide_concats import split_wide_concats

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class FuseOperators(GraphPass):
    """Group operators into kernels: a convolution, GEMM or reduction with the elementwise
    operators around it, or elementwise and injective operators only; on GPUs reductions of the same
    rows with all between them, and those of few terms as elementwise operators.

    Requires: nothing; existing groups stay as they are. Ensures: every operator outside groups is a
    view that needs no copy; every group has its signature as `kernel`; there are no dead operators;
    by the cost model the critical path is no longer than before, where contractions that each fill
    the device follow each other.

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

    name = "fuse-operators"

    max_ops: int = 0
    """The largest number of operators in a group, at most 128; 0 for the device's default."""
    contraction_prologue: bool = False
    """Let cheap elementwise operators be recomputed inside a convolution or GEMM."""
    injective_epilogue: bool = False
    """Let a Transpose follow a convolution or GEMM in its group."""
    allow_longer_path: bool = False
    """Fuse even where the cost model says that the critical path grows; a warning is logged."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse every `dataflow.graph` of the module."""
        if not 0 <= self.max_ops <= MOST_FUSED_OPERATORS:
            raise PipelineError(
                f"max-ops must be from 0 to {MOST_FUSED_OPERATORS}, not {self.max_ops}"
            )
        for graph in graphs_of(op):
            roofline = roofline_of(target_of(graph))
            rules = FusionRules(
                self.max_ops or roofline.operators,
                self.contraction_prologue,
                self.injective_epilogue,
                self.allow_longer_path,
                roofline,
            )
            _fuse(graph, rules)


def _fuse(graph: GraphOp, rules: FusionRules) -> None:
    # A dead user would keep a value from being fused.
    erase_dead(list(graph.body.block.ops))
    plan = plan_views(graph)
    if split_wide_concats(graph, plan.views):
        plan = plan_views(graph)
    for copy in plan.copies:
        _insert_copy(copy.user, copy.operand)
    fusion_graph = read_fusion_graph(graph, plan.views, rules.roofline.few_terms)
    fusion = plan_fusion(fusion_graph, rules)
    if fusion.path_after > fusion.path_before:
        _LOG.warning(
            "fuse-operators: the critical path grows from %d to %d ns",
            fusion.path_before,
            fusion.path_after,
        )
    operations = fusion_graph.network.operations
    groups: list[GroupOp] = []
    for kernel in fusion.kernels:
        operators = [op for v in kernel if isinstance(op := operations[v], OperatorOp)]
        existing = operations[kernel[0]]
        groups.append(
            existing if isinstance(existing, GroupOp) else make_group(operators, plan.views)
        )
    erase_dead(list(graph.body.block.ops))
    reorder_groups(graph, groups)


def _insert_copy(user: Operation, operand: int) -> None:
    value = user.operands[operand]
    copy = OperatorOp("Identity", [value], [value.type])
    insert_before(user, copy)
    user.operands[operand] = copy.outputs[0]
