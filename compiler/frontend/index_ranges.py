"""Ranges of indices that a run computes from sizes, checked as those of constants are.

For numbers such indices are constants. Kernels clamp indices that are out of range, so a size for
which a constant would be refused must not reach them.
"""

from dataclasses import dataclass, field

import numpy as np

from compiler.net.graph import Value
from compiler.net.node import Node
from compiler.net.operators import OPERATORS, POSITIONS, Kind, ShapeMismatch, facts_of
from compiler.net.operators.elementwise import ONNX_DTYPES
from compiler.net.operators.indices import index_bounds
from compiler.tensors.substitution import has_symbols

Ends = tuple[int, int]
"""The least and the largest element; extents perhaps."""

_INTEGERS = ("int32", "int64")


@dataclass
class IndexRanges:
    """The ranges of the integers that operators have made of sizes so far."""

    _ends: dict[Value, Ends] = field(default_factory=dict[Value, Ends])

    def note(self, node: Node[Value]) -> None:
        """Remember the range of results that depend on sizes, if it follows from operands'."""
        sized = any(has_symbols(value.shape) for value in node.outputs)
        if sized or node.type == POSITIONS or any(value in self._ends for value in node.inputs):
            ends = self._of_result(node)
            if ends is not None:
                self._ends |= dict.fromkeys(node.outputs, ends)

    def check(self, node: Node[Value]) -> None:
        """Raise ShapeMismatch for indices that are out of range, if their range is known."""
        if not self._ends:
            return
        bounds = index_bounds(node.type, node.inputs, node.__getitem__)
        indices = None if bounds is None else node.inputs[bounds.input]
        if bounds is None or indices is None or indices not in self._ends or len(bounds.low) != 1:
            return
        least, largest = self._ends[indices]
        if least < bounds.low[0] or largest > bounds.high[0]:
            raise ShapeMismatch(
                f"its input {bounds.input} has indices from {least} to {largest}, outside {bounds}"
            )

    def _of_result(self, node: Node[Value]) -> Ends | None:
        """The range of an operator's results; None if it is not known."""
        if node.type == POSITIONS:
            return self._counted(node)
        operands = [self._of(value) for value in node.inputs]
        if not operands or operands[0] is None:
            return None
        spec = OPERATORS[node.type]
        if spec.kind is Kind.VIEW or spec.picks:
            return operands[0]
        if facts_of(node.type).converts:
            return operands[0] if ONNX_DTYPES.get(node["to"]) in _INTEGERS else None
        if node.type not in ("Add", "Mul") or operands[1] is None:
            return None
        (low, high), (least, most) = operands[0], operands[1]
        if node.type == "Add":
            return low + least, high + most
        return (low * least, high * most) if low >= 0 and least >= 0 else None

    def _counted(self, node: Node[Value]) -> Ends | None:
        start = self._of(node.inputs[0])
        if start is None:
            return None
        first = start[0] + node["first"]
        last = first + node["step"] * (node["count"] - 1)
        return (first, last) if first <= last else (last, first)

    def _of(self, value: Value | None) -> Ends | None:
        """The range of an operand: of a constant that of its elements."""
        if value is None or value.array is None:
            return None if value is None else self._ends.get(value)
        if value.dtype not in _INTEGERS or not value.array.size or value.symbolic:
            return None
        numbers = np.asarray(value.array)
        return int(numbers.min()), int(numbers.max())
