"""The results of one node whose inputs are all known, by the same rules as compiled graphs."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx

from compiler.errors import THIS_RUN, RunInputError, UnsupportedOperatorError
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.specialise import Scope, Specialiser
from compiler.net.graph import Graph, Value, constant
from compiler.program.host.registry import HostSequence

Array = np.ndarray

Known = Any
"""An array, or a list of arrays where the tensor is a sequence."""


def node_results(
    node: onnx.NodeProto, inputs: Mapping[str, Known], context: ModelContext
) -> dict[str, Known]:
    """The outputs by name of a node that is not control flow, in numpy.

    `inputs` has what its bodies capture, too. Tensors may be of any type of ONNX. Raises
    RunInputError if the inputs do not fit the node, and UnsupportedOperatorError if no rule and no
    evaluation takes its form.
    """
    plain_context = ModelContext(
        context.opsets, context.functions, context.folder, semantics=context.semantics
    )
    specialiser = Specialiser(plain_context, Graph([]))
    specialiser.builder.bounded = False
    specialiser.builder.checks_indices = context.check_indices
    scope = Scope(context.opsets)
    scope.values |= {n: _value(n, v) for n, v in inputs.items()}
    needed = {name for name in node.output if name}
    specialiser.visit(node, needed, scope)
    if specialiser.problems:
        raise UnsupportedOperatorError(
            "1 operator cannot be compiled:\n" + str(specialiser.problems[0])
        )
    return {name: _content(scope.values[name]) for name in node.output if name}


def _value(name: str, value: Known) -> Value:
    if isinstance(value, np.ndarray):
        return constant(name, cast(Array, value))
    if value is None:
        raise RunInputError(
            f"{name!r} is an empty optional, which OptionalHasElement can ask; {THIS_RUN}"
        )
    if odd := {type(item).__name__ for item in value if not isinstance(item, np.ndarray)}:
        raise RunInputError(
            f"the sequence {name!r} holds {', '.join(sorted(odd))}, not tensors; {THIS_RUN}"
        )
    items = [constant(f"{name}.{i}", v) for i, v in enumerate(cast(Sequence[Array], value))]
    dtype = value.items_dtype if isinstance(value, HostSequence) else ""
    return Value(name, items=items, item_dtype=items[0].dtype if items else dtype or "float32")


def _content(value: Value | None) -> Known:
    assert value is not None
    if value.items is not None:
        return HostSequence([item.content for item in value.items], value.item_dtype)
    return value.content
