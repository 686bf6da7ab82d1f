"""Quantised numbers that are floats again for all who read them: rounded, never stored as bytes.

`Dequantize(Quantize(x))` rounds x, in the epilogue of the kernel that computes x. Stored as bytes
the numbers would need a further kernel that widens them for a contraction of floats.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import element_type
from compiler.frontend.expansion import Expansion
from compiler.frontend.graph import Dequantised, Graph, Operator, Quantised, Value
from compiler.frontend.quantised.contract import REARRANGING
from compiler.net.operators import BYTE_CONTRACTIONS, KINDS, Kind


def keep_floats(graph: Graph) -> None:
    """Compute with rounded floats what was quantised and dequantised again.

    Bytes that are contracted as bytes are read as bytes elsewhere, too, but by contractions.
    """
    walk = _Walk({v: op for op in graph.operators for v in op.outputs if v is not None})
    stored = walk.contracted(graph)
    wanted = {
        value
        for operator in graph.operators
        for value, integers in walk.numbers(operator)
        if integers not in stored or KINDS.get(operator.op_type) is Kind.CONTRACTION
    }
    if not wanted:
        return
    walk.builder.graph.inputs = graph.inputs
    for operator in graph.operators:
        walk.visit(operator, wanted)
    graph.operators = walk.builder.graph.operators
    graph.outputs = [(name, walk.instead.get(value, value)) for name, value in graph.outputs]


def contracted_integers(graph: Graph) -> set[Value]:
    """The integers, before they are moved, that contractions of bytes read."""
    makers = {v: op for op in graph.operators for v in op.outputs if v is not None}
    return _Walk(makers).contracted(graph)


@dataclass
class _Walk:
    """Writes operators to a new graph; `makers` has those of the old one."""

    makers: dict[Value, Operator]
    builder: Builder = field(default_factory=lambda: Builder(Graph([]), Expansion()))
    instead: dict[Value, Value] = field(default_factory=dict[Value, Value])
    _numbers: dict[tuple[Value, Value, Value | None], Value] = field(
        default_factory=dict[Any, Value]
    )

    def contracted(self, graph: Graph) -> set[Value]:
        """The integers, before they were moved, that operators contract."""
        contractions = (op for op in graph.operators if op.op_type in BYTE_CONTRACTIONS)
        integers = (value for operator in contractions for value in operator.inputs[:2])
        return {self._source(value) for value in integers if value is not None}

    def numbers(self, operator: Operator) -> list[tuple[Value, Value]]:
        """The operands of an operator that were quantised, with the integers; before moves."""
        sources = [self._source(value) for value in operator.inputs if value is not None]
        found = ((value, self._rounded(value)) for value in sources)
        return [(value, integers) for value, integers in found if integers is not None]

    def _source(self, value: Value) -> Value:
        while value in self.makers:
            maker = self.makers[value]
            if maker.op_type not in REARRANGING or len(maker.outputs) > 1:
                break
            value = maker.operand(0)
        return value

    def _rounded(self, value: Value) -> Value | None:
        """The integers, before moves, that floats were cast to of which a value is the numbers."""
        code = value.code
        if not isinstance(code, Dequantised) or not code.whole or code.scale.dtype != value.dtype:
            return None
        integers = self._source(code.integers)
        if not isinstance(integers.code, Quantised) or integers not in self.makers:
            return None
        return integers if self.makers[integers].operand(0).dtype == value.dtype else None

    def visit(self, old: Operator, wanted: set[Value]) -> None:
        """Write an operator, or what takes its place."""
        inputs = [None if v is None else self.instead.get(v, v) for v in old.inputs]
        self.builder.node = old.node
        self.builder.graph.operators.append(replace(old, inputs=inputs))
        for value in old.outputs:
            if value in wanted:
                self.instead[value] = self._number(value)

    def _number(self, value: Value) -> Value:
        """The number of each float that was cast to integers, moved as those are."""
        code = value.code
        assert isinstance(code, Dequantised)
        return self._moved(code.integers, code)

    def _moved(self, integers: Value, code: Dequantised) -> Value:
        key = integers, code.scale, code.zero
        if key not in self._numbers:
            maker = self.makers[integers]
            if maker.op_type in REARRANGING:
                inputs = [self._moved(maker.operand(0), code), *maker.inputs[1:]]
                (self._numbers[key],) = self.builder.emit(maker.op_type, inputs, maker.attributes)
            else:
                self._numbers[key] = self._dequantised(maker, code)
        return self._numbers[key]

    def _dequantised(self, cast: Operator, code: Dequantised) -> Value:
        exact = cast.operand(0)
        if code.is_float8:  # the cast rounds
            (rounded,) = self.builder.emit("Cast", [exact], dict(cast.attributes))
            exact = self.builder.one("Cast", rounded, to=element_type(exact.dtype))
        elif code.zero is not None:
            zero = self.builder.one("Cast", code.zero, to=element_type(exact.dtype))
            exact = self.builder.one("Sub", exact, zero)
        return self.builder.one("Mul", exact, code.scale)
