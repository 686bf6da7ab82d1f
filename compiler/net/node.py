"""A node of an operator graph: one application of an operator, from the model to the kernel."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from compiler.net.attributes import Mismatch, Shape
from compiler.tensors.dtypes import numpy_element
from compiler.tensors.substitution import as_extent

Array = NDArray[Any]


class ShapeMismatch(Mismatch):
    """The shapes of an operator's inputs do not fit it or each other."""


class OperatorInput(Protocol):
    """An input: a tensor of static shape, and its value if that is known."""

    @property
    def dtype(self) -> str:
        """The dtype name."""
        ...

    @property
    def shape(self) -> Shape:
        """The static shape."""
        ...

    @property
    def array(self) -> Array | None:
        """The value, or None if it is computed at run time."""
        ...


OperandT = TypeVar("OperandT", covariant=True)


@dataclass(frozen=True, slots=True)
class Node(Generic[OperandT]):
    """An operator on operands; inputs that are left out are None, outputs have no type.

    Operands are numbers of a group's values, values of an imported graph, or types. Attributes are
    complete, with axes from the front, but in a model's own form. `node` is the ONNX node's name:
    it is for messages and no part of the content.
    """

    type: str
    attributes: Mapping[str, Any]
    inputs: Sequence[OperandT | None]
    outputs: Sequence[OperandT]
    node: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Any:
        """An attribute's value, None for one that is left out and has no default."""
        return self.attributes.get(name)

    @property
    def label(self) -> str:
        """The type and the node's name, for messages."""
        return f'{self.type} "{self.node}"' if self.node else self.type

    def input(self, index: int) -> OperandT | None:
        """An input, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return self.input(index) is not None

    def operand(self, index: int) -> OperandT:
        """An input that the operator always has."""
        value = self.inputs[index]
        assert value is not None, f"{self.label} has no input {index}"
        return value

    @property
    def output(self) -> OperandT:
        """The first output, which the operator always has."""
        return self.outputs[0]

    def shape(self: "Node[OperatorInput]", index: int = 0) -> Shape:
        """The shape of an input that is there."""
        value = self.inputs[index]
        assert value is not None, f"{self.label} has no input {index}"
        return value.shape

    def known(self: "Node[OperatorInput]", index: int) -> Array | None:
        """The value of an input, None if it is left out; raises Mismatch if it is not known."""
        value = self.input(index)
        if value is None:
            return None
        if value.array is None:
            raise Mismatch(f"its input {index} must be a constant")
        return value.array

    def array(self: "Node[OperatorInput]", index: int) -> Array:
        """The value of an input that must be there; raises Mismatch if it is not."""
        array = self.known(index)
        if array is None:
            raise Mismatch(f"its input {index} is left out")
        return array

    @property
    def arrays(self: "Node[OperatorInput]") -> list[Array]:
        """The values of the inputs that are there; raises Mismatch if one is not known."""
        return [self.array(i) for i, value in enumerate(self.inputs) if value is not None]

    def integers(
        self: "Node[OperatorInput]", index: int, *, or_scalar: bool = False
    ) -> list[int] | None:
        """The integers of a constant vector, None if it is left out."""
        array = self.known(index)
        if array is None:
            return None
        if array.ndim != 1 and not (or_scalar and array.ndim == 0):
            shape = list(array.shape)
            raise ShapeMismatch(f"its input {index} has the shape {shape}, it must be a vector")
        return [as_extent(value) for value in array.reshape(-1)]

    def vector(self: "Node[OperatorInput]", index: int, *, or_scalar: bool = False) -> list[int]:
        """The integers of a constant vector that must be there."""
        values = self.integers(index, or_scalar=or_scalar)
        if values is None:
            raise Mismatch(f"its input {index} is left out")
        return values

    def scalar(self: "Node[OperatorInput]", index: int) -> int:
        """The number in a constant scalar, or vector of one element."""
        array = self.array(index)
        if array.shape not in ((), (1,)):
            shape = list(array.shape)
            raise ShapeMismatch(f"its input {index} has the shape {shape}, it is one number")
        return as_extent(array.reshape(())[()])

    def dtype_of(self, element: int) -> np.dtype[Any]:
        """The dtype in which results have an ONNX element type."""
        return numpy_element(element)


class PreciseNode(Node[OperandT]):
    """A node that is evaluated with every float in float64, whatever the model's types."""

    __slots__ = ()

    def dtype_of(self, element: int) -> np.dtype[Any]:
        dtype = numpy_element(element)
        return np.dtype(np.float64) if "float" in dtype.name else dtype


TypedNode = Node[OperatorInput]
"""A node whose operands have types, as the rules of operators read it."""

Results = Array | Sequence[Array | None]
Evaluation = Callable[[TypedNode], Results]
"""The results of a node whose inputs are all known, in numpy.

Floats are computed in float64 and rounded once where that differs from their type. Raises Mismatch,
ValueError or IndexError for inputs that do not fit.
"""
