"""The results of one node whose inputs are all known, by the same rules as compiled graphs."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import onnx

from compiler.errors import THIS_RUN, RunInputError, UnsupportedOperatorError
from compiler.frontend.builder import Builder
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.specialise import Scope, Specialiser
from compiler.frontend.sequences import single_tensors
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
    return {name: _content(specialiser.builder, scope.values[name]) for name in node.output if name}


def _value(name: str, value: Known) -> Value:
    if isinstance(value, np.ndarray):
        return constant(name, cast(Array, value))
    if value is None:
        raise RunInputError(
            f"{name!r} is an empty optional, which OptionalHasElement can ask; {THIS_RUN}"
        )
    sequence = value if isinstance(value, HostSequence) else HostSequence(value, "")
    if sequence.constants is None:
        sequence.constants = _constants(name, sequence)
    items = sequence.constants
    dtype = items[0].dtype if items else sequence.items_dtype or "float32"
    return Value(name, items=items, item_dtype=dtype)


def _constants(name: str, sequence: HostSequence) -> list[Value]:
    """The tensors of a sequence as known values; raises RunInputError if it has others."""
    if odd := {type(item).__name__ for item in sequence if not isinstance(item, np.ndarray)}:
        raise RunInputError(
            f"the sequence {name!r} holds {', '.join(sorted(odd))}, not tensors; {THIS_RUN}"
        )
    return [constant(f"{name}.{i}", array) for i, array in enumerate(sequence)]


def _content(builder: Builder, value: Value | None) -> Known:
    assert value is not None
    if value.items is not None:
        constants = single_tensors(builder, value.items)
        return HostSequence([item.content for item in constants], value.item_dtype, constants)
    return value.content
