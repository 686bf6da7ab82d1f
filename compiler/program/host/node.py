"""A node that runs on the host: by its registered function, or as the interpreter computes it."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from compiler.errors import THIS_RUN, DeviceError, FlowloomError, ModelError, RunInputError
from compiler.frontend.domains import domain_of
from compiler.frontend.evaluate import default_of, schema_of
from compiler.frontend.external import ModelFolder
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.specialise import is_compiled
from compiler.frontend.interpreter import is_known_operator
from compiler.frontend.node_order import names_read
from compiler.frontend.rules.classical import CLASSICAL, ML_DOMAIN
from compiler.frontend.tensors import array_of
from compiler.frontend.unsupported import NeedsHost, Unsupported
from compiler.net.attributes import Mismatch
from compiler.net.operators.indices import INDEXED, check_constant_indices
from compiler.net.spec import known_tensors
from compiler.program.host import images, learned, operators, random, text, training
from compiler.program.host.admission import schema_obstacle, type_obstacle
from compiler.program.host.node_results import node_results
from compiler.program.host.registry import HOST_OPERATORS, HostCall, HostFunction, HostValue
from compiler.program.host.types import FormalTypes, standard_results

HOST_FAMILIES = (images, learned, operators, random, text, training)
"""The modules whose import registers every host operator."""

ONLY_HOST = frozenset(
    (onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)
)
"""The element types that no kernel has in any operator."""


def _attribute(attribute: onnx.AttributeProto, folder: ModelFolder | None) -> Any:
    """An attribute's value: strings as `str`, tensors as arrays."""
    value: Any = helper.get_attribute_value(attribute)
    match attribute.type:
        case onnx.AttributeProto.STRING:
            return value.decode(errors="replace")
        case onnx.AttributeProto.STRINGS:
            return [text.decode(errors="replace") for text in value]
        case onnx.AttributeProto.TENSOR:
            return array_of(value, folder)
        case _:
            return value


def _own_function(node: onnx.NodeProto, context: ModelContext) -> HostFunction | None:
    """The registered function of a node; None where the interpreter computes it, if anything.

    Raises ModelError for attributes that are invalid, and Unsupported for a form that has none.
    """
    domain = domain_of(node)
    operator = HOST_OPERATORS.get((domain, node.op_type))
    opset = context.opsets.get(domain, 0)
    if operator is None or opset < operator.first:
        return None
    call = HostCall(
        op_type=node.op_type,
        opset=opset,
        attributes={a.name: _attribute(a, context.folder) for a in node.attribute},
        wanted=[bool(name) for name in node.output],
        proto=node,
    )
    with invalid_attributes(node):
        return operator.factory(call)


def host_obstacle(
    node: onnx.NodeProto, context: ModelContext, error: Unsupported
) -> Unsupported | None:
    """Why a node cannot run on the host either, where `error` is why it is not compiled."""
    try:
        if _own_function(node, context) is not None:
            return None
    except Unsupported as obstacle:
        return obstacle
    return None if isinstance(error, NeedsHost) else error


def runs_on_host(node: onnx.NodeProto, context: ModelContext) -> bool:
    """Whether an operator has an implementation on the host, at least in some forms."""
    operator = HOST_OPERATORS.get((domain_of(node), node.op_type))
    if operator is not None and context.opsets.get(domain_of(node), 0) >= operator.first:
        return True
    if is_compiled(node, context.opsets) or context.calls_function(node):
        return True
    exists = schema_of(node.op_type, context.opsets.get("", 0)) is not None
    return exists and not domain_of(node) and is_known_operator(node.op_type)


def only_on_host(node: onnx.NodeProto, context: ModelContext) -> bool:
    """Whether an operator has a function on the host, and nothing else computes or folds it."""
    op_type = node.op_type
    folded = op_type in CLASSICAL if domain_of(node) else is_known_operator(op_type)
    elsewhere = folded or is_compiled(node, context.opsets) or context.calls_function(node)
    return not elsewhere and runs_on_host(node, context)


def obstacle_on_host(node: onnx.NodeProto, context: ModelContext) -> Unsupported | None:
    """Why the host, which alone computes a node, has nothing for its attributes.

    None for a node with kernels or rules, too: its inputs decide. Raises ModelError for attributes
    that are invalid.
    """
    if is_compiled(node, context.opsets):
        return None
    try:
        _own_function(node, context)
    except Unsupported as error:
        return error
    return None


def obstacle_of_types(
    node: onnx.NodeProto, elements: Sequence[int], context: ModelContext
) -> Unsupported | None:
    """Why nothing computes a node for the element types of its inputs, 0 where one is not known.

    Nodes that the host alone computes, such as those of texts and of complex numbers, are checked
    for what their attributes ask, too. Raises ModelError for attributes that are invalid.
    """
    domain = domain_of(node)
    opset = context.opsets.get(domain, 0)
    if not (domain == ML_DOMAIN or only_on_host(node, context) or ONLY_HOST & {*elements}):
        return None if domain else schema_obstacle(node.op_type, domain, opset, elements)
    attributes = {a.name: _attribute(a, context.folder) for a in node.attribute}
    with invalid_attributes(node):
        return type_obstacle(node.op_type, domain, opset, elements, attributes)


@contextmanager
def invalid_attributes(node: onnx.NodeProto) -> Generator[None]:
    """Turn an error about attributes into a ModelError that names the node."""
    try:
        yield
    except (Mismatch, ValueError, TypeError, LookupError, ArithmeticError) as error:
        label = f"{node.op_type} {node.name or node.output[0]!r}"
        raise ModelError(f"{label}: {error}; export the model again") from error


class HostNode:
    """A node that runs on the host, which is not control flow."""

    def __init__(self, node: onnx.NodeProto, context: ModelContext):
        """Prepare a node; raises ModelError for attributes that are invalid, and Unsupported."""
        self.node = node
        self._context = context
        self._function = _own_function(node, context)
        domain = domain_of(node)
        self._types = FormalTypes.of(schema_of(node.op_type, context.opsets.get(domain, 0), domain))
        self._reads = [*node.input]
        self._writes = [*node.output]
        self._label = f"{node.op_type} {node.name or next(filter(None, node.output))!r}"

    def run(self, values: Mapping[str, HostValue]) -> dict[str, HostValue]:
        """The outputs by name; raises RunInputError if the node does not fit its inputs."""
        try:
            return self._results(values)
        except (
            Mismatch,
            ValueError,
            TypeError,
            LookupError,
            ArithmeticError,
        ) as error:
            if isinstance(error, FlowloomError):
                raise
            raise RunInputError(
                f"{self._label} does not fit its inputs ({_described(values)}): {error}; {THIS_RUN}"
            ) from error
        except MemoryError as error:
            raise DeviceError(
                f"out of memory: {self._label} ({_described(values)}) needs more than there is;"
                " give this run smaller inputs"
            ) from error

    def _results(self, values: Mapping[str, HostValue]) -> dict[str, HostValue]:
        self._check_indices([values[name] if name else None for name in self._reads])
        if self._function is None:
            inputs = {name: values[name] for name in names_read(self.node)}
            return node_results(self.node, inputs, self._context)
        inputs = [values[name] if name else None for name in self._reads]
        # division by zero and overflow have results in the standard
        with np.errstate(all="ignore"):
            results = standard_results(self._types, inputs, self._function(*inputs))
        pairs = zip(self._writes, results, strict=False)
        return {name: value for name, value in pairs if name}

    def _check_indices(self, inputs: Sequence[HostValue]) -> None:
        """Raise ShapeMismatch for an index out of range, if indices are checked."""
        op_type = self.node.op_type
        is_standard = domain_of(self.node) in ("", ML_DOMAIN)
        if self._context.check_indices and is_standard and op_type in INDEXED:
            check_constant_indices(op_type, known_tensors(inputs), self._attribute)

    def _attribute(self, name: str) -> Any:
        """An attribute's value, or its default."""
        matches = (a for a in self.node.attribute if a.name == name)
        domain = domain_of(self.node)
        default = default_of(self.node.op_type, self._context.opsets.get(domain, 0), name)
        return next((_attribute(a, self._context.folder) for a in matches), default)


def constant_of(node: onnx.NodeProto, folder: ModelFolder | None) -> np.ndarray:
    """The value of a Constant node."""
    context = ModelContext({"": onnx.defs.onnx_opset_version()}, folder=folder)
    return node_results(node, {}, context)[node.output[0]]


def _described(values: Mapping[str, HostValue]) -> str:
    """The types of inputs, for messages."""
    return ", ".join(f"{name}: {_type_text(value)}" for name, value in values.items())


def _type_text(value: HostValue) -> str:
    if value is None:
        return "an empty optional"
    if isinstance(value, list):
        return f"a sequence of {len(cast(Sequence[Any], value))}"
    tensor = hasattr(value, "dtype")
    return f"{value.dtype}{list(value.shape)}" if tensor else type(value).__name__
