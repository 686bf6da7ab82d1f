"""Quantised operators of the frontend's graph in the way in which their operands are contracted."""

from collections.abc import Mapping, Set
from math import prod

import numpy as np

from compiler.frontend.builder import Builder
from compiler.frontend.evaluate import element_type
from compiler.frontend.graph import Dequantised, Graph, Quantised, Value, inner_graphs, makers_of
from compiler.frontend.liveness import drop_dead
from compiler.frontend.quantised.contract import REARRANGING, Contracting, contracts_floats
from compiler.frontend.quantised.drop_rounding import Unrounding
from compiler.frontend.quantised.four_bits import MOST_PACKED_ROWS, Packing
from compiler.frontend.quantised.tensor_cores import (
    has_integers,
    is_tiled,
    separated,
    suits_integer_tensor_cores,
    suits_tensor_cores,
)
from compiler.frontend.quantised.walk import Walk
from compiler.net.node import Node
from compiler.net.operators import BYTE_CONTRACTIONS, INTEGER_CONTRACTIONS, KINDS, Kind
from compiler.tensors.contraction import Contraction


# Quantised numbers that are floats again for all who read them: rounded, never stored as bytes.
#
# `Dequantize(Quantize(x))` rounds x, in the epilogue of the kernel that computes x. Stored as bytes
# the numbers would need a further kernel that widens them for a contraction of floats.
def keep_floats(graph: Graph) -> None:
    """Compute with rounded floats what was quantised and dequantised again.

    Bytes that are contracted as bytes are read as bytes elsewhere, too, but by contractions.
    """
    makers = makers_of(graph)
    stored = contracted_integers(graph)
    rounded: set[Value] = set()
    for operator in graph.operators:
        contracts = KINDS.get(operator.type) is Kind.CONTRACTION
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
    contractions = (op for op in graph.operators if op.type in BYTE_CONTRACTIONS)
    integers = (value for operator in contractions for value in operator.inputs[:2])
    return {_before_moves(value, makers) for value in integers if value is not None}


def _before_moves(value: Value, makers: Mapping[Value, Node[Value]]) -> Value:
    """The value whose elements operators rearranged to this one."""
    while value in makers:
        maker = makers[value]
        if maker.type not in REARRANGING or len(maker.outputs) > 1:
            break
        value = maker.operand(0)
    return value


def _rounded(value: Value, makers: Mapping[Value, Node[Value]]) -> Value | None:
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
            if maker.type in REARRANGING:
                inputs = [self._moved(maker.operand(0), code), *maker.inputs[1:]]
                (self._numbers[key],) = self.builder.emit(maker.type, inputs, maker.attributes)
            else:
                exact = maker.operand(0)
                if code.is_float8:  # the cast rounds
                    (rounded,) = self.builder.emit("Cast", [exact], dict(maker.attributes))
                    exact = self.builder.one("Cast", rounded, to=element_type(exact.dtype))
                elif code.zero is not None:
                    zero = self.builder.one("Cast", code.zero, to=element_type(exact.dtype))
                    exact = self.builder.one("Sub", exact, zero)
                self._numbers[key] = self.builder.one("Mul", exact, code.scale)
        return self._numbers[key]


# Contractions of bytes in wider types, for targets without kernels for them.
#
# Floats hold two bytes multiplied exactly; sums in float32 are exact up to 2^24. Longer sums of a
# MatMul are rounded where all that follows is their conversion to floats, to be scaled.
LARGEST_EXACT_FLOAT = 1 << 24
"""The integers up to which float32 has all."""


def fit_kernels(graph: Graph, on_tensor_cores: bool) -> bool:
    """Rewrite contractions of integers of a byte that no kernel computes as they are.

    Tensor cores compute those that they take without zero points. All others become equal ones of
    int32 or of floats that are wide enough; returns whether there were any.
    """
    if all(operator.type not in INTEGER_CONTRACTIONS for operator in graph.operators):
        return False
    visible = {value for _, value in graph.outputs}
    for operator in graph.operators:
        if operator.type != "Cast" or operator.output.dtype != "float32":
            visible.update(value for value in operator.inputs if value is not None)
    walk = _Widening(visible, on_tensor_cores)
    walk.rewrite(graph)
    return walk.widened


class _Widening(Walk):
    """Widens contractions of integers; sums that are `visible` stay exact."""

    def __init__(self, visible: Set[Value], on_tensor_cores: bool):
        super().__init__()
        self.visible = visible
        self.on_tensor_cores = on_tensor_cores
        self.widened = False

    def replacement(self, operator: Node[Value]) -> Value | None:
        """The sums of wider operands, or those of tensor cores less what a zero point adds."""
        if operator.type not in INTEGER_CONTRACTIONS:
            return None
        if self.on_tensor_cores and is_tiled(operator):
            return separated(self.builder, operator)
        self.widened = True
        if operator.type == "ConvInteger":
            return _convolution(self.builder, operator)
        return _matmul(self.builder, operator, exactly=operator.output in self.visible)


def _difference(builder: Builder, operator: Node[Value], index: int, dtype: str) -> Value:
    """An operand less its zero point, in a type."""
    to = element_type(dtype)
    value = builder.one("Cast", operator.operand(index), to=to)
    zero = operator.inputs[index + 2] if index + 2 < len(operator.inputs) else None
    return value if zero is None else builder.one("Sub", value, builder.one("Cast", zero, to=to))


def _matmul(builder: Builder, operator: Node[Value], exactly: bool) -> Value:
    dtype = "int32" if exactly and _largest_sum(operator) > LARGEST_EXACT_FLOAT else "float32"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    sums = builder.one("MatMul", *operands)
    return sums if dtype == "int32" else builder.one("Cast", sums, to=element_type("int32"))


def _largest_sum(operator: Node[Value]) -> int:
    """A bound of the sums of a MatMulInteger: that of its weights where they are constant."""
    weights = operator.operand(1)
    zero = [*operator.inputs, None, None][3]
    if weights.array is None or (zero is not None and zero.array is None):
        return weights.shape[-2] * 255 * 255
    sizes = np.abs(weights.array.astype("int64") - (0 if zero is None else zero.array))
    return 255 * int(sizes.sum(-2).max(initial=0))


def _convolution(builder: Builder, operator: Node[Value]) -> Value:
    bound = prod(operator.operand(1).shape[1:]) * 255 * 255
    dtype = "float32" if bound <= LARGEST_EXACT_FLOAT else "float64"
    operands = [_difference(builder, operator, index, dtype) for index in (0, 1)]
    (result,) = builder.emit("Conv", [*operands], operator.attributes)
    return builder.one("Cast", result, to=element_type("int32"))


_ON_CODES = (*BYTE_CONTRACTIONS, "MatMulNBits")
"""The contractions of bytes, and of weights of four bits."""


def lower_quantised(graph: Graph, way: Contraction) -> Contraction | None:
    """Contract quantised operands in a way, in place, and compute all else with what that leaves.

    Returns the way in which there was something to contract, which is one of floats where bytes are
    asked for and no kernel takes those of the graph; None if nothing is quantised.
    """
    if not _is_quantised(graph):
        return None
    # before integers are moved, among which a Relu would be a Max that keeps numbers rounded
    unrounded = way is Contraction.UNROUNDED and Unrounding().rewrite(graph)
    Packing(MOST_PACKED_ROWS if way.in_bytes else 0).rewrite(graph)
    if way.on_tensor_cores:
        suits = (
            suits_tensor_cores
            if way in (Contraction.FLOAT8_TILES, Contraction.FLOAT8_OPERANDS)
            else suits_integer_tensor_cores
        )
    else:
        suits = has_integers if way.in_bytes else None
    Contracting(suits).rewrite(graph)
    widened = contracts_floats(graph)
    if way is not Contraction.BYTES:  # CPUs have kernels for all contractions of integers
        if way.in_bytes and not way.rounds:
            unrounded = Unrounding(contracted_integers(graph)).rewrite(graph)
        drop_dead(graph)
        widened |= fit_kernels(graph, way.on_tensor_cores)
        keep_floats(graph)
    drop_dead(graph)
    if _contracts_bytes(graph):
        return way
    if unrounded:
        return Contraction.UNROUNDED
    return Contraction.FLOATS if widened else None


def _is_quantised(graph: Graph) -> bool:
    """Whether it has contractions of codes, or values that stand for others."""
    return any(
        operator.type in _ON_CODES
        or any(value is not None and value.code for value in (*operator.inputs, *operator.outputs))
        or any(_is_quantised(body) for body in inner_graphs(operator))
        for operator in graph.operators
    )


def _contracts_bytes(graph: Graph) -> bool:
    return any(
        operator.type in _ON_CODES or any(_contracts_bytes(body) for body in inner_graphs(operator))
        for operator in graph.operators
    )
