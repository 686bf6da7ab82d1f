"""Evaluation of one operator of the normalised opset, or of one that is supported on constants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.frontend.interpreter import (
    activations,
    constants,
    contraction,
    elementwise,
    indexing,
    movement,
    normalization,
    recurrence,
    reductions,
    resize,
    rounding,
    segments,
    windows,
)
from compiler.frontend.interpreter.registry import EVALUATIONS, Array, Node

FAMILIES = (
    activations,
    constants,
    contraction,
    elementwise,
    indexing,
    movement,
    normalization,
    recurrence,
    reductions,
    resize,
    rounding,
    segments,
    windows,
)
"""The modules whose import registers every evaluation."""


def is_known_operator(op_type: str) -> bool:
    """Whether an operator can be evaluated."""
    return op_type in EVALUATIONS


def evaluate_node(
    op_type: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[bool] = (True,),
    precise: bool = False,
) -> list[Array | None]:
    """The results of an operator, None for those that are not wanted.

    Floats are computed in float64 and rounded once where that differs from their type; with
    `precise` all of them are float64. Raises KeyError for an unknown operator, and ValueError or
    IndexError for inputs that do not fit.
    """
    node = Node(op_type, inputs, attributes, outputs, precise)
    try:
        with np.errstate(all="ignore"):
            results = EVALUATIONS[op_type](node)
    except ZeroDivisionError as error:
        raise ValueError(f"an attribute of {op_type} is 0 ({error})") from error
    if isinstance(results, np.ndarray | np.generic | str):
        results = [results]
    arrays = [None if array is None else _as_array(array) for array in results]
    arrays += [None] * (len(outputs) - len(arrays))
    return [array if wanted else None for array, wanted in zip(arrays, outputs, strict=False)]


def _as_array(result: Array | str) -> Array:
    """A result as an array; an element of texts is one, too."""
    return np.array(result, object) if isinstance(result, str) else np.asarray(result)
