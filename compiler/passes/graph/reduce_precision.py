"""The pass that stores tensors in 16 bits."""

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError
from compiler.graph.precision import narrow_values, narrow_weights
from compiler.graph.signature import signature
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GroupOp, OperatorOp, WeightOp
from compiler.ir.edit import graphs_of
from compiler.ir.types import shape_of, tensor_type
from compiler.passes.base import GraphPass

ONNX_TYPES = {"float32": 1, "float16": 10, "bfloat16": 16}
"""The numbers of ONNX's element types."""

STORED = {"fp16": "float16", "bf16": "bfloat16"}
"""What tensors are stored as, by the target's precision."""


@dataclass(frozen=True)
class ReducePrecision(GraphPass):
    """Store the tensors between kernels in 16 bits where their values are in range, and the weights
    that they are multiplied with.

    Requires: `fuse-operators` ran. Ensures: kernels compute as before and convert where they load
    and store, so that each dump still is a model; inputs, outputs and what may be out of range keep
    their type (see `compiler.graph.precision`); each group's `kernel` is its signature again.

        %1 = dataflow.group "Relu_a" (%0) : (tensor<4xf32>) -> tensor<4xf32> {
        ^bb0(%2 : tensor<4xf32>):
          %3 = dataflow.op "Relu" (%2) : (tensor<4xf32>) -> tensor<4xf32>
          dataflow.yield %3 : tensor<4xf32>
        }
      becomes
        %1 = dataflow.group "Cast_Relu_Cast_b" (%0) : (tensor<4xf16>) -> tensor<4xf16> {
        ^bb0(%2 : tensor<4xf16>):
          %4 = dataflow.op "Cast" (%2) {to = 1} : (tensor<4xf16>) -> tensor<4xf32>
          %3 = dataflow.op "Relu" (%4) : (tensor<4xf32>) -> tensor<4xf32>
          %5 = dataflow.op "Cast" (%3) {to = 10} : (tensor<4xf32>) -> tensor<4xf16>
          dataflow.yield %5 : tensor<4xf16>
        }
    """

    name = "reduce-precision"

    storage: str = "target"
    """float16, bfloat16 or float32; `target` is what the precision of the graph's target says."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Narrow the tensors of every `dataflow.graph` of the module."""
        if self.storage not in ("target", *ONNX_TYPES):
            known = ", ".join(ONNX_TYPES)
            raise PipelineError(f"unknown storage {self.storage!r}: use target or one of {known}")
        for graph in graphs_of(op):
            stored = STORED.get(target_of(graph).precision, "float32")
            dtype = stored if self.storage == "target" else self.storage
            if dtype != "float32":
                _narrow(list(graph.groups), narrow_values(graph, dtype), dtype)


def _narrow(groups: Iterable[GroupOp], values: Iterable[SSAValue], dtype: str) -> None:
    for value in values:
        type = tensor_type(dtype, shape_of(value.type))
        Rewriter.replace_value_with_new_type(value, type)
    weights: dict[SSAValue, WeightOp] = {}
    for group in groups:
        for i in narrow_weights(group, dtype):
            group.operands[i] = _narrow_weight(group.inputs[i], dtype, weights)
        _widen_reads(group)
        _narrow_results(group, dtype)
        if group.kernel is not None:
            group.kernel = StringAttr(signature(group))
    for value in weights:
        if value.first_use is None and isinstance(value.owner, WeightOp):
            value.owner.detach()
            value.owner.erase()


def _cast(value: SSAValue, dtype: str) -> OperatorOp:
    to = {"to": IntegerAttr(ONNX_TYPES[dtype], i64)}
    return OperatorOp("Cast", [value], [tensor_type(dtype, shape_of(value.type))], to)


def _narrow_weight(value: SSAValue, dtype: str, made: dict[SSAValue, WeightOp]) -> SSAValue:
    """The same weight in 16 bits, made once."""
    weight = value.owner
    assert isinstance(weight, WeightOp)
    if value not in made:
        made[value] = WeightOp(weight.key.data, tensor_type(dtype, shape_of(value.type)))
        block = weight.parent_block()
        assert block is not None
        block.insert_op_before(made[value], weight)
    return made[value].output


def _widen_reads(group: GroupOp) -> None:
    """Convert the arguments whose type is no longer that of the input."""
    block = group.body.block
    first = block.first_op
    assert first is not None
    for argument, value in zip(block.args, group.inputs, strict=True):
        if argument.type != value.type:
            narrow = Rewriter.replace_value_with_new_type(argument, value.type)
            block.insert_op_before(cast := _cast(narrow, "float32"), first)
            narrow.replace_uses_with_if(cast.outputs[0], lambda use, c=cast: use.operation is not c)


def _narrow_results(group: GroupOp, dtype: str) -> None:
    """Convert the yielded values whose type is no longer that of the result."""
    block = group.body.block
    last = block.last_op
    assert last is not None
    for i, (value, result) in enumerate(zip(group.results_yielded, group.outputs, strict=True)):
        if value.type != result.type:
            block.insert_op_before(cast := _cast(value, dtype), last)
            last.operands[i] = cast.outputs[0]
