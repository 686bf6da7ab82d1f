"""A model as a body of a program, with the types of its inputs and outputs."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from compiler.errors import ShapeError, UnsupportedOperatorError
from compiler.frontend.control.functions import without_functions
from compiler.frontend.domains import domain_of, opsets_of
from compiler.frontend.evaluate import dtype_name
from compiler.frontend.importing.chosen_functions import with_chosen_functions
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.specialise import Problem
from compiler.frontend.importing.unknown import unknown_operator
from compiler.frontend.load import check_model, folder_of, read_model, without_weights
from compiler.frontend.node_order import live_nodes
from compiler.frontend.rules.refusals import form_refusal
from compiler.frontend.semantics import ONNX, Semantics
from compiler.frontend.semantics.open_sizes import typed_nodes, warn_of_open_sizes
from compiler.frontend.shapes import checked_shape, dimensions_of
from compiler.frontend.tensors import arrays_of
from compiler.program.body import BodyGraph, without_constants
from compiler.program.host import (
    obstacle_of_types,
    obstacle_on_host,
    only_on_host,
    runs_on_host,
)
from compiler.program.signature import ValueType
from compiler.support.words import counted

GivenShapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class ReadModel:
    """A model in the terms of a program."""

    proto: onnx.ModelProto
    """A copy, as the caller may change theirs, without the `weights`, which are constants."""
    weights: Sequence[str]
    graph: BodyGraph
    inputs: Sequence[ValueType]
    outputs: Sequence[ValueType]
    context: ModelContext
    shapes: GivenShapes
    """The sizes that were given for inputs."""

    def weights_now(self) -> Iterator[tuple[str, np.ndarray]]:
        """The weights by name; raises ModelError if a file of them was written to since."""
        self.context.check_data()
        for name in self.weights:
            yield name, self.graph.constants[name]
        self.context.check_data()


def read_program(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shapes: GivenShapes,
    check_indices: bool,
    semantics: Semantics = ONNX,
) -> ReadModel:
    """Read a model whose operators are all known, inlining its functions of the same opsets.

    Warns of nodes that meet a rule of `semantics` for some sizes without a choice. Raises
    ModelError, ShapeError, and UnsupportedOperatorError with every unknown operator.
    """
    folder = folder_of(model)
    proto = read_model(model, folder)
    check_model(proto)
    proto = without_functions(with_chosen_functions(proto, semantics))
    stripped = without_weights(proto)
    opsets = opsets_of(proto.opset_import)
    functions = list(stripped.functions)
    context = ModelContext(opsets, functions, folder, check_indices, semantics=semantics)
    check_operators(proto.graph, context)
    check_forms(proto.graph, opsets)
    check_element_types(proto, context)
    constants = arrays_of(proto.graph, folder)
    inputs = [i for i in proto.graph.input if i.name not in constants]
    outputs = tuple(dict.fromkeys(output.name for output in proto.graph.output))
    live = (node for node, _ in live_nodes(stripped.graph.node, outputs))
    nodes, folded = without_constants(live, folder)
    graph = BodyGraph(
        name=proto.graph.name or "main",
        nodes=nodes,
        inputs=tuple(info.name for info in inputs),
        outputs=outputs,
        constants=constants | folded,
        opsets=opsets,
    )
    warn_of_open_sizes(proto, graph.constants, semantics)
    types = _with_shapes([type_of(info) for info in inputs], shapes)
    results = [type_of(output) for output in proto.graph.output]
    return ReadModel(
        proto=stripped,
        weights=[tensor.name for tensor in proto.graph.initializer],
        graph=graph,
        inputs=types,
        outputs=results,
        context=context,
        shapes=shapes,
    )


def type_of(info: onnx.ValueInfoProto) -> ValueType:
    """The declared type of an input or an output."""
    return _value_type(info.name, info.type)


def _value_type(name: str, proto: onnx.TypeProto) -> ValueType:
    """A type of a value, of an item of a sequence, or of the value of an optional."""
    kind = str(proto.WhichOneof("value") or "tensor_type").removesuffix("_type")
    if kind == "map":
        keys = proto.map_type.key_type
        dtype = dtype_name(proto.map_type.value_type.tensor_type.elem_type)
        return ValueType(name, dtype, kind=kind, keys=dtype_name(keys))
    if kind in ("sequence", "optional"):
        element: onnx.TypeProto = getattr(proto, f"{kind}_type").elem_type
        open_type = element.WhichOneof("value") is None
        return ValueType(name, kind=kind, element=None if open_type else _value_type(name, element))
    if kind != "tensor":
        return ValueType(name, kind=kind)
    dims = dimensions_of(onnx.ValueInfoProto(name=name, type=proto))
    shape = None if dims is None else tuple(None if d == "" else d for d in dims)
    return ValueType(name, dtype_name(proto.tensor_type.elem_type), shape)


def _with_shapes(types: Sequence[ValueType], shapes: GivenShapes) -> list[ValueType]:
    """The types with the given sizes, which hold for every use of a symbol."""
    if unknown := sorted(set(shapes) - {type.name for type in types}):
        raise ShapeError(
            f"the model has no input {unknown[0]!r}; its inputs are"
            f" {', '.join(type.name for type in types) or 'none'}"
        )
    symbols: dict[str, int] = {}
    for type in types:
        if type.name in shapes:
            dims = None if type.shape is None else ["" if d is None else d for d in type.shape]
            sizes = checked_shape(type.name, shapes[type.name], dims)
            symbols |= {d: n for d, n in zip(dims or (), sizes, strict=False) if isinstance(d, str)}
    return [_fixed(type, shapes, symbols) for type in types]


def _fixed(type: ValueType, shapes: GivenShapes, symbols: Mapping[str, int]) -> ValueType:
    if type.name in shapes:
        return ValueType(type.name, type.dtype, tuple(int(size) for size in shapes[type.name]))
    if type.shape is None:
        return type
    shape = tuple(symbols.get(d, d) if isinstance(d, str) else d for d in type.shape)
    return replace(type, shape=shape)


def check_operators(graph: onnx.GraphProto, context: ModelContext) -> None:
    """Raise UnsupportedOperatorError, with all of them, for operators that nothing implements.

    Raises ModelError for attributes in bodies that an operator of the host cannot have; other nodes
    are checked when their body's steps are made.
    """
    problems = list(_problems(graph.node, context, inner=False))
    for function in context.functions:
        function_context = replace(context, opsets=opsets_of(function.opset_import))
        problems += _problems(function.node, function_context, inner=True)
    _refuse(sorted(problems, key=str))


def _problems(
    nodes: Iterable[onnx.NodeProto], context: ModelContext, inner: bool
) -> Iterator[Problem]:
    """The operators of nodes, and of the bodies in them, that nothing implements."""
    for node in nodes:
        domain = domain_of(node)
        opset = context.opsets.get(domain, 0)
        error = None
        if not runs_on_host(node, context):
            error = unknown_operator(node.op_type, domain, opset)
        elif inner or not only_on_host(node, context):
            error = obstacle_on_host(node, context)
        if error is not None:
            where = f"{node.domain or 'ai.onnx'} opset {opset}"
            yield Problem(node.name or node.output[0], node.op_type, where, error)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _problems(body.node, context, inner=True)


def check_forms(graph: onnx.GraphProto, opsets: Mapping[str, int]) -> None:
    """Raise UnsupportedOperatorError for a node whose attributes ask for what nothing computes."""
    opset = opsets.get("", 0)
    for node in _all_nodes(graph):
        if error := form_refusal(node, opset):
            where = f"ai.onnx opset {opset}"
            _refuse([Problem(node.name or node.output[0], node.op_type, where, error)])


def check_element_types(model: onnx.ModelProto, context: ModelContext) -> None:
    """Raise UnsupportedOperatorError for nodes that do not take the element types of their inputs.

    Types are the declared ones and what onnx infers from them.
    """
    refused: list[Problem] = []
    for node, infos in typed_nodes(model):
        elements = [infos[n].tensor_type.elem_type if n in infos else 0 for n in node.input]
        if error := obstacle_of_types(node, elements, context):
            domain = domain_of(node)
            where = f"{domain or 'ai.onnx'} opset {context.opsets.get(domain, 0)}"
            refused.append(Problem(node.name or node.output[0], node.op_type, where, error))
    _refuse(refused)


def _refuse(problems: Iterable[Problem]) -> None:
    """Raise UnsupportedOperatorError with all problems, each once, if there are any."""
    if texts := dict.fromkeys(map(str, problems)):
        count = counted(len(texts), "operator")
        raise UnsupportedOperatorError(f"{count} cannot be compiled:\n" + "\n".join(texts))


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _all_nodes(body)
