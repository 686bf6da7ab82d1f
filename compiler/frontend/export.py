"""Export of a `dataflow` dump as an ONNX model, so that any runtime can check a pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Operation, SSAValue

from compiler.frontend.evaluate import schema_of
from compiler.frontend.export_nodes import (
    Nodes,
    fourier_nodes,
    partial_range_nodes,
    position_nodes,
)
from compiler.frontend.export_recurrence import recurrence_nodes
from compiler.graph.rewriting.weights import weight_array
from compiler.ir import dataflow
from compiler.ir.groups import graph_of, operators, outer_value
from compiler.ir.nodes import UsedValue, used_values
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, attributes_of, own_attributes, stored_as
from compiler.net.operators import (
    FLOAT8_CONTRACTIONS,
    FOURIER,
    OPERATORS,
    PARTIAL_RANGES,
    POSITIONS,
    RECURRENCE,
    SCATTER_ORDER,
    SEGMENT_REDUCE,
)
from compiler.net.operators.canonical import onnx_operands
from compiler.net.operators.contractions import FLOAT8_DOMAIN
from compiler.schedule.tasks import ControlForm
from compiler.tensors.dtypes import numpy_dtype


def scatter_order_nodes(
    nodes: Nodes, indices: str, outputs: Sequence[str], slots: int, count: int
) -> list[onnx.NodeProto]:
    """A stable sort of the indices by TopK, and running sums of how many each slot has."""
    starts, order = outputs
    wide = nodes.add("Cast", indices, to=TensorProto.INT64)
    named = nodes.add("Mod", nodes.add("Clip", wide, -slots, slots - 1), slots)
    results = [nodes.fresh(name) for name in ("values", "places")]
    every = nodes.store("count", np.array([count]))
    nodes.made.append(helper.make_node("TopK", [named, every], results, largest=0))
    nodes.named("Cast", results[1:], order, to=TensorProto.INT32)
    empty = np.zeros(slots + 1, np.int64)
    ones = np.ones(count, np.int64)
    counts = nodes.add("ScatterElements", empty, nodes.add("Add", named, 1), ones, reduction="add")
    nodes.named("Cast", [nodes.add("CumSum", counts, 0)], starts, to=TensorProto.INT32)
    return nodes.made


_FLOAT = onnx.TensorProto.FLOAT


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

    def bind(self, value: SSAValue, name: str) -> None:
        """Give a body's argument the name of what it stands for."""
        self._names[value] = name

    def fresh(self, stem: str) -> str:
        """A name that no value has."""
        name = stem
        count = 1
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def _value_info(name: str, value: SSAValue) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype_of(value.type)))
    return helper.make_tensor_value_info(name, element, shape_of(value.type))


def _node(
    op: dataflow.OperatorOp, names: _Names, store: Callable[[str, np.ndarray], str]
) -> onnx.NodeProto:
    """The node of an operator; what decides shapes becomes constants again."""
    operands, attributes = onnx_operands(
        op.type_name, used_values(op), own_attributes(op), len(op.outputs)
    )
    inputs = [
        "" if v is None else names[v.value] if isinstance(v, UsedValue) else store("constant", v)
        for v in operands
    ]
    outputs = [names[v] for v in op.outputs]
    domain = OPERATORS[op.type_name].domain
    op_type = op.type_name.rpartition("::")[2]
    node = helper.make_node(op_type, inputs, outputs, name=op.node_name, domain=domain)
    schema = schema_of(op_type, onnx.defs.onnx_opset_version(), domain)
    for key, value in sorted(attributes.items()):
        if schema is not None and key not in schema.attributes:
            continue  # it is about how kernels compute the operator
        if isinstance(value, np.ndarray):
            value = numpy_helper.from_array(cast(np.ndarray, value))
        node.attribute.append(helper.make_attribute(key, value))
    return node


def export_model(module: ModuleOp, weights: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The ONNX model of a module with one `dataflow.graph`, groups inlined.

    Raises ModelError if the module holds no such graph or a weight is missing from the store.
    """
    graph = graph_of(module)
    exporter = _Exporter(_Names(graph), weights)
    names = [name.data for name in graph.output_names]
    inputs = [_value_info(exporter.names[value], value) for value in graph.body.block.args]
    body = exporter.graph(graph, inputs, names)
    body.initializer.extend(exporter.initializers)
    opsets = [helper.make_opsetid("", graph.opset.value.data)]
    used = {op.type_name for op in module.walk() if isinstance(op, dataflow.OperatorOp)}
    domains = sorted({OPERATORS[name].domain for name in used} - {""})
    opsets += [helper.make_opsetid(domain, 1) for domain in domains]
    functions = [_function(name, opsets[0]) for name in FLOAT8_CONTRACTIONS if name in used]
    return helper.make_model(body, opset_imports=opsets, ir_version=10, functions=functions)


def _function(name: str, opset: onnx.OperatorSetIdProto) -> onnx.FunctionProto:
    """A contraction of float8s by ONNX's operators: that of the same numbers as float32."""
    nodes = [helper.make_node("Cast", [x], [f"{x}_wide"], to=_FLOAT) for x in "ab"]
    contraction = helper.make_node(name.removesuffix("Float8"), ["a_wide", "b_wide"], ["y"])
    attributes = OPERATORS[name].attributes
    for key, formal in attributes.items():
        contraction.attribute.append(
            onnx.AttributeProto(name=key, ref_attr_name=key, type=formal.kind.upper())
        )
    own = FLOAT8_DOMAIN, name, ["a", "b"], ["y"], [*nodes, contraction], [opset], [*attributes]
    return helper.make_function(*own)


def _name_apart(nodes: Sequence[onnx.NodeProto]) -> None:
    """Number nodes of one name, in place: onnxruntime refuses them."""
    names: set[str] = set()
    for node in nodes:
        stem = node.name
        count = 1
        while node.name and node.name in names:
            count += 1
            node.name = f"{stem}.{count}"
        names.add(node.name)


@dataclass
class _Exporter:
    """Writes graphs; constants of bodies are initializers of the outermost one, which they see."""

    names: _Names
    weights: Mapping[str, np.ndarray]
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def graph(
        self,
        graph: dataflow.GraphOp,
        inputs: Sequence[onnx.ValueInfoProto],
        results: Sequence[str],
        before: Sequence[onnx.NodeProto] = (),
    ) -> onnx.GraphProto:
        """A graph whose outputs get names; `before` are nodes that make its arguments."""
        nodes = [*before, *(node for op in operators(graph) for node in self.nodes(op))]
        outputs: list[onnx.ValueInfoProto] = []
        for name, value in zip(results, graph.results_yielded, strict=True):
            nodes.append(helper.make_node("Identity", [self.names[value]], [name]))
            outputs.append(_value_info(name, value))
        _name_apart(nodes)
        return helper.make_graph(nodes, graph.sym_name.data, inputs, outputs)

    def nodes(self, op: Operation) -> list[onnx.NodeProto]:
        """The nodes of an operation; constants become initializers."""
        match op:
            case dataflow.OperatorOp():
                own = self._own.get(op.type_name)
                return own(op) if own else [_node(op, self.names, self._constant)]
            case dataflow.ConstantOp():
                self._store(self.names[op.output], attribute_to_array(op.value))
            case dataflow.WeightOp():
                array = weight_array(self.weights, op.key.data)
                self._store(self.names[op.output], stored_as(array, op.output.type, op.key.data))
            case dataflow.ControlOp():
                return self._if(op) if op.form.kind == "if" else self._loop(op)
            case _:
                pass
        return []

    @property
    def _own(self) -> Mapping[str, Callable[[dataflow.OperatorOp], list[onnx.NodeProto]]]:
        """How operators that ONNX does not have are written."""
        return {
            FOURIER: self._fourier,
            PARTIAL_RANGES: self._partial_ranges,
            POSITIONS: self._positions,
            RECURRENCE: self._recurrence,
            SCATTER_ORDER: self._scatter_order,
            SEGMENT_REDUCE: self._segment_reduce,
        }

    def _fourier(self, op: dataflow.OperatorOp) -> list[onnx.NodeProto]:
        """The nodes of a FourierTransform."""
        nodes = Nodes(self.names.fresh, self._constant)
        parts = [name for value in op.inputs if (name := self.names[value])]
        outputs = [self.names[value] for value in op.outputs]
        return fourier_nodes(nodes, parts, outputs, attributes_of(op))

    def _scatter_order(self, op: dataflow.OperatorOp) -> list[onnx.NodeProto]:
        """The nodes of a ScatterOrder."""
        (slots, *_), (count,) = (shape_of(value.type) for value in op.outputs)
        outputs = [self.names[value] for value in op.outputs]
        nodes = Nodes(self.names.fresh, self._constant)
        return scatter_order_nodes(nodes, self.names[op.inputs[0]], outputs, slots - 1, count)

    def _segment_reduce(self, op: dataflow.OperatorOp) -> list[onnx.NodeProto]:
        """The nodes of a SegmentReduce."""
        inputs = [self.names[value] for value in op.inputs]
        output = self.names[op.outputs[0]]
        slots, count = (shape_of(value.type)[0] for value in op.inputs[1:4:2])
        nodes = Nodes(self.names.fresh, self._constant)
        # A ScatterND of the updates in order, to the slots that the starts stand for.
        updates, data, starts, order = inputs
        ends = nodes.part(nodes.add("Cast", starts, to=TensorProto.INT64), [1], [slots + 1])
        empty = np.zeros(count + 1, np.int64)
        ones = np.ones(slots, np.int64)
        marks = nodes.add("ScatterElements", empty, ends, ones, reduction="add")
        slot = nodes.part(nodes.add("CumSum", marks, 0), [0], [count])
        sorted_updates = nodes.add("Gather", updates, order, axis=0)
        places = nodes.add("Unsqueeze", slot, [1])
        nodes.named("ScatterND", [data, places, sorted_updates], output, reduction=op["reduction"])
        return nodes.made

    def _partial_ranges(self, op: dataflow.OperatorOp) -> list[onnx.NodeProto]:
        """The nodes of a PartialRanges."""
        tensor = self.names[op.inputs[0]]
        outputs = [self.names[value] for value in op.outputs]
        nodes, (count,) = Nodes(self.names.fresh, self._constant), shape_of(op.outputs[0].type)
        return partial_range_nodes(nodes, tensor, outputs, count)

    def _positions(self, op: dataflow.OperatorOp) -> list[onnx.NodeProto]:
        """The node of a Positions."""
        nodes = Nodes(self.names.fresh, self._constant)
        dtype = numpy_dtype(dtype_of(op.outputs[0].type))
        start = self.names[op.inputs[0]]
        output = self.names[op.outputs[0]]
        return position_nodes(nodes, start, output, dtype, attributes_of(op))

    def _constant(self, stem: str, array: np.ndarray) -> str:
        """Store a constant under a name like the given one."""
        return self._store(self.names.fresh(stem), array)

    def _recurrence(self, op: dataflow.OperatorOp) -> list[onnx.NodeProto]:
        """The nodes of a Recurrence."""
        inputs, outputs = (
            [self.names[value] for value in values] for values in (op.inputs, op.outputs)
        )
        shape = shape_of(op.inputs[1].type)
        attributes = attributes_of(op)
        dtype = numpy_dtype(dtype_of(op.inputs[0].type))
        return recurrence_nodes(
            inputs, outputs, attributes=attributes, weight=shape, dtype=dtype, store=self._constant
        )

    def _store(self, name: str, array: np.ndarray) -> str:
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def _if(self, op: dataflow.ControlOp) -> list[onnx.NodeProto]:
        """An If, whose branches see what they read."""
        condition, *read = (self.names[value] for value in op.inputs)
        branches: list[onnx.GraphProto] = []
        for graph in op.graphs:
            for argument, name in zip(graph.body.block.args, read, strict=True):
                self.names.bind(argument, name)
            results = [self.names.fresh("result") for _ in op.outputs]
            branches.append(self.graph(graph, [], results))
        made = [self.names[value] for value in op.outputs]
        node = helper.make_node("If", [condition], made)
        for name, branch in zip(("then_branch", "else_branch"), branches, strict=True):
            node.attribute.append(helper.make_attribute(name, branch))
        return [node]

    def _loop(self, op: dataflow.ControlOp) -> list[onnx.NodeProto]:
        """A Loop; rows are gathered in its body, and stacks turned around after it."""
        form = op.form
        read = [self.names[value] for value in op.inputs]
        if form.length is None:
            head = read[:2]
            read = read[2:]
        else:
            trips = self._store(self.names.fresh("trips"), np.array(form.length, np.int64))
            head = [trips, self._store(self.names.fresh("always"), np.array(True))]
        step, *states = list(op.graphs[0].body.block.args)
        going = self.names.fresh("going")
        infos = [_value_info(self.names[step], step)]
        infos.append(helper.make_tensor_value_info(going, onnx.TensorProto.BOOL, []))
        infos += [_value_info(self.names[v], v) for v in states[: form.carried]]
        places, sources = states[form.carried :], read[form.carried :]
        count = len(form.scans)
        rows = self._rows(form, self.names[step], sources[:count], places[:count])
        for argument, name in zip(places[count:], sources[count:], strict=True):
            self.names.bind(argument, name)
        # A loop's body; it passes its condition on if it does not compute one.
        graph = op.graphs[0]
        results = [self.names.fresh("result") for _ in graph.results_yielded]
        body = self.graph(graph, infos, results, rows)
        if not op.form.conditional:
            name = self.names.fresh("result")
            body.node.append(helper.make_node("Identity", [going], [name]))
            body.output.insert(0, helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, []))
        return self._loop_node(op, [*head, *read[: form.carried]], body)

    def _rows(
        self, form: ControlForm, step: str, sources: Sequence[str], places: Sequence[SSAValue]
    ) -> list[onnx.NodeProto]:
        """The nodes at the beginning of a body that take its rows from what it scans."""
        rows: list[onnx.NodeProto] = []
        for source, value, back in zip(sources, places, form.scans, strict=True):
            index = step
            if back:
                last = self._store(self.names.fresh("last"), np.array((form.length or 1) - 1))
                index = self.names.fresh("at")
                rows.append(helper.make_node("Sub", [last, step], [index]))
            rows.append(helper.make_node("Gather", [source, index], [self.names[value]], axis=0))
        return rows

    def _loop_node(
        self, op: dataflow.ControlOp, inputs: Sequence[str], body: onnx.GraphProto
    ) -> list[onnx.NodeProto]:
        """The Loop itself, and the nodes that turn around the stacks written from the last row."""
        form = op.form
        length = op.form.length or 0
        backwards = [False] * form.carried + list(form.stacks)
        made = [
            self.names.fresh("stack") if back else self.names[value]
            for value, back in zip(op.outputs, backwards, strict=True)
        ]
        nodes = [helper.make_node("Loop", inputs, made, body=body)]
        order = np.arange(length, dtype=np.int64)[::-1]
        for value, name, back in zip(op.outputs, made, backwards, strict=True):
            if back:
                turn = self._store(self.names.fresh("order"), order)
                nodes.append(helper.make_node("Gather", [name, turn], [self.names[value]], axis=0))
        return nodes
