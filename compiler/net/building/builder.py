"""Builder of graphs of operators of the table; folds those whose inputs are known."""

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from compiler.net.attributes import Shape
from compiler.net.building.expansion import Expansion
from compiler.net.graph import Attributes, Graph, Inputs, Value, constant
from compiler.net.node import Node
from compiler.net.operators import OPERATORS, infer, infer_node
from compiler.net.operators.canonical import from_front, known_node, operations_of
from compiler.net.spec import check_attributes, evaluate_known
from compiler.support.memory import require
from compiler.tensors.dtypes import element_type, numpy_dtype
from compiler.tensors.substitution import as_extent, has_symbols


def is_known(inputs: Inputs) -> bool:
    """Whether every input that is not omitted is a constant."""
    return all(value is None or value.array is not None for value in inputs)


def byte_count(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor; of text, of the pointers to it."""
    return prod(shape) * (8 if dtype == "str_" else numpy_dtype(dtype).itemsize)


def input_bytes(inputs: Inputs) -> int:
    """Bytes of an operator's inputs, with those of texts."""
    return sum(
        byte_count(value.dtype, value.shape) + prod(value.shape) * text_bytes(value)
        for value in inputs
        if value is not None
    )


def text_bytes(value: Value) -> int:
    """Bytes of the longest of a constant's texts, as numpy computes with it; 0 for numbers."""
    if value.dtype != "str_" or value.array is None:
        return 0
    return 4 * max(map(len, value.array.reshape(-1).tolist()), default=0)


class NetBuilder:
    """Appends operators for the node named `node` to `graph`, within the bound `expansion`.

    Unless it is `bounded`, constants of any size are folded.
    """

    def __init__(self, graph: Graph, expansion: Expansion):
        self.graph = graph
        self.expansion = expansion
        self.node = ""
        self.bounded = True

    def constant(self, array: object, dtype: str | None = None) -> Value:
        """A known value; Python integers become int64."""
        return constant(
            f"{self.node}.constant", np.asarray(array, numpy_dtype(dtype) if dtype else None)
        )

    def emit(
        self,
        op_type: str,
        inputs: Inputs,
        attributes: Mapping[str, Any] = MappingProxyType({}),
        outputs: int = 1,
    ) -> list[Value]:
        """The outputs of an operator: constants if its inputs are, else run-time tensors."""
        return self.emit_used(op_type, inputs, attributes, [True] * outputs)

    def one(self, op_type: str, *inputs: Value | None, **attributes: object) -> Value:
        """The only output of an operator."""
        return self.emit(op_type, list(inputs), attributes)[0]

    def cast(self, value: Value, dtype: str) -> Value:
        """A value in a type."""
        return value if value.dtype == dtype else self.one("Cast", value, to=element_type(dtype))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape."""
        return self.one("Reshape", value, shape=[as_extent(size) for size in shape])

    def moved(self, value: Value, source: int, target: int) -> Value:
        """A value with one axis moved."""
        if source == target:
            return value
        order = [axis for axis in range(value.rank) if axis != source]
        order.insert(target, source)
        return self.one("Transpose", value, perm=order)

    def emit_used(
        self, op_type: str, inputs: Inputs, attributes: Mapping[str, Any], used: Sequence[bool]
    ) -> list[Value]:
        """Like `emit`, if some outputs are omitted; those are unknown values.

        An attribute that is None, which a node's own schema does not have, has the table's
        default.
        """
        self.expansion.count(f"{op_type} {self.node!r}")
        shapes = [value and value.shape for value in inputs]
        named = {name: value for name, value in attributes.items() if value is not None}
        attributes = from_front(op_type, named, shapes)
        results = self.known_results(op_type, inputs, attributes, used)
        if results is not None:
            return results
        node = self.new_node(op_type, inputs, attributes, used)
        self.graph.operators.append(node)
        return [*node.outputs]

    def known_results(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> list[Value] | None:
        """The results of an operator on constants, if they fit it and are folded."""
        if not is_known(inputs) or not self.folds_operator(op_type, inputs, attributes, used):
            return None
        arrays = self.evaluated(op_type, inputs, attributes, used)
        return [Value("") if a is None else constant(self.node, a) for a in arrays]

    def evaluated(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> Sequence[np.ndarray | None]:
        """The results of an operator on constants, None for those that are omitted."""
        arrays = [None if value is None else value.array for value in inputs]
        node = known_node(op_type, arrays, attributes, len(used))
        results = evaluate_known(node, OPERATORS[op_type])
        return [array if wanted else None for array, wanted in zip(results, used, strict=True)]

    def new_node(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> Node[Value]:
        """An operator that a run computes, which is not in the graph yet; raises Mismatch."""
        check_attributes(OPERATORS[op_type], attributes)
        node = OPERATORS[op_type].node(op_type, inputs, attributes, len(used))
        types = infer_node(node)
        self.check_shapes(node, [type.shape for type in types])
        outputs = [
            Value("", type.dtype, type.shape) if is_used else Value("")
            for is_used, type in zip(used, types, strict=True)
        ]
        return Node(op_type, node.attributes, inputs, tuple(outputs), self.node)

    def check_shapes(self, node: Node[Value], shapes: Sequence[Shape]) -> None:
        """Refuse a node for the shapes of its results; here any are right."""

    def folds_operator(
        self, op_type: str, inputs: Inputs, attributes: Attributes, used: Sequence[bool]
    ) -> bool:
        """Whether an operator on constants becomes a constant, if it fits them.

        One whose result, or its shape, depends on symbols does not.
        """
        results = infer(op_type, inputs, attributes, len(used))
        if has_symbols(attributes.values()) or any(has_symbols(r.shape) for r in results):
            return False
        size = sum(byte_count(result.dtype, result.shape) for result in results)
        if not self.folds(size * _taps(op_type, inputs, attributes), input_bytes(inputs)):
            return False
        arrays = [None if value is None else value.array for value in inputs]
        shapes = [result.shape for result in results]
        return self.spares(operations_of(op_type, arrays, attributes, shapes))

    def folds(self, result_bytes: int, operand_bytes: int) -> bool:
        """Whether an operator on constants becomes a constant; see `Expansion.folds`.

        Raises DeviceError where a run computes it and there is too little memory for it.
        """
        if self.bounded:
            return self.expansion.folds(result_bytes, operand_bytes)
        require(result_bytes, f"the result of {self.node!r}")
        return True

    def spares(self, work: int) -> bool:
        """Whether so many operations are done to fold constants; see `Expansion.spares`."""
        return not self.bounded or self.expansion.spares(work)


def _taps(op_type: str, inputs: Inputs, attributes: Attributes) -> int:
    """The elements that an operator on windows reads for each of its result, else 1.

    The interpreter holds that many at once: long windows may be the square of a constant.
    """
    weight = inputs[1] if op_type in ("Conv", "ConvTranspose") else None
    kernel = attributes.get("kernel_shape") if weight is None else weight.shape[1:]
    return max(1, prod(kernel or ()))
