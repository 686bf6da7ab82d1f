"""Warnings about models whose sizes only a run decides, before any run."""

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
import onnx
from onnx import helper

from compiler.frontend.domains import domain_of
from compiler.frontend.evaluate import dtype_name
from compiler.frontend.node import ModelNode, with_texts
from compiler.frontend.semantics.choice import Semantics, rules_of
from compiler.frontend.semantics.rule import SemanticsRule
from compiler.net.graph import Value, constant

SIZES = range(60, 72)
"""The sizes that every open dimension is tried with: of all remainders by small strides."""

LARGEST_CONSTANT = 1024
"""The most elements of a constant that onnx's inference gets: shapes, not weights."""

Infos = Mapping[str, onnx.TypeProto]
"""The types of tensors by name."""


def warn_of_open_sizes(
    model: onnx.ModelProto, constants: Mapping[str, np.ndarray], semantics: Semantics
) -> None:
    """Warn of the nodes that meet a rule for some sizes of a model's open dimensions.

    Where onnx does not infer a type, the warning comes when a run's sizes are compiled.
    """
    if not any(_candidates(node) for node, _ in _nodes(model.graph, {})):
        return
    for node, infos in typed_nodes(model):
        name = node.name or f"{node.op_type}_{node.output[0]}"
        for rule in _candidates(node):
            if semantics.way(rule) is None and _meets(node, rule, infos, constants):
                semantics.warn(name, node.op_type, rule)


def typed_nodes(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, Infos]]:
    """The nodes of a model and of its bodies with the types, by name, that onnx infers.

    Where the inference fails, which has no class of errors, those that the model declares.
    """
    typed = model
    with suppress(Exception):
        # The model with large initializers turned into inputs.
        light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
        graph = model.graph
        light.graph.name = graph.name
        light.graph.node.extend(graph.node)
        light.graph.input.extend(graph.input)
        light.graph.output.extend(graph.output)
        light.graph.value_info.extend(graph.value_info)
        present = {info.name for info in graph.input}
        for tensor in graph.initializer:
            if int(np.prod(tensor.dims)) <= LARGEST_CONSTANT:
                light.graph.initializer.append(tensor)
            elif tensor.name not in present:
                info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                light.graph.input.append(info)
        typed = onnx.shape_inference.infer_shapes(light)
    yield from _nodes(typed.graph, {})


def _candidates(node: onnx.NodeProto) -> list[SemanticsRule]:
    """The rules that a node may meet by its attributes; those that refuse it raise errors."""
    present = {attribute.name for attribute in node.attribute}
    rules = () if domain_of(node) else rules_of(node.op_type)
    return [rule for rule in rules if {rule.attribute} <= {*present, ""} and not rule.refuses]


def _nodes(graph: onnx.GraphProto, outer: Infos) -> Iterator[tuple[onnx.NodeProto, Infos]]:
    """The nodes of a graph and of the bodies in it, with the types that they see."""
    infos = {info.name: info.type for info in (*graph.input, *graph.value_info, *graph.output)}
    constants = {
        t.name: helper.make_tensor_type_proto(t.data_type, t.dims)
        for t in graph.initializer
        if t.name not in infos
    }
    infos = {**outer, **constants, **infos}
    for node in graph.node:
        yield node, infos
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body, infos)


def _meets(
    node: onnx.NodeProto,
    rule: SemanticsRule,
    infos: Infos,
    constants: Mapping[str, np.ndarray],
) -> bool:
    """Whether a node meets a rule for some size of its open dimensions."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for size in SIZES:
        inputs = [_value(name, infos, constants, size) for name in node.input]
        pairs = zip(node.input, inputs, strict=True)
        if not inputs or any(name and value is None for name, value in pairs):
            return False
        used = [bool(name) for name in node.output]
        newest = onnx.defs.onnx_opset_version()
        if rule.meets(ModelNode(node.op_type, newest, inputs, with_texts(attributes), used)):
            return True
    return False


def _value(name: str, infos: Infos, constants: Mapping[str, np.ndarray], size: int) -> Value | None:
    """An input of a node, whose open dimensions have a size; None if its type is not known."""
    if name in constants:
        return constant(name, constants[name])
    tensor = infos[name].tensor_type if name in infos else onnx.TypeProto.Tensor()
    if not tensor.elem_type or not tensor.HasField("shape"):
        return None
    return Value(
        name,
        dtype_name(tensor.elem_type),
        tuple(d.dim_value if d.HasField("dim_value") else size for d in tensor.shape.dim),
    )
