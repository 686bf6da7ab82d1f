"""Runs a `dataflow` graph in numpy, one operator at a time: the oracle that passes answer to."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import SSAValue

from compiler.analysis.weights import weight_array
from compiler.errors import ModelError
from compiler.frontend.export import graph_of, operators, outer_value
from compiler.ir import dataflow
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, attributes_of, numpy_dtype, stored_as


@lru_cache(maxsize=4096)
def _evaluator(serialized: bytes, opset: int) -> ReferenceEvaluator:
    node = onnx.NodeProto.FromString(serialized)
    inputs = [onnx.ValueInfoProto(name=name) for name in node.input if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return ReferenceEvaluator(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    )


def _evaluate(op: dataflow.OperatorOp, inputs: list[np.ndarray | None], opset: int) -> list:
    names = ["" if array is None else f"i{i}" for i, array in enumerate(inputs)]
    outputs = ["" if isinstance(v.type, NoneType) else f"o{i}" for i, v in enumerate(op.outputs)]
    attributes = {
        key: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in attributes_of(op).items()
    }
    node = helper.make_node(op.type_name, names, outputs, **attributes)
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    with np.errstate(all="ignore"):
        results = iter(_evaluator(node.SerializeToString(), opset).run(None, feeds))
    return [next(results) if name else None for name in outputs]


def interpret(
    module: ModuleOp, weights: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The outputs, by name, of a module with one `dataflow.graph`.

    Each array has the type's dtype and shape. Raises ModelError if an operator gives a tensor
    of another shape or dtype than its type says, which means that the IR is wrong.
    """
    graph = graph_of(module)
    names = (name.data for name in graph.input_names)
    values: dict[SSAValue, np.ndarray | None] = {
        argument: inputs[name] for argument, name in zip(graph.body.block.args, names, strict=True)
    }
    for op in operators(graph):
        match op:
            case dataflow.OperatorOp():
                operands = [values[outer_value(v)] for v in op.inputs]
                results = _evaluate(op, operands, graph.opset.value.data)
                for value, result in zip(op.outputs, results, strict=True):
                    values[value] = _checked(op, value, result)
            case dataflow.ConstantOp():
                values[op.output] = attribute_to_array(op.value)
            case dataflow.WeightOp():
                array = weight_array(weights, op.key.data)
                values[op.output] = stored_as(array, op.output.type, op.key.data)
            case dataflow.NoneOp():
                values[op.output] = None
            case _:
                pass
    results = [values[outer_value(value)] for value in graph.results_yielded]
    return {name.data: r for name, r in zip(graph.output_names, results, strict=True)}


def _checked(op: dataflow.OperatorOp, value: SSAValue, result: object) -> np.ndarray | None:
    if result is None:
        return None
    array = np.asarray(result)
    expected = (numpy_dtype(dtype_of(value.type)), shape_of(value.type))
    if (array.dtype, array.shape) != expected:
        raise ModelError(
            f"{op.type_name} {op.node_name!r} gave {array.dtype}{list(array.shape)}, "
            f"its type says {expected[0]}{list(expected[1])}"
        )
    return array
