"""A model's graph: values and the operators between them, before they become `dataflow` IR."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from compiler.net.node import Node
from compiler.tensors.substitution import holds_extents

Attributes = dict[str, Any]


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of static shape: known (`array`), computed at run time, or unknown.

    Sizes may be extents that depend on symbols, and so may the elements of a known tensor of
    integers, whose array is one of objects then.
    An unknown value (empty `dtype`) is the result of an operator that cannot be compiled, or one
    that its node leaves out. A
    sequence of tensors is a value with `items`, all of `item_dtype`; it exists at import time only.
    `code` of a known one is the DequantizeLinear that computed it.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    array: np.ndarray | None = None
    items: "Sequence[Value | TensorRows] | None" = None
    item_dtype: str = ""
    code: "Node[Value] | None" = None

    @property
    def unknown(self) -> bool:
        """Whether it is the result of an operator that cannot be compiled, or is left out."""
        return not self.dtype and self.items is None

    @property
    def symbolic(self) -> bool:
        """Whether it is known, but for sizes that symbols stand for."""
        return self.dtype != "str_" and holds_extents(self.array)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def content(self) -> np.ndarray:
        """The array of a known tensor."""
        assert self.array is not None, self.name
        return self.array


@dataclass(frozen=True, slots=True)
class TensorRows:
    """Tensors of one shape in a sequence, which are the rows of the first axis of `stack`."""

    stack: Value

    @property
    def count(self) -> int:
        """The number of tensors."""
        return self.stack.shape[0]


Inputs = Sequence[Value | None]


@dataclass(slots=True)
class Graph:
    """Operators in execution order; outputs pair the model's names with values."""

    inputs: list[Value]
    outputs: list[tuple[str, Value]] = field(default_factory=list[tuple[str, Value]])
    operators: list[Node[Value]] = field(default_factory=list[Node[Value]])

    def values(self) -> Iterator[Value]:
        """Every value that it names, some of them repeatedly."""
        yield from self.inputs
        yield from self.uses()

    def uses(self) -> Iterator[Value]:
        """Every use of a value, by an operator or as an output of the graph."""
        for operator in self.operators:
            yield from (value for value in operator.inputs if value is not None)
        yield from (value for _, value in self.outputs)


def makers_of(graph: Graph) -> dict[Value, Node[Value]]:
    """The operator of each value that the graph's operators compute."""
    return {value: op for op in graph.operators for value in op.outputs}


def inner_graphs(node: Node[Value]) -> list[Graph]:
    """The graphs of an If or a Loop; none of other operators."""
    return node["bodies"] or []


def constant(name: str, array: np.ndarray) -> Value:
    """A value known at import time."""
    return Value(name, _dtype_name(array.dtype), array.shape, array)


@cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return "str_" if dtype.kind in "OSU" else str(dtype)
