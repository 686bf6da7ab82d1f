"""The registry of rewriting rules, and the use of an operator that a rule rewrites."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from compiler.frontend.builder import Builder, run_time_input
from compiler.frontend.evaluate import default_of, evaluate
from compiler.frontend.graph import Attributes, Inputs, Unsupported, Value
from compiler.frontend.semantics import SemanticsRule
from compiler.net.operators.canonical import CanonicalUse, canonical_use, deciding_inputs
from compiler.net.operators.injective import slice_of

RewriteRule = Callable[["Call"], Sequence[Value]]

RULES: dict[str, RewriteRule] = {}
"""The rule that rewrites each operator to the normalised opset."""


def rule(*names: str):
    """Register a rule for operators."""

    def register(function: RewriteRule) -> RewriteRule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass(slots=True)
class Call:
    """A use of an operator of the default domain, as of schema `version`.

    `used` says which outputs the node names; a rule returns a value for each output. It follows
    onnxruntime in what the semantics rules of `onnxruntime` say, and else the ONNX text.
    """

    op_type: str
    version: int
    inputs: Inputs
    attributes: Attributes
    used: list[bool]
    builder: Builder
    onnxruntime: Sequence[SemanticsRule] = ()

    def __getitem__(self, name: str) -> Any:
        """An attribute's value, or its default by the operator's schema; None without one."""
        value = self.attributes.get(name)
        return default_of(self.op_type, self.version, name) if value is None else value

    def take(self, name: str) -> Any:
        """An attribute's value, or its default, which the emitted operator does not get."""
        value = self[name]
        self.attributes.pop(name, None)
        return value

    def input(self, index: int) -> Value | None:
        """An input, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def data(self) -> Value:
        """The first input."""
        return self.operand(0)

    def operand(self, index: int) -> Value:
        """An input that the operator always has."""
        value = self.inputs[index]
        assert value is not None, self.op_type
        return value

    @property
    def operands(self) -> list[Value]:
        """The inputs of an operator that always has them all."""
        return [self.operand(index) for index in range(len(self.inputs))]

    def known(self, index: int) -> np.ndarray | None:
        """The constant value of an input, None if it is left out; raises Unsupported."""
        value = self.input(index)
        if value is None:
            return None
        if value.array is None:
            raise run_time_input(index, value)
        return value.array

    def content(self, index: int) -> np.ndarray:
        """The constant value of an input that is given; raises Unsupported."""
        array = self.known(index)
        assert array is not None, self.op_type
        return array

    def integers(self, attribute: str, index: int) -> list[int] | None:
        """Integers given as an attribute (of old opsets) or as a constant input."""
        if attribute in self.attributes:
            value = self.attributes.pop(attribute)
            return [value] if isinstance(value, int) else list(value)
        array = self.known(index)
        return None if array is None else [int(v) for v in array.reshape(-1)]

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
        return self.one("Expand", value, shape=list(map(int, shape)))

    def elements(self, value: Value, axes: Mapping[int, range]) -> Value:
        """The elements of a value at ranges of indices of some axes, and at all of the others."""
        every = [range(size) for size in value.shape]
        taken = [axes.get(axis, indices) for axis, indices in enumerate(every)]
        return value if taken == every else self.one("Slice", value, **slice_of(taken))

    def part(self, value: Value, axis: int, start: int, end: int) -> Value:
        """The slice from a start to an end of one axis."""
        return self.elements(value, {axis % value.rank: range(start, end)})

    def parts(self, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """Consecutive parts of one axis, of these sizes."""
        attributes = {"axis": axis, "sizes": list(sizes)}
        several = len(sizes) > 1
        return self.builder.emit("Split", [value], attributes, len(sizes)) if several else [value]

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape, in which a 0 is an empty size; -1 is inferred."""
        sizes = [int(size) for size in filled(shape, prod(value.shape))]
        return self.one("Reshape", value, shape=sizes)

    def emit(self, inputs: Inputs | None = None, **changed: object) -> list[Value]:
        """Emit the operator itself, with other inputs or changed attributes."""
        inputs = self.inputs if inputs is None else inputs
        call = replace(self, inputs=inputs, attributes=self.attributes | changed)
        return self.emit_use(call.canonical())

    def canonical(self) -> CanonicalUse[Value]:
        """The operator in the canonical form; old opsets have attributes in place of inputs.

        Raises NeedsValue for inputs that decide shapes and are computed at run time.
        """
        decides = deciding_inputs(self.op_type)
        if not decides:
            return CanonicalUse(self.inputs, self.attributes)
        inputs = [*self.inputs, *[None] * (max(decides) + 1 - len(self.inputs))]
        for index, name in decides.items():
            if name in self.attributes:
                inputs[index] = self.vector(self.integers(name, index) or [])
            if (value := inputs[index]) is not None and value.array is None:
                raise run_time_input(index, value)
        return canonical_use(self.op_type, inputs, self.attributes, len(self.used))

    def emit_use(self, use: CanonicalUse[Value]) -> list[Value]:
        """Emit the operator itself in the canonical form."""
        return self.builder.emit_used(self.op_type, use.inputs, use.attributes, self.used)

    def evaluated(self) -> list[Value]:
        """The outputs of the operator itself on known inputs, in forms that no kernel has."""
        arrays = evaluate(self.op_type, self.inputs, self.attributes, self.used)
        return [Value("") if a is None else self.builder.constant(a) for a in arrays]

    def only_first_output(self, what: str) -> None:
        """Raise Unsupported if an output after the first is used."""
        if any(self.used[1:]):
            raise Unsupported(f"{what} are not computed", "export the model for inference")


def filled(shape: Sequence[int], elements: int) -> list[int]:
    """A shape whose first -1 is what remains of a number of elements."""
    sizes = list(shape)
    if -1 in sizes:
        others = prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = elements // others if others else 0
    return sizes
