"""Nodes that run on the host, by onnx's reference implementation and a few faster functions."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.errors import InputDataError, ModelError, UnsupportedOperatorError
from compiler.frontend.interpreter.constants import compressed, non_zero
from compiler.frontend.rules.classical import ML_DOMAIN
from compiler.program.classical import classical
from compiler.program.suppression import non_maximum_suppression

HostValue = Any
"""An array, a list of them (a sequence) or of dictionaries (maps), or None (an empty optional)."""


def _optional(value: HostValue = None, **_: Any) -> tuple[HostValue]:
    """An optional is its value, or None."""
    return (value,)


def _has_element(value: HostValue = None) -> tuple[np.ndarray]:
    return (np.array(value is not None),)


def _compress(
    x: np.ndarray, condition: np.ndarray, *, axis: int | None = None
) -> tuple[np.ndarray]:
    return (compressed(x, condition, axis),)


def _non_zero(x: np.ndarray) -> tuple[np.ndarray]:
    return (non_zero(x),)


def _constant_of_shape(
    shape: np.ndarray, value: onnx.TensorProto | None = None
) -> tuple[np.ndarray]:
    element = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return (np.full(shape, element.reshape(()), element.dtype),)


def _texts(x: np.ndarray, **_: Any) -> tuple[np.ndarray]:
    """Numbers as onnxruntime writes them: at most 8 digits, and truth as 1 or 0."""
    if x.dtype == object:
        return (x,)
    write = "{:d}" if x.dtype.kind in "biu" else "{:.8g}"
    found = (write.format(value) for value in x.astype(_WRITTEN.get(x.dtype.kind, float)).flat)
    return (np.array([_SPECIAL.get(text, text) for text in found], object).reshape(x.shape),)


_WRITTEN = {"b": int, "i": np.int64, "u": np.uint64}
_SPECIAL = {"nan": "NaN", "-nan": "NaN", "inf": "INF", "-inf": "-INF"}

OWN: Mapping[str, Callable[..., Sequence[HostValue]]] = {
    "Compress": _compress,
    "ConstantOfShape": _constant_of_shape,
    "NonZero": _non_zero,
    "NonMaxSuppression": non_maximum_suppression,
    "Optional": _optional,
    "OptionalGetElement": _optional,
    "OptionalHasElement": _has_element,
}
"""Operators that onnx's reference implementation is slow at, or takes fewer shapes of."""


def _own(node: onnx.NodeProto) -> Callable[..., Sequence[HostValue]] | None:
    """The function for a node, or None where the reference implementation serves.

    Raises ModelError for an ensemble of trees that is none.
    """
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.domain == ML_DOMAIN:
        try:
            return classical(node.op_type, attributes)
        except ValueError as error:
            label = f"{node.op_type} {node.name or node.output[0]!r}"
            raise ModelError(f"{label}: {error}; export the model again") from error
    function = OWN.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if attributes.get("to") == onnx.TensorProto.STRING and node.op_type == "Cast":
        function = _texts
    return None if function is None else partial(function, **attributes)


class HostNode:
    """A node that runs on the host."""

    def __init__(self, node: onnx.NodeProto, reads: Sequence[str], opsets: Mapping[str, int]):
        """Prepare a node, which may also read tensors in its bodies.

        Raises ValueError or NotImplementedError if no implementation is known.
        """
        self.node = node
        self._own = _own(node)
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
