"""The integers that values stand for, and the contractions that multiply them as bytes."""

from dataclasses import replace

import numpy as np

from compiler.net.graph import Graph, Value, makers_of
from compiler.net.node import Node
from compiler.net.operators import BYTE_CONTRACTIONS, OPERATORS
from compiler.net.operators.contractions import GEMMS
from compiler.net.operators.quantisation import QUANTISATION
from compiler.rewrite.quantised.dequantised import Dequantised, is_same
from compiler.rewrite.quantised.tensor_cores import has_byte_kernel, suits
from compiler.tensors.contraction import Contraction
from compiler.tensors.dtypes import HALF_BYTES, element_type

KEEP_CODES = frozenset(name for name, entry in OPERATORS.items() if entry.keeps_codes)
"""Operators on one tensor that give the same of its integers as of its numbers."""

LONGEST_MOVES = 64
"""The most operators that move integers one after another: forms are written recursively."""

_PICKING = (KEEP_CODES - {"Relu"}) | {name for name, entry in OPERATORS.items() if entry.picks}
"""Operators whose results are elements of their first operand, perhaps repeatedly."""

WITH_INFINITIES = ("float8_e5m2",)
"""Types that have infinities, which quantisation may saturate."""

_LARGEST_SCALE = float(np.finfo("float32").max) / (1 << 16)
"""The largest scale of which any integer of 16 bits is a finite multiple."""


class QuantisedGraph:
    """A graph's quantised values, before it is lowered.

    `of_value` are the numbers by value, `alike` those whose integers a QuantizeLinear gives again,
    `pairs` the operands of contractions that become ones of bytes in a way, by result;
    `contracts_floats` says whether others have two dequantised tensors of bytes, too. `stored` are
    the integers of QuantizeLinears that kernels for bytes multiply.
    """

    def __init__(self, graph: Graph, way: Contraction):
        self.of_value: dict[Value, Dequantised] = {}
        self.alike: dict[Value, Dequantised] = {}
        self.pairs: dict[Value, tuple[Dequantised, Dequantised]] = {}
        self.stored: set[Value] = set()
        self.contracts_floats = False
        self.makers = makers_of(graph)
        self._origins: dict[Value, Node[Value]] = {}
        self._way = way
        for operator in graph.operators:
            self._note(operator)

    def __getitem__(self, value: Value | None) -> Dequantised | None:
        """The number that a value is, if integers stand for it: constants, too."""
        if value is None or value.array is None or value.code is None:
            return None if value is None else self.of_value.get(value)
        return self._dequantised(value.code) if is_followed(value.code) else None

    def _note(self, operator: Node[Value]) -> None:
        """Note what an operator makes of the numbers that it reads."""
        number, other = (self[value] for value in [*operator.inputs, None, None][:2])
        if operator.type in QUANTISATION and not is_followed(operator):
            return
        if operator.type == "DequantizeLinear":
            self.of_value[operator.output] = self._dequantised(operator)
        elif operator.type == "QuantizeLinear":
            if number is not None and _is_alike(operator, number):
                self.alike[operator.output] = number
            else:
                self._origins[operator.output] = operator
        elif operator.type in BYTE_CONTRACTIONS:
            if has_byte_kernel(self._way, operator):
                self._store(*map(self._origin, operator.inputs[:2]))
        elif number is not None and operator.type in KEEP_CODES:
            if _moves_integers(operator, number):
                moved = _moved(replace(number, integers=None, node=operator.node), operator, number)
                self.of_value[operator.output] = moved
        elif number is not None and other is not None and operator.type in ("Conv", *GEMMS):
            self._note_contraction(operator, number, other)

    def _note_contraction(
        self, operator: Node[Value], left: Dequantised, right: Dequantised
    ) -> None:
        fits = _are_contracted(operator, left, right)
        if fits and suits(self._way, operator, left, right):
            self.pairs[operator.output] = left, right
            self._store(left.origin, right.origin)
        elif all(number.is_bytes or number.is_float8 for number in (left, right)):
            self.contracts_floats = True

    def _dequantised(self, operator: Node[Value]) -> Dequantised:
        """The numbers of a DequantizeLinear, whose integers may have been moved themselves."""
        integers = operator.operand(0)
        scale = operator.operand(1)
        zero = operator.input(2)
        number = Dequantised(
            node=operator.node,
            dtype=integers.dtype,
            scale=scale,
            zero=zero,
            axis=operator.attributes["axis"],
            integers=integers,
        )
        if not number.whole:
            return number
        moved: list[tuple[Value, Node[Value]]] = []
        while len(moved) < LONGEST_MOVES and (maker := self._picking(integers)) is not None:
            moved.append((integers, maker))
            integers = maker.operand(0)
        alike = self.alike.get(integers)
        number = replace(number, integers=integers, origin=self._origins.get(integers))
        number = number if alike is None else alike.scaled_by(scale, zero)
        for integers, maker in reversed(moved):
            number = _moved(replace(number, integers=integers), maker, number)
        return number

    def _picking(self, integers: Value) -> Node[Value] | None:
        """The operator whose result, these integers, has elements of its first operand only."""
        maker = self.makers.get(integers)
        picks = maker is not None and maker.type in _PICKING and len(maker.outputs) == 1
        return maker if picks else None

    def _store(self, *origins: Node[Value] | None) -> None:
        self.stored.update(origin.output for origin in origins if origin is not None)

    def _origin(self, integers: Value | None) -> Node[Value] | None:
        """The QuantizeLinear that makes integers of a run, before they are moved."""
        assert integers is not None
        while (maker := self._picking(integers)) is not None:
            integers = maker.operand(0)
        alike = self.alike.get(integers)
        return self._origins.get(integers) if alike is None else alike.origin


def is_followed(operator: Node[Value]) -> bool:
    """Whether integers are followed to or from a QuantizeLinear or a DequantizeLinear.

    Its numbers are float32; one scale quantises them, and one for each index of an axis may
    dequantise them. All else is computed as it is written.
    """
    parts = [value for value in operator.inputs[1:] if value is not None]
    quantises = operator.type == "QuantizeLinear"
    computed = operator["precision"] if quantises else operator["output_dtype"]
    plain = parts[0].dtype == "float32" and computed in (0, element_type("float32"))
    most = 0 if quantises else 1
    whole = not operator["block_size"] and all(value.rank <= most for value in parts)
    return plain and whole and operator.operand(0).dtype not in HALF_BYTES


def _moved(number: Dequantised, move: Node[Value], source: Dequantised) -> Dequantised:
    """A number with the operator that moves its source."""
    return replace(number, source=source, move=move, moves=source.moves + 1)


def _is_alike(operator: Node[Value], number: Dequantised) -> bool:
    """Whether numbers are quantised to the integers that they were dequantised from."""
    scale = operator.operand(1).array
    if scale is None or not (np.abs(scale) <= _LARGEST_SCALE).all():
        return False  # numbers that overflow do not give their integers again
    alike = is_same(number.scale, operator.operand(1)) and is_same(number.zero, operator.input(2))
    dtype = operator.output.dtype
    return alike and number.whole and number.dtype == dtype and dtype not in WITH_INFINITIES


def _moves_integers(operator: Node[Value], number: Dequantised) -> bool:
    """Whether an operator moves integers as it moves the numbers that they stand for."""
    if (
        number.moves == LONGEST_MOVES
        or not number.whole
        or sum(not value.unknown for value in operator.outputs) > 1
    ):
        return False
    if "float" in number.dtype and not number.is_float8:
        return False
    rectifies = operator.type == "Relu"
    if rectifies or operator.type == "MaxPool":
        scale = number.scale.array
        if scale is None or not (scale > 0).all():
            return False
    return number.dtype in OPERATORS["Max" if rectifies else operator.type].dtypes(0)


def _are_contracted(operator: Node[Value], left: Dequantised, right: Dequantised) -> bool:
    """Whether operands are bytes whose scales and zero points a contraction can apply to its sums.

    The weight may have a scale for each channel.
    """
    rank = operator.operand(1).rank
    axis = {"Conv": 0, "MatMul": rank - 1}.get(operator.type, 0 if operator["transB"] else 1)
    fits = left.whole and (right.whole or right.axis == axis)
    alike = (left.is_bytes and right.is_bytes) or (left.is_float8 and right.is_float8)
    if not fits or not alike:
        return False
    if operator.type == "Conv":
        return right.constant is not None
    return rank > 1 and (not left.is_float8 or operator.operand(0).rank > 1)
