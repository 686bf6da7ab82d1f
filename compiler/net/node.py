"""A node of an operator graph whose values have numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """One operator; inputs and outputs are numbers of the graph's values, None is left out.

    `node` is the ONNX node's name: it is for messages and no part of the content.
    """

    type: str
    attributes: Mapping[str, Any]
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    node: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """The type and the node's name, for messages."""
        return f'{self.type} "{self.node}"' if self.node else self.type

    def operand(self, position: int) -> int:
        """The value of an operand that the operator always has."""
        value = self.inputs[position]
        assert value is not None, f"{self.label} has no input {position}"
        return value
