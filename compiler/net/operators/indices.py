"""Bounds of the inputs that are indices.

Kernels clamp indices that are computed at run time. Constant indices are checked when a model is
imported, others by operators that `check_indices=True` adds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.net.attributes import Shape
from compiler.net.node import OperatorInput, ShapeMismatch


@dataclass(frozen=True, slots=True)
class Bounds:
    """The smallest and largest valid numbers of an input, for each index of its last axis.

    A single pair holds for all elements.
    """

    input: int
    low: Shape
    high: Shape

    def __str__(self) -> str:
        ranges = zip(self.low, self.high, strict=True)
        return ", ".join(f"[{low}, {high}]" for low, high in ranges)


Shapes = Sequence[Shape]
AttributeOf = Callable[[str], Any]
"""The value of an attribute by its name, or its default."""


def _around(sizes: Shape) -> Bounds:
    """Indices of dimensions, which count from the end if they are negative."""
    return Bounds(1, tuple(-size for size in sizes), tuple(size - 1 for size in sizes))


def _along_axis(shapes: Shapes, attribute: AttributeOf) -> Bounds:
    axis: int = attribute("axis")
    return _around((shapes[0][axis],))


def _gathered(shapes: Shapes, attribute: AttributeOf) -> Bounds:
    x, indices = shapes[:2]
    batch: int = attribute("batch_dims")
    return _around(x[batch : batch + indices[-1]])


def _scattered(shapes: Shapes, attribute: AttributeOf) -> Bounds:
    return _around(shapes[0][: shapes[1][-1]])


def _reversed(shapes: Shapes, attribute: AttributeOf) -> Bounds:
    axis: int = attribute("time_axis")
    return Bounds(1, (0,), (shapes[0][axis],))


def _recurrent(shapes: Shapes, attribute: AttributeOf) -> Bounds:
    x = shapes[0]
    return Bounds(4, (0,), (x[1 if attribute("layout") else 0],))


def _columns(shapes: Shapes, attribute: AttributeOf) -> Bounds:
    return Bounds(1, (0,), (shapes[0][-1] - 1,))


INDEXED: dict[str, Callable[[Shapes, AttributeOf], Bounds]] = {
    **dict.fromkeys(("Gather", "GatherElements", "Scatter", "ScatterElements"), _along_axis),
    "GatherND": _gathered,
    "ScatterND": _scattered,
    "ReverseSequence": _reversed,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "ArrayFeatureExtractor": _columns,
}
"""Operators with such an input; not OneHot, which defines a result for indices out of range."""


GATHERS = ("Gather", "GatherElements", "GatherND")
"""Operators that read their first operand at the indices of the second."""


def index_bounds(
    op_type: str, inputs: Sequence[OperatorInput | None], attribute: AttributeOf
) -> Bounds | None:
    """The bounds of an operator's indices, if its shapes fit; None if it has none."""
    bounds = INDEXED.get(op_type)
    if bounds is None:
        return None
    result = bounds([() if value is None else value.shape for value in inputs], attribute)
    indices = inputs[result.input] if result.input < len(inputs) else None
    return None if indices is None or 0 in indices.shape else result


def check_constant_indices(
    op_type: str, inputs: Sequence[OperatorInput | None], attribute: AttributeOf
) -> None:
    """Raise ShapeMismatch for a constant index that is out of range."""
    bounds = index_bounds(op_type, inputs, attribute)
    value = None if bounds is None else inputs[bounds.input]
    if bounds is not None and value is not None:
        check_known(bounds, value)


def check_known(bounds: Bounds, value: OperatorInput) -> None:
    """Raise ShapeMismatch for an index of an input that is out of its bounds, if it is constant."""
    if value.array is None:
        return
    wrong = (value.array < np.array(bounds.low)) | (value.array > np.array(bounds.high))
    if wrong.any():
        index = np.extract(wrong, value.array)[0]
        raise ShapeMismatch(
            f"its input {bounds.input} has the index {index}, which is outside {bounds}"
        )
