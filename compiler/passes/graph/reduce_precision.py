"""The pass that stores tensors in 16 bits."""

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from compiler.errors import PipelineError
from compiler.graph.precision import (
    CopiedOutputs,
    copied_outputs,
    narrow_values,
    narrow_weights,
    streamed_weights,
)
from compiler.graph.signature import signature
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GroupOp, WeightOp, YieldOp
from compiler.ir.edit import erase_dead, graphs_of, insert_before, replace
from compiler.ir.types import shape_of, tensor_type
from compiler.passes.base import GraphPass
from compiler.passes.graph.widen_groups import (
    ONNX_TYPES,
    narrow_results,
    widen_groups,
    widen_reads,
)

STORED = {"fp16": "float16", "bf16": "bfloat16"}
"""The dtype in which tensors are stored, by the target's precision."""


@dataclass(frozen=True)
class ReducePrecision(GraphPass):
    """Store in 16 bits the tensors between kernels whose values are in range, and the weights of
    their contractions, on a CPU of those of few rows. Contractions and reductions of models in 16
    bits compute in float32.

    Requires: `fuse-operators` ran. Ensures: kernels compute as before and convert where they load
    and store, so that each dump is a model; inputs, outputs and tensors that may be out of range
    keep their type (see `compiler.graph.precision`); an output that contractions read in tiles has
    a copy in 16 bits for them on a GPU; each group's `kernel` is its signature.

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
    """float16, bfloat16 or float32; `target` for that of the precision of the graph's target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Narrow the tensors of every `dataflow.graph` of the module."""
        if self.storage not in ("target", *ONNX_TYPES):
            choices = ", ".join(ONNX_TYPES)
            raise PipelineError(f"unknown storage {self.storage!r}: use target or one of {choices}")
        for graph in graphs_of(op):
            widen_groups(graph)
            on_gpu = target_of(graph).is_gpu
            stored = STORED.get(target_of(graph).precision, "float32")
            dtype = stored if self.storage == "target" else self.storage
            if dtype != "float32":
                if on_gpu:
                    for copies in copied_outputs(graph, dtype):
                        _write_copies(copies)
                _narrow(list(graph.groups), narrow_values(graph, dtype), dtype, on_gpu)


def _write_copies(copies: CopiedOutputs) -> None:
    """Let a group yield some results twice, and the readers take the second ones."""
    group = copies.group
    count = len(copies.group.outputs)
    yielded = group.results_yielded
    yielded = [*yielded, *(yielded[number] for number in copies.readers)]
    body = group.detach_region(group.body)
    last = body.block.last_op
    assert last is not None
    Rewriter.replace_op(last, YieldOp(*yielded), [])
    types = [value.type for value in yielded]
    insert_before(group, wider := GroupOp(group.inputs, types, body))
    wider.kernel = group.kernel
    for copy, (number, readers) in zip(wider.outputs[count:], copies.readers.items(), strict=True):
        for reader in readers:
            reader.operands[reader.inputs.index(group.outputs[number])] = copy
    replace(group, wider.outputs[:count])


def _narrow(
    groups: Iterable[GroupOp], values: Iterable[SSAValue], dtype: str, on_gpu: bool
) -> None:
    for value in values:
        type = tensor_type(dtype, shape_of(value.type))
        Rewriter.replace_value_with_new_type(value, type)
    weights: dict[SSAValue, WeightOp] = {}
    for group in groups:
        for i in narrow_weights(group, dtype) if on_gpu else streamed_weights(group):
            # The same weight in 16 bits, made once.
            weight = group.inputs[i].owner
            assert isinstance(weight, WeightOp)
            if group.inputs[i] not in weights:
                weights[group.inputs[i]] = WeightOp(
                    weight.key.data, tensor_type(dtype, shape_of(group.inputs[i].type))
                )
                insert_before(weight, weights[group.inputs[i]])
            group.operands[i] = weights[group.inputs[i]].output
        widen_reads(group)
        narrow_results(group)
        if group.kernel is not None:
            group.kernel = StringAttr(signature(group))
    erase_dead([value.owner for value in weights if isinstance(value.owner, WeightOp)])
