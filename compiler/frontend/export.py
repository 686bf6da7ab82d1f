"""Export of a `dataflow` dump as an ONNX model, so that any runtime can check a pass."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from compiler.errors import ModelError
from compiler.graph.weights import weight_array
from compiler.ir import dataflow
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, attributes_of, numpy_dtype, stored_as


def graph_of(module: ModuleOp) -> dataflow.GraphOp:
    """The module's only `dataflow.graph`; raises ModelError where there is none."""
    graphs = [op for op in module.ops if isinstance(op, dataflow.GraphOp)]
    if len(graphs) != 1:
        raise ModelError(
            f"expected one dataflow.graph, found {len(graphs)}: "
            "only IR from before lower-to-taskflow can be exported or interpreted"
        )
    return graphs[0]


def operators(graph: dataflow.GraphOp) -> Iterable[Operation]:
    """Every operation in order, with groups replaced by what they hold."""
    for op in graph.body.block.ops:
        yield from op.body.block.ops if isinstance(op, dataflow.GroupOp) else (op,)


def outer_value(value: SSAValue) -> SSAValue:
    """The value outside that a group's argument stands for, or a group's result yields."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        group = isinstance(parent, dataflow.GroupOp)
        return outer_value(parent.inputs[value.index]) if group else value
    if isinstance(value, OpResult) and isinstance(value.op, dataflow.GroupOp):
        return outer_value(value.op.results_yielded[value.index])
    return value


class _Names:
    """ONNX names of values: hints where they are unique, numbers otherwise."""

    def __init__(self, graph: dataflow.GraphOp):
        inputs = [name.data for name in graph.input_names]
        self._names: dict[SSAValue, str] = dict(zip(graph.body.block.args, inputs, strict=True))
        self._taken = {*inputs, *(name.data for name in graph.output_names)}

    def __getitem__(self, value: SSAValue) -> str:
        value = outer_value(value)
        if isinstance(value.type, NoneType):
            return ""
        if value not in self._names:
            name = f"v{len(self._names)}_{value.name_hint or ''}".rstrip("_")
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._names[value] = name
        return self._names[value]


def _value_info(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype_of(value.type)))
    return helper.make_tensor_value_info(name, element, shape_of(value.type))


def _node(op: dataflow.OperatorOp, names: _Names) -> onnx.NodeProto:
    inputs, outputs = [names[v] for v in op.inputs], [names[v] for v in op.outputs]
    node = helper.make_node(op.type_name, inputs, outputs, name=op.node_name)
    for key, value in sorted(attributes_of(op).items()):
        plain = numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        node.attribute.append(helper.make_attribute(key, plain))
    return node


def export_model(module: ModuleOp, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The ONNX model of a module with one `dataflow.graph`, groups inlined.

    Raises ModelError if the module holds no such graph or a weight is missing from the store.
    """
    graph = graph_of(module)
    names = _Names(graph)
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []
    for op in operators(graph):
        match op:
            case dataflow.OperatorOp():
                nodes.append(_node(op, names))
            case dataflow.ConstantOp():
                array = attribute_to_array(op.value)
                initializers.append(numpy_helper.from_array(array, names[op.output]))
            case dataflow.WeightOp():
                array = weight_array(weights, op.key.data)
                array = stored_as(array, op.output.type, op.key.data)
                initializers.append(numpy_helper.from_array(array, names[op.output]))
            case dataflow.ControlOp():
                raise ModelError(
                    f"'{op.name}' has bodies that cannot be exported as ONNX: export the IR of a"
                    " target without them, such as cuda"
                )
            case _:
                pass
    outputs: list[onnx.ValueInfoProto] = []
    for name, value in zip(graph.output_names, graph.results_yielded, strict=True):
        nodes.append(helper.make_node("Identity", [names[value]], [name.data]))
        outputs.append(_value_info(name.data, value))
    inputs = [_value_info(names[value], value) for value in graph.body.block.args]
    body = helper.make_graph(nodes, graph.sym_name.data, inputs, outputs, initializers)
    opset = helper.make_opsetid("", graph.opset.value.data)
    return helper.make_model(body, opset_imports=[opset], ir_version=10)
