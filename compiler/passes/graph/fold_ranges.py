"""The pass that finds ranges of tensors where these are computed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import BlockArgument, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from compiler.graph.alias_classes import before_casts
from compiler.graph.fusion.ranges import range_parts
from compiler.graph.signature import signature
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GroupOp, OperatorOp, YieldOp
from compiler.ir.edit import graphs_of, insert_before, replace
from compiler.ir.types import dtype_of, int64, shape_of, tensor_type
from compiler.ir.values import value_to_attribute
from compiler.net.operators import PARTIAL_RANGES
from compiler.passes.base import GraphPass
from compiler.passes.graph.widen_groups import ONNX_TYPES, cast_of


@dataclass(frozen=True)
class FoldRanges(GraphPass):
    """Let the kernel that computes a tensor write the ranges of its parts for a dynamic
    quantisation, which then reads the tensor once.

    Requires: `fuse-ranges` and `fuse-operators` ran. Ensures: in a graph for a GPU, groups that
    find the range of a tensor read it from the group that computes the tensor, where kernels of
    that group's kind can fold what they store; each group's `kernel` is its signature.

        %1 = dataflow.group "MatMul_a" (%0) ... { ... dataflow.yield %y }
        %2 = dataflow.group "ReduceMin_ReduceMax_Sub_b" (%1) ... {...}
      becomes
        %1, %3, %4 = dataflow.group "MatMul_PartialRanges_c" (%0) ... {
          ...
          %low, %high = dataflow.op "PartialRanges" (%y) {count = 1024} ...
          dataflow.yield %y, %low, %high
        }
        %2 = dataflow.group "ReduceMin_ReduceMax_Sub_d" (%1, %3, %4) ... {...}
    """

    name = "fold-ranges"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fold the ranges of every `dataflow.graph` of the module."""
        for graph in graphs_of(op):
            if target_of(graph).is_gpu:
                for group in list(graph.groups):
                    _read_ranges(group)


def _read_ranges(group: GroupOp) -> None:
    """Let a group read the ranges of parts of the tensor whose range it finds."""
    if group.control is not None:
        return
    for lowest, highest in _extremes(group):
        number = _input_of(lowest.inputs[0], group)
        tensor = None if number is None else _computed(group.inputs[number])
        if tensor is None or not isinstance(tensor.op, GroupOp) or tensor.op.control is not None:
            continue
        types = [op.type_name for op in tensor.op.operators]
        count = range_parts(prod(shape_of(tensor.type)), types)
        if count:
            _reduce(group, (lowest, highest), _with_ranges(tensor.op, tensor.index, count))


def _extremes(group: GroupOp) -> Iterator[tuple[OperatorOp, OperatorOp]]:
    """The operators that give the least and the greatest element of one tensor."""
    for lowest in _whole_reductions(group, "ReduceMin"):
        for highest in _whole_reductions(group, "ReduceMax"):
            if highest.inputs[0] is lowest.inputs[0]:
                yield lowest, highest
                break


def _whole_reductions(group: GroupOp, type: str) -> list[OperatorOp]:
    """The operators of a type whose result is a scalar."""
    reductions = (op for op in group.operators if op.type_name == type)
    return [op for op in reductions if not shape_of(op.outputs[0].type)]


def _input_of(value: SSAValue, group: GroupOp) -> int | None:
    """Which input a value is, perhaps cast; None for any other."""
    value = before_casts(value)
    return value.index if isinstance(value, BlockArgument) else None


def _computed(value: SSAValue) -> OpResult | None:
    """The value that another views, of which it has all elements; None for a graph's input."""
    elements = prod(shape_of(value.type))
    while isinstance(value, OpResult) and isinstance(value.op, OperatorOp):
        value = value.op.inputs[0]
        if prod(shape_of(value.type)) != elements:
            return None
    return value if isinstance(value, OpResult) and dtype_of(value.type) in ONNX_TYPES else None


def _with_ranges(group: GroupOp, result: int, count: int) -> Sequence[SSAValue]:
    """The extremes of the parts of a group's result: the last results of a new group."""
    block = group.body.block
    value = group.results_yielded[result]
    last = block.last_op
    assert last is not None
    if dtype_of(value.type) != "float32":
        insert_before(last, wide := cast_of(value, "float32"))
        value = wide.outputs[0]
    extremes = [tensor_type("float32", (count,))] * 2
    extreme_op = OperatorOp(PARTIAL_RANGES, [value], extremes, {"count": int64(count)})
    insert_before(last, extreme_op)
    insert_before(last, YieldOp(*last.operands, *extreme_op.outputs))
    Rewriter.erase_op(last)
    types = [*(output.type for output in group.outputs), *extremes]
    widened = GroupOp(group.inputs, types, group.detach_region(group.body))
    widened.kernel = StringAttr(signature(widened))
    insert_before(group, widened)
    for old, new in zip(group.outputs, widened.outputs, strict=False):
        new.name_hint = old.name_hint
    replace(group, widened.outputs[:-2])
    return widened.outputs[-2:]


def _reduce(
    group: GroupOp, extremes: tuple[OperatorOp, OperatorOp], partial_extremes: Sequence[SSAValue]
) -> None:
    """Let the extremes of a group be those of parts, which the group reads, too."""
    block = group.body.block
    group.operands = [*group.operands, *partial_extremes]
    for op, value in zip(extremes, partial_extremes, strict=True):
        argument = block.insert_arg(value.type, len(block.args))
        attributes = {"axes": value_to_attribute([0]), "keepdims": int64(0)}
        new = OperatorOp(op.type_name, [argument], [op.outputs[0].type], attributes, op.node_name)
        insert_before(op, new)
        replace(op, new.outputs)
    group.kernel = StringAttr(signature(group))
