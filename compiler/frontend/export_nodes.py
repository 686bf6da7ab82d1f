"""Nodes as which operators that ONNX does not have are written; ranges of parts of a tensor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper


class Nodes:
    """Nodes to add to a graph: `fresh` gives a new name like a stem, `store` adds a constant."""

    def __init__(self, fresh: Callable[[str], str], store: Callable[[str, np.ndarray], str]):
        self.made: list[onnx.NodeProto] = []
        self.fresh = fresh
        self.store = store

    def add(self, kind: str, *inputs: str | int | list[int] | np.ndarray, **given: Any) -> str:
        """Add a node, whose operands that are not names become int64 constants."""
        name = self.fresh("computed")
        operands = [
            value if isinstance(value, str) else self.store("constant", np.asarray(value, np.int64))
            for value in inputs
        ]
        self.made.append(helper.make_node(kind, operands, [name], **given))
        return name

    def part(self, value: str, starts: list[int], ends: list[int], *axes: list[int]) -> str:
        """Add a Slice of a value from some indices to others, of the first axes or of `axes`."""
        return self.add("Slice", value, starts, ends, *axes)

    def named(self, kind: str, inputs: Sequence[str], name: str, **given: Any) -> None:
        """Add a node whose result has a name."""
        self.made.append(helper.make_node(kind, inputs, [name], **given))


def fourier_nodes(
    nodes: Nodes, parts: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]
) -> list[onnx.NodeProto]:
    """A DFT of rows whose parts are stacked; that of ONNX scales an inverse."""
    length, inverse = attributes["length"], attributes["inverse"]
    stacked = [nodes.add("Unsqueeze", part, [2]) for part in parts]
    numbers = nodes.add("Concat", *stacked, axis=2)
    bins = nodes.add("DFT", numbers, length, 1, inverse=inverse)
    kept = nodes.part(bins, [0], [attributes["bins"]], [1])
    if inverse:
        kept = nodes.add("Mul", kept, nodes.store("length", np.array(length, "float32")))
    for index, output in enumerate(outputs):
        nodes.named("Gather", [kept, nodes.store("part", np.array(index))], output, axis=2)
    return nodes.made


def position_nodes(
    nodes: Nodes, start: str, output: str, dtype: np.dtype, attributes: Mapping[str, Any]
) -> list[onnx.NodeProto]:
    """Numbers that count up, added to the start."""
    count: int = attributes["count"]
    numbers = attributes["first"] + attributes["step"] * np.arange(count)
    stored = nodes.store("numbers", np.asarray(numbers, dtype))
    nodes.named("Add", [start, stored], output)
    return nodes.made


def partial_range_nodes(
    nodes: Nodes, tensor: str, outputs: Sequence[str], count: int
) -> list[onnx.NodeProto]:
    """The range of the whole tensor for each of some parts."""
    shape = nodes.store("count", np.array([count], np.int64))
    for kind, output in zip(("ReduceMin", "ReduceMax"), outputs, strict=True):
        nodes.named("Expand", [nodes.add(kind, tensor, keepdims=0), shape], output)
    return nodes.made
