"""Evaluation of one operator of the table, or of one that is supported on constants."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.frontend.interpreter.constants import constant_operator, is_constant_operator
from compiler.net.attributes import Mismatch
from compiler.net.node import Array, PreciseNode
from compiler.net.operators import OPERATORS
from compiler.net.operators.canonical import known_node
from compiler.net.spec import evaluate_known


def is_known_operator(op_type: str) -> bool:
    """Whether an operator can be evaluated."""
    entry = OPERATORS.get(op_type)
    return is_constant_operator(op_type) if entry is None else entry.evaluate is not None


def evaluate_node(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[bool] = (True,),
    precise: bool = False,
) -> list[Array | None]:
    """The results of an operator, None for those that are not wanted.

    Floats are computed in float64 and rounded once where that differs from their type; with
    `precise` all of them are float64. The node has ONNX's form or the canonical one. Raises
    KeyError for an unknown operator, and ValueError or IndexError for inputs that do not fit.
    """
    entry = OPERATORS.get(op_type) or constant_operator(op_type)
    try:
        node = known_node(op_type, inputs, attributes, len(outputs), entry)
    except Mismatch as error:
        raise ValueError(str(error)) from error
    if precise:
        node = PreciseNode(node.type, node.attributes, node.inputs, node.outputs)
    pairs = zip(evaluate_known(node, entry), outputs, strict=True)
    return [array if wanted else None for array, wanted in pairs]
