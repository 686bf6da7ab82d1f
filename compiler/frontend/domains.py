"""Domains of operators: the default one has two names, the empty one and `ai.onnx`."""

from collections.abc import Iterable, Iterator
from itertools import chain

import onnx
from onnx import helper

_DEFAULT = ("", "ai.onnx")

_Imports = Iterable[onnx.OperatorSetIdProto]
_Named = onnx.NodeProto | onnx.OperatorSetIdProto | onnx.FunctionProto


def domain_of(named: _Named) -> str:
    """The domain of a node, an opset or a function, the default domain as the empty string."""
    return "" if named.domain in _DEFAULT else named.domain


def opsets_of(imports: _Imports) -> dict[str, int]:
    """The opset version of each domain, the default domain as the empty string.

    Nodes have the highest version of a domain that is imported twice (onnx.proto).
    """
    opsets: dict[str, int] = {}
    for imported in imports:
        domain = domain_of(imported)
        opsets[domain] = max(opsets.get(domain, imported.version), imported.version)
    return opsets


def with_one_default_domain(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or a copy that names the default domain nowhere `ai.onnx`, as onnx's checker."""
    if not _has_alias(model):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for imports in (copy.opset_import, *(f.opset_import for f in copy.functions)):
        opsets = opsets_of(imports)
        del imports[:]
        imports.extend(helper.make_opsetid(*opset) for opset in opsets.items())
    for named in (*copy.functions, *all_nodes_of(copy)):
        named.domain = domain_of(named)
    return copy


def all_nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a model's graph and functions, and of the bodies in them."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from _with_inner(nodes)


def _with_inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _with_inner(body.node)


def _has_alias(model: onnx.ModelProto) -> bool:
    """Whether a node, or a function with its opsets, has the other name of the default domain."""
    own = [opset for function in model.functions for opset in function.opset_import]
    named: Iterable[_Named] = chain(own, model.functions, all_nodes_of(model))
    return any(domain_of(owner) != owner.domain for owner in named)
