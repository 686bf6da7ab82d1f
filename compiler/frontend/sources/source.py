"""A node of a model, as checks read it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.frontend.evaluate import default_of
from compiler.net.attributes import Shape
from compiler.net.spec import KnownTensor, OperatorInput


@dataclass(frozen=True, slots=True)
class Source:
    """A node: its operator as of schema `version`, and how many results it names."""

    op_type: str
    version: int
    inputs: Sequence[OperatorInput | None]
    attributes: Mapping[str, Any]
    outputs: int

    def __getitem__(self, name: str) -> Any:
        """An attribute's value, or its default by the operator's schema; None without one."""
        value = self.attributes.get(name)
        return default_of(self.op_type, self.version, name) if value is None else value

    def input(self, index: int) -> OperatorInput | None:
        """An input, or None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input; that of a scalar if it is omitted."""
        value = self.input(index)
        return () if value is None else value.shape


Check = Callable[[Source], None]
"""Raises Mismatch for a node that does not fit."""


def vector(values: Any) -> KnownTensor:
    """A known vector of int64."""
    array = np.asarray(values, np.int64).reshape(-1)
    return KnownTensor("int64", array.shape, array)
