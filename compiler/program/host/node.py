"""Nodes that run on the host, by onnx's reference implementation and a few faster functions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.errors import InputDataError, ModelError, UnsupportedOperatorError
from compiler.frontend.load import domain_of
from compiler.program.host import learned, operators
from compiler.program.host.registry import HOST_OPERATORS, HostCall, HostFunction, HostValue

HOST_FAMILIES = (learned, operators)
"""The modules whose import registers every host operator."""


def _attribute(attribute: onnx.AttributeProto) -> Any:
    """An attribute's value: strings as `str`, tensors as arrays."""
    value: Any = helper.get_attribute_value(attribute)
    match attribute.type:
        case onnx.AttributeProto.STRING:
            return value.decode(errors="replace")
        case onnx.AttributeProto.STRINGS:
            return [text.decode(errors="replace") for text in value]
        case onnx.AttributeProto.TENSOR:
            return numpy_helper.to_array(value)
        case _:
            return value


def _own(node: onnx.NodeProto, opsets: Mapping[str, int]) -> HostFunction | None:
    """The registered function of a node, or None where the reference implementation serves.

    Raises ModelError for attributes that are invalid.
    """
    domain = domain_of(node)
    operator = HOST_OPERATORS.get((domain, node.op_type))
    opset = opsets.get(domain, 0)
    if operator is None or opset < operator.first:
        return None
    call = HostCall(
        op_type=node.op_type,
        opset=opset,
        attributes={a.name: _attribute(a) for a in node.attribute},
        wanted=[bool(name) for name in node.output],
        proto=node,
    )
    try:
        return operator.factory(call)
    except ValueError as error:
        label = f"{node.op_type} {node.name or node.output[0]!r}"
        raise ModelError(f"{label}: {error}; export the model again") from error


class HostNode:
    """A node that runs on the host."""

    def __init__(self, node: onnx.NodeProto, reads: Sequence[str], opsets: Mapping[str, int]):
        """Prepare a node, which may also read tensors in its bodies.

        Raises ValueError or NotImplementedError if no implementation is known.
        """
        self.node = node
        self._own = _own(node, opsets)
        self._names = list(reads)
        self._wanted = [name for name in node.output if name]
        if self._own is None:
            evaluator: Any = ReferenceEvaluator(_model_of(node, reads, opsets))
            self._evaluate = partial(cast(Callable[..., list[Any]], evaluator.run), None)

    def run(self, values: Mapping[str, HostValue]) -> dict[str, HostValue]:
        """The outputs by name; raises InputDataError if the node does not fit its inputs."""
        try:
            return self._results(values)
        except ImportError as error:
            raise UnsupportedOperatorError(f"{self._label} cannot run here: {error}") from error
        except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError) as error:
            raise InputDataError(
                f"{self._label} does not fit its inputs ({_described(values)}): {error}; correct"
                " the model or the inputs of this run"
            ) from error

    @property
    def _label(self) -> str:
        return f"{self.node.op_type} {self.node.name or self._wanted[0]!r}"

    def _results(self, values: Mapping[str, HostValue]) -> dict[str, HostValue]:
        if self._own is not None:
            inputs = [values[name] if name else None for name in self.node.input]
            found = self._own(*inputs)
            return dict(zip(self.node.output, found, strict=False))
        results = self._evaluate({name: values[name] for name in self._names})
        return dict(zip(self._wanted, map(_plain, results), strict=True))


def constant_of(node: onnx.NodeProto) -> np.ndarray:
    """The value of a Constant node."""
    opsets = {"": onnx.defs.onnx_opset_version()}
    return HostNode(node, [], opsets).run({})[node.output[0]]


def runs_on_host(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether onnx's reference implementation has an operator."""
    try:
        HostNode(node, [name for name in node.input if name], opsets)
    except (ValueError, NotImplementedError, RuntimeError):
        return False
    return True


def _model_of(
    node: onnx.NodeProto, reads: Sequence[str], opsets: Mapping[str, int]
) -> onnx.ModelProto:
    """A model of one node."""
    infos = [onnx.ValueInfoProto(name=name) for name in reads]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "host", infos, results)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports)


def _plain(value: HostValue) -> HostValue:
    """A result as an array, a list of arrays, or None."""
    if value is None or isinstance(value, np.ndarray | dict):
        return cast(HostValue, value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    return np.asarray(value)


def _described(values: Mapping[str, HostValue]) -> str:
    """The types of inputs, for messages."""
    return ", ".join(f"{name}: {_type_text(value)}" for name, value in values.items())


def _type_text(value: HostValue) -> str:
    tensor = hasattr(value, "dtype")
    return f"{value.dtype}{list(value.shape)}" if tensor else type(value).__name__
