"""The registry of rewriting rules, and the use of an operator that a rule rewrites."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import evaluate
from compiler.frontend.node import ModelNode
from compiler.frontend.semantics import SemanticsRule
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Inputs, Value
from compiler.net.node import Node
from compiler.net.operators.indices import Bounds, check_known
from compiler.net.operators.injective import TakenIndices, slice_of
from compiler.support.registry import Registrar
from compiler.tensors.substitution import as_extent

RewriteRule = Callable[["Call"], Sequence[Value]]

RULES: dict[str, RewriteRule] = {}
"""The rule that rewrites each operator to the normalised opset."""


rule = Registrar(RULES)
"""Registers a rule for operators."""


@dataclass(slots=True)
class Call(ModelNode):
    """A node that a rule rewrites: the rule emits operators, and returns a value for each output.

    It follows onnxruntime in what the semantics rules of `onnxruntime` say, and else the ONNX text.
    """

    builder: Builder
    onnxruntime: Sequence[SemanticsRule] = ()

    def vector(self, values: Sequence[int]) -> Value:
        """A known vector of int64."""
        return self.builder.integers(values)

    def scalar(self, value: object) -> Value:
        """A known scalar of the first input's dtype."""
        return self.builder.constant(value, self.data.dtype)

    def filled(self, number: float, shape: Sequence[int], dtype: str) -> Value:
        """A tensor of one number: a constant while it is small, else written at run time."""
        value = self.builder.constant(number, dtype)
        return self.expanded(value, shape) if shape else value

    def one(self, op_type: str, *inputs: Value | None, **attributes: object) -> Value:
        """Emit another operator with one output."""
        return self.builder.one(op_type, *inputs, **attributes)

    def expanded(self, value: Value, shape: Sequence[int]) -> Value:
        """A value broadcast to a shape."""
        return self.one("Expand", value, shape=list(map(as_extent, shape)))

    def elements(self, value: Value, axes: Mapping[int, TakenIndices]) -> Value:
        """The elements of a value at ranges of indices of some axes, and at all of the others."""
        every = [TakenIndices(0, 1, size) for size in value.shape]
        taken = [axes.get(axis, indices) for axis, indices in enumerate(every)]
        return value if taken == every else self.one("Slice", value, **slice_of(taken))

    def part(self, value: Value, axis: int, start: int, end: int) -> Value:
        """The slice from a start to an end of one axis."""
        return self.elements(value, {axis % value.rank: TakenIndices.between(start, end)})

    def parts(self, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """Consecutive parts of one axis, of these sizes."""
        attributes = {"axis": axis, "sizes": list(sizes)}
        several = len(sizes) > 1
        return self.builder.emit("Split", [value], attributes, len(sizes)) if several else [value]

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape, in which a 0 is an empty size; -1 is inferred."""
        return self.builder.reshaped(value, filled(shape, prod(value.shape)))

    def check_indices(self, index: int, low: int, high: int) -> None:
        """Say that an input, if it is there, has indices from `low` to `high`.

        Raises ShapeMismatch for a constant with others. Those of run time are clamped, and
        reported where that is asked for.
        """
        self.check_bounds(Bounds(index, (low,), (high,)))

    def check_bounds(self, bounds: Bounds) -> None:
        """As `check_indices`, of bounds that may differ along the last axis of the input."""
        value = self.input(bounds.input)
        if value is None or 0 in value.shape:
            return
        if self.builder.checks_indices:
            check_known(bounds, value)
        if value.array is None and self.builder.watch_indices is not None:
            self.builder.watch_indices(self.op_type, bounds, value)

    def emit(self, inputs: Inputs | None = None, **changed: object) -> list[Value]:
        """Emit the operator itself, with other inputs or changed attributes."""
        call = self
        if inputs is not None or changed:
            inputs = self.inputs if inputs is None else inputs
            call = replace(self, inputs=inputs, attributes=self.attributes | changed)
        return self.emit_node(call.canonical())

    def emit_node(self, node: Node[Value]) -> list[Value]:
        """Emit the operator itself in the canonical form."""
        return self.builder.emit_used(node.type, node.inputs, node.attributes, self.used)

    def evaluated(self) -> list[Value]:
        """The outputs of the operator itself on known inputs, in forms that no kernel has."""
        arrays = evaluate(self.op_type, self.inputs, self.attributes, self.used)
        return [Value("") if a is None else self.builder.constant(a) for a in arrays]

    def only_first_output(self) -> None:
        """Raise Unsupported if an output after the first is used."""
        if any(self.used[1:]):
            raise Unsupported("statistics are not computed", "export the model for inference")


def filled(shape: Sequence[int], elements: int) -> list[int]:
    """A shape whose first -1 is what remains of a number of elements."""
    sizes = list(shape)
    if -1 in sizes:
        others = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = elements // others if others else 0
    return sizes
