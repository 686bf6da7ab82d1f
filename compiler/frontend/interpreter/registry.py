"""The registry of evaluations, and the node that an evaluation reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

Array = np.ndarray
Results = Array | Sequence[Array | None]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with its input arrays; `outputs` says which results are wanted.

    With `precise` all its floats are float64, whatever the model's types.
    """

    op_type: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: Sequence[bool] = (True,)
    precise: bool = False

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def __getitem__(self, index: int) -> Array:
        array = self.inputs[index] if index < len(self.inputs) else None
        if array is None:
            raise ValueError(f"input {index} is left out")
        return array

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value; floats, also defaults, are rounded to float32."""
        value = self.attributes.get(name, default)
        return float(np.float32(value)) if isinstance(value, float) else value

    def integers(self, index: int, name: str = "") -> list[int] | None:
        """A vector of integers: an input or, in old opsets, an attribute; None if left out."""
        if self.has(index):
            return [int(value) for value in self[index].reshape(-1).tolist()]
        return self.attributes.get(name)

    def wants(self, output: int) -> bool:
        """Whether a result is wanted."""
        return output < len(self.outputs) and self.outputs[output]

    def dtype_of(self, element: int) -> np.dtype:
        """The dtype of an ONNX element type."""
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
        return np.dtype(np.float64) if self.precise and "float" in dtype.name else dtype


Evaluation = Callable[[Node], Results]

EVALUATIONS: dict[str, Evaluation] = {}
"""The evaluation of each operator."""


def evaluates(*names: str) -> Callable[[Evaluation], Evaluation]:
    """Register the evaluation of operators."""

    def register(function: Evaluation) -> Evaluation:
        EVALUATIONS.update(dict.fromkeys(names, function))
        return function

    return register


def positive_axis(axis: int, rank: int) -> int:
    """An axis counted from the front; raises ValueError if it is outside."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis + rank if axis < 0 else axis
