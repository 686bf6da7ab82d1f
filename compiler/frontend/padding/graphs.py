"""The bucket's graph with masks, and the extents of a smaller graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from compiler.frontend.graph import Graph, Operator, Value, constant
from compiler.frontend.padding.pairs import CannotPad, OperatorPair, operator_pairs
from compiler.frontend.padding.rules import MaskNeed, fill_value, masks_of
from compiler.ir.operators import KINDS, Kind
from compiler.ir.values import numpy_dtype

EXTENT = "padding.extent."
"""How the names of inputs for extents begin."""

_KEEP_ZEROS = ("Transpose", "Relu", "Neg", "Identity")


@dataclass(frozen=True, slots=True)
class PlacedMask:
    """A mask on an operand of an operator, by its number in the graph.

    `extent` is the number of the input with the smaller size of the axis.
    """

    operator: int
    need: MaskNeed
    extent: int


@dataclass(frozen=True, slots=True)
class Padding:
    """How a smaller graph is computed by the bucket's.

    `extents` are the smaller sizes that masks compare with, `sizes` those of the bucket, and
    `shapes` those of the smaller outputs.
    """

    masks: tuple[PlacedMask, ...]
    sizes: tuple[int, ...]
    extents: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    def extents_of(self, other: "Padding") -> tuple[int, ...]:
        """The extents of another size for these masks; raises CannotPad if it needs others."""
        number = {(mask.operator, mask.need): mask.extent for mask in self.masks}
        found: dict[int, int] = {}
        for mask in other.masks:
            mine = number.get((mask.operator, mask.need))
            extent = other.extents[mask.extent]
            if mine is None or found.setdefault(mine, extent) != extent:
                raise CannotPad("other tensors are padded in its graph")
        return tuple(found.get(index, size) for index, size in enumerate(self.sizes))


@dataclass(slots=True)
class _Extents:
    """The pairs of sizes that masks compare with, numbered."""

    numbers: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])

    def number(self, large: int, small: int) -> int:
        return self.numbers.setdefault((large, small), len(self.numbers))


def padding_of(bucket: Graph, smaller: Graph) -> Padding:
    """How a smaller graph is computed by the bucket's; raises CannotPad if it cannot be."""
    extents, masks = _Extents(), list[PlacedMask]()
    zeros: dict[Value, frozenset[int]] = {}
    for number, pair in enumerate(operator_pairs(bucket, smaller)):
        for need in masks_of(pair):
            operand = pair.operand(need.index)
            large, small = operand.large.shape[need.axis], operand.small.shape[need.axis]
            if need.fill == 0 and need.axis in zeros.get(operand.large, ()):
                continue
            if large != small:
                masks.append(PlacedMask(number, need, extents.number(large, small)))
        if pair.outputs[0] is not None:
            zeros[pair.output.large] = _zero_axes(pair, zeros)
    pairs = zip(bucket.outputs, smaller.outputs, strict=True)
    if any(a[0] != b[0] or a[1].rank != b[1].rank for a, b in pairs):
        raise CannotPad("its graph has other outputs")
    shapes = tuple(value.shape for _, value in smaller.outputs)
    return Padding(
        masks=tuple(masks),
        sizes=tuple(large for large, _ in extents.numbers),
        extents=tuple(small for _, small in extents.numbers),
        shapes=shapes,
    )


def _zero_axes(pair: OperatorPair, zeros: dict[Value, frozenset[int]]) -> frozenset[int]:
    """The axes of a result along which the padding is zero."""
    operator = pair.operator
    if operator.op_type == "Softmax":
        axis = operator.attributes.get("axis", -1) % pair.output.large.rank
        return frozenset({axis} & {*pair.output.padded})
    data = operator.inputs[0]
    known = zeros.get(data, frozenset()) if data is not None else frozenset[int]()
    if operator.op_type == "Transpose":
        order = operator.attributes["perm"]
        return frozenset(new for new, old in enumerate(order) if old in known)
    return known if operator.op_type in _KEEP_ZEROS else frozenset()


def padded_graph(bucket: Graph, padding: Padding) -> Graph:
    """A new graph with masks on the operands that need them, and further inputs for extents."""
    extents = [Value(f"{EXTENT}{number}", "int64", ()) for number in range(len(padding.extents))]
    placed: dict[int, list[PlacedMask]] = {}
    for mask in padding.masks:
        placed.setdefault(mask.operator, []).append(mask)
    masker = _Masker(extents, {v: op for op in bucket.operators for v in op.outputs if v})
    operators: list[Operator] = []
    for number, operator in enumerate(bucket.operators):
        inputs = list(operator.inputs)
        for mask in placed.get(number, ()):
            operand = inputs[mask.need.index]
            assert operand is not None, operator.node
            inputs[mask.need.index] = masker.masked(operand, mask, operators)
        operators.append(replace(operator, inputs=inputs))
    return Graph([*bucket.inputs, *extents], list(bucket.outputs), operators)


@dataclass(slots=True)
class _Masker:
    """Makes masks; a tensor with the same mask is masked once.

    `makers` has the operator of the bucket that computes each value.
    """

    extents: Sequence[Value]
    makers: dict[Value, Operator]
    conditions: dict[tuple[int, int, int], Value] = field(
        default_factory=dict[tuple[int, int, int], Value]
    )
    done: dict[tuple[Value, int, float], Value] = field(
        default_factory=dict[tuple[Value, int, float], Value]
    )

    def masked(self, value: Value, mask: PlacedMask, operators: list[Operator]) -> Value:
        """The tensor with its padding along the mask's axis replaced."""
        key = value, mask.need.axis, mask.need.fill
        if key not in self.done:
            source, axis, path = self._source(value, mask.need.axis)
            moved = self._where(source, axis, mask, operators)
            for operator in path:
                moved = _again(operator, moved, operators)
            self.done[key] = moved
        return self.done[key]

    def _source(self, value: Value, axis: int) -> tuple[Value, int, list[Operator]]:
        """The tensor whose elements the operators of a path only move, and the axis in it.

        A mask there is fused with the operator that computes the tensor.
        """
        path: list[Operator] = []
        while (maker := self.makers.get(value)) is not None:
            before = maker.operand(0) if is_moved(maker) else None
            found = None if before is None else _axis_before(maker, before, value, axis)
            if before is None or found is None or before.array is not None:
                break
            path.insert(0, maker)
            value, axis = before, found
        return value, axis, path

    def _where(self, value: Value, axis: int, mask: PlacedMask, operators: list[Operator]) -> Value:
        fill = fill_value(value, mask.need.fill)
        inside = self._inside(value, axis, mask.extent, operators)
        other = constant("padding", np.asarray(fill, numpy_dtype(value.dtype)))
        result = Value(f"{value.name}.masked", value.dtype, value.shape)
        inputs: list[Value | None] = [inside, value, other]
        operators.append(Operator("Where", "padding", inputs, [result], {}))
        return result

    def _inside(self, value: Value, axis: int, extent: int, operators: list[Operator]) -> Value:
        """Whether each index along an axis is below the extent: bool[size, 1, ...]."""
        size, after = value.shape[axis], value.rank - 1 - axis
        key = size, after, extent
        if key not in self.conditions:
            shape = (size, *[1] * after)
            indices = constant("padding.index", np.arange(size).reshape(shape))
            result = Value("padding.inside", "bool", shape)
            inputs: list[Value | None] = [indices, self.extents[extent]]
            operators.append(Operator("Less", "padding", inputs, [result], {}))
            self.conditions[key] = result
        return self.conditions[key]


def _again(operator: Operator, moved: Value, operators: list[Operator]) -> Value:
    """The result of an operator on another tensor."""
    result = Value(f"{operator.output.name}.masked", moved.dtype, operator.output.shape)
    inputs = [moved, *operator.inputs[1:]]
    operators.append(replace(operator, inputs=inputs, outputs=[result]))
    return result


def _axis_before(operator: Operator, before: Value, after: Value, axis: int) -> int | None:
    """The axis of an operand that a Transpose or a view moves to an axis of the result."""
    if operator.op_type == "Transpose":
        return int(operator.attributes["perm"][axis])
    wanted = after.shape[axis], prod(after.shape[axis + 1 :])
    sizes = ((size, prod(before.shape[i + 1 :])) for i, size in enumerate(before.shape))
    return next((i for i, found in enumerate(sizes) if found == wanted), None)


def is_moved(operator: Operator) -> bool:
    """Whether an operator only moves elements."""
    return operator.op_type == "Transpose" or KINDS[operator.op_type] is Kind.VIEW
