"""Lowering of a graph's quantised operators in the way in which their operands are contracted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from compiler.net.building.builder import NetBuilder
from compiler.net.building.expansion import Expansion
from compiler.net.building.liveness import drop_dead
from compiler.net.building.quantised import (
    dequantised_by_arithmetic,
    quantised_by_arithmetic,
)
from compiler.net.building.simplify import ON_CODES, holds_codes
from compiler.net.facts import NumberRange
from compiler.net.graph import Graph, Inputs, Value, inner_graphs
from compiler.net.node import Node
from compiler.net.operators import INTEGER_CONTRACTIONS, KINDS, Kind
from compiler.net.operators.elementwise import clipped
from compiler.net.operators.quantisation import QUANTISATION
from compiler.rewrite.quantised.analysis import KEEP_CODES, QuantisedGraph, is_followed
from compiler.rewrite.quantised.bounds import bounds_of_integers, number_bounds
from compiler.rewrite.quantised.contract import contracted, divided, is_divisor, is_of_sums
from compiler.rewrite.quantised.dequantised import Dequantised, is_same
from compiler.rewrite.quantised.dynamic import floats_of_range
from compiler.rewrite.quantised.four_bits import MOST_PACKED_ROWS, with_four_bits
from compiler.rewrite.quantised.tensor_cores import has_byte_kernel, separated
from compiler.rewrite.quantised.widen import in_wider_type, visible_sums
from compiler.tensors.contraction import Contraction


def lower_quantised(graph: Graph, way: Contraction) -> Contraction | None:
    """Contract quantised operands in a way, in place, and compute all else with what that leaves.

    Returns the way in which there was something to contract, which is one of floats where bytes are
    asked for and no kernel takes those of the graph; None if nothing is quantised.
    """
    ways = [lower_quantised(body, way) for op in graph.operators for body in inner_graphs(op)]
    ways.append(_Lowering(graph, way).lowered() if holds_codes(graph) else None)
    for value in graph.values():
        value.code = None  # its numbers are used
    return next((w for w in (way, Contraction.UNROUNDED, Contraction.FLOATS) if w in ways), None)


class _KernelBuilder(NetBuilder):
    """Writes contractions of integers as those that kernels compute."""

    fit: Callable[[Node[Value]], Value | None]

    def emit_used(
        self, op_type: str, inputs: Inputs, attributes: Mapping[str, Any], used: Sequence[bool]
    ) -> list[Value]:
        """The outputs of an operator, or of others that compute the same."""
        if op_type in INTEGER_CONTRACTIONS:
            value = self.fit(Node(op_type, attributes, inputs, [], self.node))
            if value is not None:
                return [value]
        return super().emit_used(op_type, inputs, attributes, used)


def _once(write: Callable[["_Lowering", Dequantised], Value | None]):
    """Writes a form of a number where it is first read, for the node that computes the number."""

    def once(self: "_Lowering", number: Dequantised) -> Value | None:
        key = write.__name__, number
        if key not in self.written:
            node, self.builder.node = self.builder.node, number.node
            count = len(self.builder.graph.operators)
            value = self.written[key] = write(self, number)
            self.builder.node = node
            new = len(self.builder.graph.operators) > count
            if new and value is not None and value.dtype == number.scale.dtype:
                self.number_of.setdefault(value, number)
        return self.written[key]

    return once


class _Lowering:
    """One walk over a graph, which writes what kernels compute.

    What integers stand for is written where it is read: as the integers, for contractions of bytes
    and operators that only move elements, or as floats. `Dequantize(Quantize(x))` rounds x then,
    in the epilogue of the kernel that computes x: stored as bytes the numbers would need a further
    kernel that widens them for a contraction of floats. Where a way does not round, it is x,
    clipped: quantisers leave out a Relu or a Clip whose work that does.
    """

    def __init__(self, graph: Graph, way: Contraction):
        self.graph = graph
        self.way = way
        self.builder = _KernelBuilder(Graph(graph.inputs), Expansion())
        self.builder.fit = self._fitted
        self.numbers = QuantisedGraph(graph, way)
        self.sums: set[Value] = set()
        self.unrounded = False
        self.widened = self.numbers.contracts_floats
        self._visible = visible_sums(graph)
        self._instead: dict[Value, Value] = {}
        self.written: dict[tuple[str, Dequantised], Value | None] = {}
        self.number_of: dict[Value, Dequantised] = {}
        self._makers: dict[Value, Node[Value]] = {}
        self._noted = 0

    def lowered(self) -> Contraction | None:
        """Lower the graph; returns the way in which there was something to contract."""
        for operator in self.graph.operators:
            if operator.outputs[0] in self.numbers.of_value:
                continue  # written where it is read
            self.builder.node = operator.node
            value = self._replacement(operator)
            if value is None:
                contracts = KINDS.get(operator.type) is Kind.CONTRACTION
                inputs = [self._value(value, contracts) for value in operator.inputs]
                self.builder.graph.operators.append(replace(operator, inputs=inputs))
            else:
                value.name = value.name or operator.output.name
                self._instead[operator.output] = value
        self.graph.outputs = [(name, self._written_value(v)) for name, v in self.graph.outputs]
        self.graph.operators = self.builder.graph.operators
        drop_dead(self.graph)
        if any(operator.type in ON_CODES for operator in self.graph.operators):
            return self.way
        if self.unrounded:
            return Contraction.UNROUNDED
        return Contraction.FLOATS if self.widened else None

    def _replacement(self, operator: Node[Value]) -> Value | None:
        """The value instead of the result of an operator, if any."""
        if operator.type == "QuantizeLinear":
            return self._quantised(operator)
        if operator.type == "DequantizeLinear":
            inputs = [self._value(value) for value in operator.inputs]
            return dequantised_by_arithmetic(self.builder, replace(operator, inputs=inputs))
        if operator.type == "Div":
            return self._quotient(operator)
        if operator.outputs and operator.output in self.numbers.pairs:
            return self._contracted(operator)
        if operator.type == "Mul" and self.way is Contraction.UNROUNDED:
            return self._of_range(operator)
        if KINDS.get(operator.type) is not Kind.CONTRACTION:
            return None
        written = replace(operator, inputs=[self._value(v, True) for v in operator.inputs])
        if operator.type in INTEGER_CONTRACTIONS:
            return self._fitted(written)
        most = MOST_PACKED_ROWS if self.way.in_bytes else 0
        return with_four_bits(self.builder, written, most)

    @property
    def makers(self) -> Mapping[Value, Node[Value]]:
        """The operator of each value of the new graph."""
        written = self.builder.graph.operators
        for operator in written[self._noted :]:
            self._makers.update((value, operator) for value in operator.outputs if value)
        self._noted = len(written)
        return self._makers

    def _value(self, value: Value | None, contracts: bool = False) -> Value | None:
        """The value of the new graph for one of the old, which a contraction may read."""
        return value and self._written_value(value, contracts)

    def _written_value(self, value: Value, contracts: bool = False) -> Value:
        """As `_value`, of one that is there."""
        number = self.numbers.of_value.get(value)
        if number is None:
            return self._instead.get(value, value)
        floats = self._floats(number, contracts)
        floats.name = floats.name or value.name
        return floats

    def _quantised(self, operator: Node[Value]) -> Value:
        """The integers of a QuantizeLinear."""
        alike = self.numbers.alike.get(operator.output)
        if alike is not None:
            return self._integers(alike)
        written = replace(operator, inputs=[self._value(value) for value in operator.inputs])
        quotient = self._quotient(operator) if is_followed(operator) else None
        return quantised_by_arithmetic(self.builder, written, quotient)

    def _quotient(self, operator: Node[Value]) -> Value | None:
        """Operand 0 divided by operand 1, if that is sums of a contraction by a constant."""
        scale = operator.operand(1)
        value = self._instead.get(operator.operand(0), operator.operand(0))
        if not is_divisor(scale) or not is_of_sums(value, self.makers, self.sums):
            return None

        def scaled(term: Value) -> Value | None:
            number = self.number_of.get(term)
            if number is None or number.scale.array is None:
                return None
            factor = self.builder.one("Div", number.scale, scale)
            return self._floats(number.scaled_by(factor, number.zero))

        return divided(self.builder, value, scale, self.makers, scaled)

    def _contracted(self, operator: Node[Value]) -> Value:
        """The contraction of the integers that two numbers stand for."""
        pair = self.numbers.pairs[operator.output]
        integers = [self._integers(number) for number in pair]
        inputs = [*integers, *(self._value(value) for value in operator.inputs[2:])]
        left, right = (
            replace(number, scale=self._written_value(number.scale), zero=self._value(number.zero))
            for number in pair
        )
        sums = contracted(self.builder, replace(operator, inputs=inputs), left, right)
        self.sums.add(sums)
        return sums

    def _of_range(self, operator: Node[Value]) -> Value | None:
        """The contraction of floats that a run quantises by their own range."""
        contraction = floats_of_range(operator, self.numbers.makers)
        if contraction is None:
            return None
        self.unrounded = True
        inputs = [self._value(value) for value in contraction.inputs]
        return self.builder.emit(contraction.type, inputs, contraction.attributes)[0]

    def _fitted(self, operator: Node[Value]) -> Value | None:
        """The sums of a contraction of integers that no kernel computes as it is, of others.

        Tensor cores compute those without zero points.
        """
        if self.way is Contraction.BYTES:
            return None
        if has_byte_kernel(self.way, operator):
            return separated(self.builder, operator)
        self.widened = True
        exactly = not operator.outputs or operator.output in self._visible
        return in_wider_type(self.builder, operator, exactly)

    def _moved(self, number: Dequantised, value: Value) -> Value:
        """The source's integers or floats, moved as a number is."""
        assert number.move is not None
        others = [self._value(other) for other in number.move.inputs[1:]]
        return self.builder.emit(number.move.type, [value, *others], number.move.attributes)[0]

    def _integers(self, number: Dequantised) -> Value:
        """The integers that a number stands for."""
        if number.integers is not None:
            return self._written_value(number.integers)
        integers = self._moved_integers(number)
        assert integers is not None
        return integers

    @_once
    def _moved_integers(self, number: Dequantised) -> Value | None:
        if number.source is None or number.move is None:
            return None
        integers = self._integers(number.source)
        if number.move.type != "Relu":
            return self._moved(number, integers)
        zero = self._value(number.zero) or self.builder.constant(0, number.dtype)
        return self.builder.one("Max", integers, zero)

    def _floats(self, number: Dequantised, contracts: bool = False) -> Value:
        """A number as floats: clipped, rounded, or of integers that are stored anyway."""
        floats = None if self.way.rounds else self._clipped(number)
        stored = self._is_stored(number.origin) and not contracts
        if floats is None and not stored and self.way is not Contraction.BYTES:
            floats = self._rounded(number)
        floats = floats or self._dequantised(number)
        assert floats is not None
        return floats

    def _is_stored(self, origin: Node[Value] | None) -> bool:
        return origin is not None and origin.output in self.numbers.stored

    @_once
    def _dequantised(self, number: Dequantised) -> Value | None:
        """The floats that are computed of a number's integers."""
        inputs = [self._integers(number), self._value(number.scale), self._value(number.zero)]
        entry = QUANTISATION["DequantizeLinear"]
        return dequantised_by_arithmetic(
            self.builder, entry.node("DequantizeLinear", inputs, {"axis": number.axis})
        )

    @_once
    def _rounded(self, number: Dequantised) -> Value | None:
        """A number of the floats that were cast to its integers, moved as these are."""
        if number.origin is None or not number.whole:
            return None
        if number.source is not None and number.move is not None:
            keeps = number.move.type in KEEP_CODES
            source = self._rounded(number.source) if keeps else None
            return None if source is None else self._moved(number, source)
        cast = self.makers[self._integers(number)]
        exact = cast.operand(0)
        dtype = exact.dtype
        if number.is_float8:  # the cast rounds
            (rounded,) = self.builder.emit("Cast", [exact], dict(cast.attributes))
            exact = self.builder.cast(rounded, dtype)
        elif number.zero is not None:
            zero = self.builder.cast(self._written_value(number.zero), dtype)
            exact = self.builder.one("Sub", exact, zero)
        return self.builder.one("Mul", exact, self._value(number.scale))

    @_once
    def _clipped(self, number: Dequantised) -> Value | None:
        """The float that was quantised within the range of the integers; None if it stays rounded.

        Those whose integers contractions of bytes multiply do.
        """
        origin = number.origin
        if self._is_stored(origin) or bounds_of_integers(number) is None:
            return None
        if number.source is not None:
            source = self._clipped(number.source)
            return None if source is None else self._moved(number, source)
        if number.constant is not None:  # a run moves some of them
            return self._dequantised(number)
        if origin is None or origin.operand(1).array is None:
            return None
        if not is_same(origin.operand(1), number.scale):
            value = self._clipped(number.scaled_by(origin.operand(1), number.zero))
            factor = self.builder.one("Div", number.scale, origin.operand(1))
            return None if value is None else self.builder.one("Mul", value, factor)
        value = self._written_value(origin.operand(0))
        if not is_same(origin.input(2), number.zero) or value.dtype != number.scale.dtype:
            return None
        self.unrounded = True
        return self._within_range(number, value)

    def _within_range(self, number: Dequantised, value: Value) -> Value:
        """A float clipped to the range of a number's integers, if it may be outside."""
        interval = bounds_of_integers(number)
        assert interval is not None
        low, high = interval
        half = abs(float(number.scale.content)) / 2  # what is rounded to the last integer
        least, most = number_bounds(
            value, self.makers, lambda term: self.number_of.get(term) or self.numbers[term]
        )
        if low - half <= least and most <= high + half:
            return value
        value, limits = self._without_clip(value, interval)
        bounds = (self.builder.constant(limit, value.dtype) for limit in limits)
        return self.builder.one("Clip", value, *bounds)

    def _without_clip(self, number: Value, interval: NumberRange) -> tuple[Value, NumberRange]:
        """The operand of a number that is clipped already, and the range that is left by both."""
        maker = self.makers.get(number)
        if maker is None or maker.type not in ("Clip", "Relu"):
            return number, interval
        limits = [None if v is None else v.array for v in maker.inputs[1:]]
        if maker.type == "Relu":
            return maker.operand(0), clipped((0.0, inf), *interval)
        if len(limits) < 2 or any(array is None or array.size != 1 for array in limits):
            return number, interval
        low, high = (float(array.reshape(-1)[0]) for array in limits if array is not None)
        return maker.operand(0), clipped((low, high), *interval)
