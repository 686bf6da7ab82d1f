"""Quantised numbers that are floats again for all who read them: rounded, never stored as bytes.

`Dequantize(Quantize(x))` rounds x, in the epilogue of the kernel that computes x. Stored as bytes
the numbers would need a further kernel that widens them for a contraction of floats.
"""

from collections.abc import Mapping, Set

from compiler.frontend.evaluate import element_type
from compiler.frontend.graph import Dequantised, Graph, Operator, Quantised, Value, makers_of
from compiler.frontend.quantised.contract import REARRANGING
from compiler.frontend.quantised.walk import Walk
from compiler.net.operators import BYTE_CONTRACTIONS, KINDS, Kind


def keep_floats(graph: Graph) -> None:
    """Compute with rounded floats what was quantised and dequantised again.

    Bytes that are contracted as bytes are read as bytes elsewhere, too, but by contractions.
    """
    makers, stored = makers_of(graph), contracted_integers(graph)
    rounded: set[Value] = set()
    for operator in graph.operators:
        contracts = KINDS.get(operator.op_type) is Kind.CONTRACTION
        for value in filter(None, operator.inputs):
            number = _before_moves(value, makers)
            integers = _rounded(number, makers)
            if integers is not None and (contracts or integers not in stored):
                rounded.add(number)
    if rounded:
        _Rounding(rounded).rewrite(graph)


def contracted_integers(graph: Graph) -> set[Value]:
    """The integers, before they are moved, that contractions of bytes read."""
    makers = makers_of(graph)
    contractions = (op for op in graph.operators if op.op_type in BYTE_CONTRACTIONS)
    integers = (value for operator in contractions for value in operator.inputs[:2])
    return {_before_moves(value, makers) for value in integers if value is not None}


def _before_moves(value: Value, makers: Mapping[Value, Operator]) -> Value:
    """The value whose elements operators rearranged to this one."""
    while value in makers:
        maker = makers[value]
        if maker.op_type not in REARRANGING or len(maker.outputs) > 1:
            break
        value = maker.operand(0)
    return value


def _rounded(value: Value, makers: Mapping[Value, Operator]) -> Value | None:
    """The integers, before moves, that floats were cast to of which a value is the numbers."""
    code = value.code
    if not isinstance(code, Dequantised) or not code.whole or code.scale.dtype != value.dtype:
        return None
    integers = _before_moves(code.integers, makers)
    if not isinstance(integers.code, Quantised) or integers not in makers:
        return None
    return integers if makers[integers].operand(0).dtype == value.dtype else None


class _Rounding(Walk):
    """Computes the numbers that are rounded from the floats that were cast to integers."""

    def __init__(self, rounded: Set[Value]):
        super().__init__()
        self.rounded = rounded
        self._numbers: dict[tuple[Value, Value, Value | None], Value] = {}

    def renumbered(self, value: Value) -> Value | None:
        """The number of each float that was cast to integers, moved as those are."""
        if value not in self.rounded:
            return None
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
