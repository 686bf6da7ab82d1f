"""Evaluation of one operator of the table, or of one that is supported on constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.frontend.interpreter.constants import constant_operator, is_constant_operator
from compiler.net.attributes import Mismatch
from compiler.net.operators import OPERATORS
from compiler.net.operators.canonical import use_of
from compiler.net.spec import evaluate_use, known_use

Array = np.ndarray


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
    `precise` all of them are float64. The use has ONNX's form or the canonical one. Raises KeyError
    for an unknown operator, and ValueError or IndexError for inputs that do not fit.
    """
    entry = OPERATORS.get(op_type)
    try:
        if entry is not None:
            use = use_of(op_type, inputs, attributes, len(outputs), precise=precise)
        else:
            entry = constant_operator(op_type)
            use = known_use(op_type, entry, inputs, attributes, len(outputs), precise=precise)
    except Mismatch as error:
        raise ValueError(str(error)) from error
    pairs = zip(evaluate_use(use, entry), outputs, strict=True)
    return [array if wanted else None for array, wanted in pairs]
