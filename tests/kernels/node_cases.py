"""ONNX's own node test cases of the operators that have kernels, as groups of one operator."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy
import onnx
from onnx.helper import get_attribute_value

from compiler.ir import values
from compiler.ir.dataflow import OperatorOp
from compiler.kernels.group import Group, TensorInfo
from compiler.net.operators import KINDS, STRUCTURAL_INPUTS
from compiler.tensors.dtypes import ELEMENT_BYTES
from tests.kernels.harness import single
from tests.lowered import import_lowered
from tests.pages.onnx_nodes import node_cases

Array = numpy.ndarray


@dataclass(frozen=True)
class NodeCase:
    """One case: the group, the arrays that it reads, and the results expected."""

    name: str
    group: Group
    inputs: list[Array]
    expected: list[Array]
    rtol: float
    atol: float


@cache
def backend_cases() -> dict[str, Any]:
    """Every single-node case of the installed onnx whose operator has a kernel."""
    cases = node_cases().items()
    return {n: c for n, c in cases if c.model is not None and _is_kernel(c.model.graph)}


def _is_kernel(graph: onnx.GraphProto) -> bool:
    known = len(graph.node) == 1 and graph.node[0].op_type in KINDS
    return known and graph.node[0].domain in ("", "ai.onnx")


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values."""
    given = {a.name: get_attribute_value(a) for a in node.attribute}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}


def _explicit(model: onnx.ModelProto) -> dict[str, Any]:
    """The attributes of a model's node, with the pads that the importer makes explicit."""
    (node,) = model.graph.node
    given = attributes_of(node)
    if not given.keys() & {"auto_pad", "output_shape"}:
        return given
    imported = import_lowered(model).module.walk()
    (op,) = (op for op in imported if isinstance(op, OperatorOp))
    assert op.type_name == node.op_type
    return values.attributes_of(op)


def plain_types(case: Any) -> bool:
    """Whether all of a case's values are tensors of the dtypes that kernels know."""
    arrays = [numpy.asarray(a) for pair in case.data_sets[0] for a in pair]
    known = all(a.dtype.name in ELEMENT_BYTES for a in arrays)
    graph = case.model.graph
    return known and all(v.type.HasField("tensor_type") for v in (*graph.input, *graph.output))


def node_case(name: str) -> NodeCase:
    """Turn a case into a group."""
    case = backend_cases()[name]
    graph = case.model.graph
    node = graph.node[0]
    given, expected = case.data_sets[0]
    arrays = dict(zip((v.name for v in graph.input), map(numpy.asarray, given), strict=True))
    results = dict(zip((v.name for v in graph.output), map(numpy.asarray, expected), strict=True))
    outputs = [
        TensorInfo(results[n].dtype.name, results[n].shape) if n else TensorInfo("", ())
        for n in node.output
    ]
    group, inputs = single(
        node.op_type,
        [arrays.get(n) for n in node.input],
        outputs,
        _explicit(case.model),
        STRUCTURAL_INPUTS.get(node.op_type, ()),
    )
    wanted = tuple(n for n, o in zip(group.outputs, outputs, strict=True) if o.dtype)
    group = Group(
        group.name,
        group.values,
        group.inputs,
        group.weights,
        group.constants,
        group.operators,
        wanted,
    )
    listed = [results[n] for n in node.output if n]
    return NodeCase(name, group, inputs, listed, case.rtol, case.atol)


def usable_names() -> Iterator[str]:
    """The names of the cases that can be a group."""
    cases = backend_cases().items()
    return (name for name, case in cases if plain_types(case) and not _is_rewritten(case))


def _is_rewritten(case: Any) -> bool:
    """Whether the importer makes other operators of a node.

    Those are a weight with several zero points, channels that come first in SpaceToDepth, and
    column-major indices of MaxPool.
    """
    (node,), sizes = case.model.graph.node, [numpy.size(a) for a in case.data_sets[0][0]]
    if node.op_type == "SpaceToDepth":
        return attributes_of(node).get("mode") == "CRD"
    if node.op_type == "MaxPool":
        return bool(attributes_of(node).get("storage_order"))
    return node.op_type == "ConvInteger" and len(sizes) > 3 and sizes[3] > 1
