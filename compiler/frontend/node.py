"""A node of the default domain, as checks, semantics rules and rewriting rules read it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from compiler.frontend.builder import run_time_input
from compiler.frontend.evaluate import default_of
from compiler.net.attributes import Mismatch, Shape
from compiler.net.graph import Attributes, Value, constant
from compiler.net.node import Node
from compiler.net.operators.canonical import canonical_node, deciding_inputs
from compiler.net.operators.shapes import axis_in
from compiler.net.spec import to_infer
from compiler.support.registry import Registrar


@dataclass(slots=True)
class ModelNode:
    """A node: its operator as of schema `version`; `used` says which results it names."""

    op_type: str
    version: int
    inputs: list[Value | None]
    attributes: Attributes
    used: Sequence[bool]

    def __getitem__(self, name: str) -> Any:
        """An attribute's value, or its default by the operator's schema; None without one."""
        value = self.attributes.get(name)
        return default_of(self.op_type, self.version, name) if value is None else value

    def take(self, name: str) -> Any:
        """An attribute's value, or its default, which the emitted operator does not get."""
        value = self[name]
        self.drop(name)
        return value

    def drop(self, *names: str) -> None:
        """Remove attributes, which the emitted operator does not get."""
        for name in names:
            self.attributes.pop(name, None)

    def axis(self, name: str = "axis") -> int:
        """The axis of the first input that an attribute names, as `from_front`."""
        return self.from_front(self[name])

    def from_front(self, axis: int | np.ndarray) -> int:
        """An axis of the first input from the front; raises ShapeMismatch if it is outside."""
        return axis_in(int(np.reshape(axis, ())), len(self.shape()))

    def input(self, index: int) -> Value | None:
        """An input, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int) -> Value:
        """An input that must be there; raises Mismatch if it is left out."""
        value = self.input(index)
        if value is None:
            raise Mismatch(f"its input {index} is left out")
        return value

    @property
    def data(self) -> Value:
        """The first input."""
        return self.operand(0)

    @property
    def operands(self) -> list[Value]:
        """The inputs of an operator that always has them all."""
        return [self.operand(index) for index in range(len(self.inputs))]

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input; that of a scalar if it is left out."""
        value = self.input(index)
        return () if value is None else value.shape

    def known(self, index: int) -> np.ndarray | None:
        """The constant value of an input, None if it is left out; raises NeedsValue."""
        value = self.input(index)
        if value is None:
            return None
        if value.array is None:
            raise run_time_input(index, value)
        return value.array

    def content(self, index: int) -> np.ndarray:
        """The constant value of an input that must be there; raises NeedsValue and Mismatch."""
        array = self.known(index)
        return self.operand(index).content if array is None else array

    def with_operands(self) -> "ModelNode":
        """The node with the inputs in place of which old opsets have attributes."""
        decides = deciding_inputs(self.op_type).items()
        decided = {index: name for index, name in decides if name in self.attributes}
        if not decided:
            return self
        inputs = list(self.inputs)
        attributes = dict(self.attributes)
        for index, name in decided.items():
            inputs += [None] * (index + 1 - len(inputs))
            numbers = np.array(attributes.pop(name), np.int64)
            inputs[index] = constant("", numbers.reshape(-1))
        return replace(self, inputs=inputs, attributes=attributes)

    def canonical(self) -> Node[Value]:
        """The operator in the canonical form.

        Raises NeedsValue for inputs that decide shapes and are computed at run time.
        """
        decides = deciding_inputs(self.op_type)
        if not decides:
            return Node(self.op_type, self.attributes, self.inputs, to_infer(len(self.used)))
        node = self.with_operands()
        for index in decides:
            if (value := node.input(index)) is not None and value.array is None:
                raise run_time_input(index, value)
        return canonical_node(self.op_type, node.inputs, node.attributes, len(self.used))


def with_texts(attributes: Mapping[str, Any]) -> Attributes:
    """Attributes as onnx's helper returns them, whose texts are bytes, with texts."""
    return {name: _text_of(value) for name, value in attributes.items()}


def _text_of(value: object) -> object:
    """The text or texts of an attribute; anything else as it is."""
    if isinstance(value, list):
        return [_text_of(item) for item in cast(list[object], value)]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


Check = Callable[[ModelNode], None]
"""Raises Mismatch for a node that does not fit."""

SOURCES: dict[str, Check] = {}
"""The checks of operators that are not in the table, or whose old forms are not."""

checks = Registrar(SOURCES)
"""Registers the check of operators."""
