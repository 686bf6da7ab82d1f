"""The bucket's graph with masks on the operands that need them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from onnx import helper

from compiler.frontend.graph import Graph, Operator, Value, constant, makers_of
from compiler.frontend.padding.effects import Mask, Tail, Wrap
from compiler.frontend.padding.graphs import Padding, PlacedNeed
from compiler.ir.values import numpy_dtype
from compiler.net.operators import KINDS, Kind

EXTENT = "padding.extent."
"""How the names of inputs for extents begin."""


TrueExtent = tuple[int, Value]
"""A size of the bucket, and the input with the extent in it."""


def padded_graph(bucket: Graph, padding: Padding) -> Graph:
    """A new graph with what padding needs, and further inputs for extents."""
    extents = [Value(f"{EXTENT}{number}", "int64", ()) for number in range(len(padding.extents))]
    placed: dict[int, list[tuple[PlacedNeed, Value]]] = {}
    for place, number in padding.needs.items():
        placed.setdefault(place.operator, []).append((place, extents[number]))
    masker, operators = _Masker(makers_of(bucket)), list[Operator]()
    for number, operator in enumerate(bucket.operators):
        operators += _padded(operator, placed.get(number, ()), masker)
    return Graph([*bucket.inputs, *extents], list(bucket.outputs), operators)


def _padded(
    operator: Operator, places: Sequence[tuple[PlacedNeed, Value]], masker: "_Masker"
) -> list[Operator]:
    """An operator with its needs, or in place of it the operators that have them."""
    inputs, counts, tails = list(operator.inputs), list[TrueExtent](), list[tuple[Tail, Value]]()
    for place, extent in places:
        need = place.need
        operand = inputs[need.index]
        assert operand is not None, operator.node
        if isinstance(need, Mask):
            inputs[need.index] = masker.masked(operand, need, place, extent)
        elif isinstance(need, Wrap):
            inputs[need.index] = masker.wrapped(operand, need, extent)
        elif isinstance(need, Tail):
            tails.append((need, extent))
        else:
            counts.append((place.size, extent))
    padded = replace(operator, inputs=inputs)
    if tails:
        masker.sliced(padded, tails)
    elif counts:
        masker.averaged(padded, counts)
    else:
        masker.operators.append(padded)
    return masker.take()


@dataclass(slots=True)
class _Masker:
    """Makes masks; a tensor with the same mask is masked once.

    `makers` has the operator of the bucket that computes each value.
    """

    makers: dict[Value, Operator]
    operators: list[Operator] = field(default_factory=list[Operator])
    conditions: dict[tuple[Any, ...], Value] = field(default_factory=dict[tuple[Any, ...], Value])
    done: dict[tuple[Any, ...], Value] = field(default_factory=dict[tuple[Any, ...], Value])

    def take(self) -> list[Operator]:
        """The operators that were made since the last time."""
        made, self.operators = self.operators, []
        return made

    def masked(self, value: Value, mask: Mask, place: PlacedNeed, extent: Value) -> Value:
        """The tensor with its padding along a factor of the mask's axis replaced."""
        key = value, mask.axis, str(mask.fill), place.stride, place.size, extent
        if key not in self.done:
            source, axis, stride, path = self._source(value, mask.axis, place)
            inside = self._inside(source, axis, stride, place.size, extent)
            fill = np.asarray(fill_value(value, mask.fill), numpy_dtype(value.dtype))
            moved = self._made("Where", source, [inside, source, constant("padding", fill)])
            for operator in path:
                moved = self._again(operator, moved)
            self.done[key] = moved
        return self.done[key]

    def wrapped(self, value: Value, wrap: Wrap, extent: Value) -> Value:
        """Indices into a padded axis as they are in the smaller graph, from 0 to its end."""
        key = value, wrap.axis, wrap.position, extent
        if key not in self.done:
            self.done[key] = self._wrapped(value, wrap, extent)
        return self.done[key]

    def _wrapped(self, value: Value, wrap: Wrap, extent: Value) -> Value:
        """The indices of a position of tuples, or all, modulo the extent and clamped to it."""
        zero, one = (constant("padding", np.asarray(n, value.dtype)) for n in (0, 1))
        size = self._cast(extent, value.dtype)
        last = Value("padding.last", value.dtype, ())
        self._add("Sub", [size, one], last)
        below = Value("padding.below", "bool", value.shape)
        self._add("Less", [value, zero], below)
        moved = self._made("Add", value, [value, size])
        chosen = self._made("Where", value, [below, moved, value])
        clamped = self._made("Min", value, [self._made("Max", value, [chosen, zero]), last])
        if wrap.position is None:
            return clamped
        here = constant("padding.here", np.arange(value.shape[-1]) == wrap.position)
        return self._made("Where", value, [here, clamped, value])

    def averaged(self, operator: Operator, extents: Sequence[TrueExtent]) -> None:
        """Make a mean whose padding is zeros: the sum, divided by the number of elements."""
        data, result = operator.operand(0), operator.output
        pools = operator.op_type == "GlobalAveragePool"
        axes = [*range(2, operator.operand(0).rank)] if pools else operator["axes"]
        whole = prod(data.shape[axis] for axis in axes) // prod(size for size, _ in extents)
        count = constant("padding.count", np.asarray(whole, np.int64))
        for _, extent in extents:
            factor, count = count, Value("padding.count", "int64", ())
            self._add("Mul", [factor, extent], count)
        dtype = "float64" if data.dtype == "float64" else "float32"
        total = Value(f"{result.name}.sum", dtype, result.shape)
        keep = int(len(result.shape) == len(data.shape))  # a global pool has no keepdims
        self._add("ReduceSum", [self._cast(data, dtype)], total, axes=axes, keepdims=keep)
        wide = (
            result if result.dtype == dtype else Value(f"{result.name}.wide", dtype, result.shape)
        )
        self._add("Div", [total, self._cast(count, dtype)], wide)
        if wide is not result:
            self._add("Cast", [wide], result, to=_element(result.dtype))

    def sliced(self, operator: Operator, tails: Sequence[tuple[Tail, Value]]) -> None:
        """Make a Slice of which some axes begin at a distance from the end of the run's."""
        apart, value = {tail.axis for tail, _ in tails}, operator.operand(0)
        whole = {"start": [0] * value.rank, "step": [1] * value.rank, "size": list(value.shape)}
        rest = {
            name: [
                numbers[axis] if axis in apart else own for axis, own in enumerate(operator[name])
            ]
            for name, numbers in whole.items()
        }
        shape = rest["size"]
        if rest != whole:
            result = Value(f"{operator.output.name}.rest", value.dtype, tuple(shape))
            self._add("Slice", [value], result, **rest)
            value, shape = result, list(shape)
        for number, (tail, extent) in enumerate(tails):
            shape[tail.axis] = tail.count
            last = number == len(tails) - 1
            name = f"{operator.output.name}.part"
            result = operator.output if last else Value(name, value.dtype, tuple(shape))
            self._add("Gather", [value, self._from_end(tail, extent)], result, axis=tail.axis)
            value = result

    def _from_end(self, tail: Tail, extent: Value) -> Value:
        """The indices of a slice, as far from the extent as they are from the end."""
        steps = np.arange(tail.count, dtype=np.int64) * tail.step - tail.distance
        result = Value("padding.tail", "int64", steps.shape)
        self._add("Add", [constant("padding.step", steps), extent], result)
        return result

    def _cast(self, value: Value, dtype: str) -> Value:
        """A tensor in another type."""
        if value.dtype == dtype:
            return value
        result = Value(f"{value.name}.{dtype}", dtype, value.shape)
        self._add("Cast", [value], result, to=_element(dtype))
        return result

    def _source(
        self, value: Value, axis: int, place: PlacedNeed
    ) -> tuple[Value, int, int, list[Operator]]:
        """The tensor whose elements the operators of a path only move, and the factor in it.

        A mask there is fused with the operator that computes the tensor.
        """
        path, stride = list[Operator](), place.stride
        while (maker := self.makers.get(value)) is not None:
            before = maker.operand(0) if is_moved(maker) else None
            if before is None or before.array is not None:
                break
            found = factor_before(maker, axis, stride, place.size)
            if found is None:
                break
            path.insert(0, maker)
            value, (axis, stride) = before, found
        return value, axis, stride, path

    def _inside(self, value: Value, axis: int, stride: int, size: int, extent: Value) -> Value:
        """Whether each index along a factor is below the extent: bool[size, 1, ...]."""
        count, after = value.shape[axis], value.rank - 1 - axis
        key = count, stride, size, after, extent
        if key not in self.conditions:
            numbers = np.arange(count) // stride % size
            indices = constant("padding.index", numbers.reshape(count, *[1] * after))
            result = Value("padding.inside", "bool", (count, *[1] * after))
            self._add("Less", [indices, extent], result)
            self.conditions[key] = result
        return self.conditions[key]

    def _again(self, operator: Operator, moved: Value) -> Value:
        """The result of an operator on another tensor."""
        result = Value(f"{operator.output.name}.masked", moved.dtype, operator.output.shape)
        inputs = [moved, *operator.inputs[1:]]
        self.operators.append(replace(operator, inputs=inputs, outputs=[result]))
        return result

    def _made(self, op_type: str, like: Value, inputs: list[Value | None]) -> Value:
        """The result of an operator, of the type of a tensor."""
        result = Value(f"{like.name}.masked", like.dtype, like.shape)
        self._add(op_type, inputs, result)
        return result

    def _add(
        self, op_type: str, inputs: list[Value | None], result: Value, **attributes: Any
    ) -> None:
        self.operators.append(Operator(op_type, "padding", inputs, [result], attributes))


def _element(dtype: str) -> int:
    """ONNX's number of a type."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(numpy_dtype(dtype)))


def factor_before(operator: Operator, axis: int, stride: int, size: int) -> tuple[int, int] | None:
    """The axis and stride, in a Transpose's or a view's operand, of a factor of its result."""
    if operator.op_type == "Transpose":
        return int(operator.attributes["perm"][axis]), stride
    before, after = operator.operand(0).shape, operator.output.shape
    apart = stride * prod(after[axis + 1 :])
    for number, count in enumerate(before):
        inner = prod(before[number + 1 :])
        if inner and apart % inner == 0 and count % (apart // inner * size) == 0 and count > 1:
            return number, apart // inner
    return None


def is_moved(operator: Operator) -> bool:
    """Whether an operator only moves elements."""
    return operator.op_type == "Transpose" or KINDS[operator.op_type] is Kind.VIEW


def fill_value(value: Value, fill: float) -> Any:
    """A neutral element in a tensor's type: the type's limit for an infinity of integers."""
    dtype = np.dtype(numpy_dtype(value.dtype))
    if dtype.kind in "iu" and np.isinf(fill):
        limits = np.iinfo(dtype.name)
        return limits.min if fill < 0 else limits.max
    return fill
