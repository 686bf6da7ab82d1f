"""Functions of a model that have the names of operators, or other opsets than the model."""

from collections.abc import Hashable, Mapping
from typing import Any

import onnx
from onnx import helper

from compiler.frontend.control.functions import nodes_of_other_schema
from compiler.frontend.domains import all_nodes_of, domain_of, opsets_of
from compiler.frontend.evaluate import schema_of
from compiler.frontend.rules.contrib.registry import CONTRIB
from compiler.frontend.semantics.choice import Semantics
from compiler.frontend.semantics.table import FUNCTION_NAMED_AS_OPERATOR, FUNCTION_OPSET

CHANGED_TEXTS = {"PRelu": 7}
"""The first opset in which an operator means something else in the same form.

Before 7 a slope of several numbers is one for each channel, since then it broadcasts. Other texts
of the history of ONNX's schemas say more of the same, or allow more.
"""


def with_chosen_functions(model: onnx.ModelProto, semantics: Semantics) -> onnx.ModelProto:
    """The model, or a copy whose functions follow onnxruntime as was chosen.

    Warns of the nodes whose functions onnxruntime takes for something else, if nobody chose.
    """
    return _with_chosen_opsets(_without_shadowing(model, semantics), semantics)


def _without_shadowing(model: onnx.ModelProto, semantics: Semantics) -> onnx.ModelProto:
    """The model without the functions in whose place onnxruntime computes an operator."""
    opsets = opsets_of(model.opset_import)
    shadowing = [f for f in model.functions if _has_operator(f, opsets.get(domain_of(f), 0))]
    keys = {(domain_of(f), f.name, f.overload) for f in shadowing}
    way = semantics.way(FUNCTION_NAMED_AS_OPERATOR)
    if way == "onnxruntime" and shadowing:
        kept = [function for function in model.functions if function not in shadowing]
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.functions[:]
        copy.functions.extend(kept)
        return copy
    if way is None and shadowing:
        for node in all_nodes_of(model):
            if (domain_of(node), node.op_type, node.overload) in keys:
                name = node.name or f"{node.op_type}_{node.output[0]}"
                semantics.warn(name, node.op_type, FUNCTION_NAMED_AS_OPERATOR)
    return model


def _with_chosen_opsets(model: onnx.ModelProto, semantics: Semantics) -> onnx.ModelProto:
    """The model with its own opsets in its functions, as onnxruntime takes them."""
    way = semantics.way(FUNCTION_OPSET)
    opsets = opsets_of(model.opset_import)
    if way == "onnx" or not model.functions:
        return model
    others = {
        (domain_of(f), f.name, f.overload): (node, opsets_of(f.opset_import))
        for f in model.functions
        for node in nodes_of_other_schema(f.node, f, {**opsets_of(f.opset_import), **opsets})
        if _means_other(node, opsets_of(f.opset_import), opsets)
    }
    if way == "onnxruntime" and others:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        for function in copy.functions:
            imported = {**opsets_of(function.opset_import), **opsets}
            del function.opset_import[:]
            function.opset_import.extend(helper.make_opsetid(*one) for one in imported.items())
        return copy
    for node in all_nodes_of(model) if others else ():
        key = domain_of(node), node.op_type, node.overload
        if key in others:
            inner, own = others[key]
            domain = domain_of(inner)
            detail = (
                f"{inner.op_type} in the function has opset {own.get(domain)} of"
                f" {domain or 'ai.onnx'}, the model {opsets.get(domain)}"
            )
            name = node.name or f"{node.op_type}_{node.output[0]}"
            semantics.warn(name, node.op_type, FUNCTION_OPSET, detail)
    return model


def _means_other(node: onnx.NodeProto, own: Mapping[str, int], model: Mapping[str, int]) -> bool:
    """Whether two opsets give an operator other inputs or attributes, or another text.

    Other types do not count. onnxruntime refuses what the model's opset does not have.
    """
    domain = domain_of(node)
    schemas: list[Any] = [
        schema_of(node.op_type, opsets.get(domain, 0), domain) for opsets in (own, model)
    ]
    if None in schemas or schemas[1].deprecated:
        return False
    first, last = sorted(schema.since_version for schema in schemas)
    changed = CHANGED_TEXTS.get(node.op_type, 0) if not domain else 0
    return first < changed <= last or _form(schemas[0]) != _form(schemas[1])


def _form(schema: Any) -> Hashable:
    """The attributes of a schema with their defaults, and its numbers of operands and results."""
    attributes = {
        (a.name, a.required, a.default_value.SerializeToString())
        for a in schema.attributes.values()
    }
    return frozenset(attributes), len(schema.inputs), schema.min_input, len(schema.outputs)


def _has_operator(function: onnx.FunctionProto, opset: int) -> bool:
    """Whether onnxruntime knows an operator with the name of a function; it refuses old ones."""
    schema = schema_of(function.name, opset, domain_of(function))
    contributed = (domain_of(function), function.name) in CONTRIB
    return contributed or (schema is not None and not schema.deprecated)
